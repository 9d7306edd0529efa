"""Bodies in JSON: plain values, dataclasses, and models of pydantic (version 2), which is imported only if one of its
models is given.

Written    UTF-8 without white space; a dataclass as its fields, a model as by `model_dump(mode="json")`; an Enum as its
           value; datetime, date, time, UUID and Decimal as text
Read       by the types of the fields, also nested ones; what a dataclass doesn't know is left out, as pydantic does; a
           float may be written as an integer. Other types than those above, containers of them, Literals and unions are
           refused, and so are unions of several dataclasses, since nothing distinguishes these
Strict     NaN and Infinity are not JSON, neither written nor read
"""

import dataclasses
import datetime
import decimal
import enum
import functools
import json
import types
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import (
    Any,
    ClassVar,
    Literal,
    NoReturn,
    Protocol,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

ERRORS_SHOWN_MAX = 5
_PLAIN = (str, bool, int, float, type(None))
_ARRAYS = frozenset({list, Sequence, tuple, set, frozenset})
_FROM_TEXT: dict[object, Callable[[str], object]] = {
    datetime.datetime: datetime.datetime.fromisoformat,
    datetime.date: datetime.date.fromisoformat,
    datetime.time: datetime.time.fromisoformat,
    uuid.UUID: uuid.UUID,
    decimal.Decimal: decimal.Decimal,
}


class DataclassInstance(Protocol):
    """Any dataclass."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]


class PydanticModel(Protocol):
    """The part of a pydantic model that is used."""

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, /) -> Self: ...


ModelT = TypeVar("ModelT", bound=DataclassInstance | PydanticModel)


def encode_body(value: object) -> bytes:
    """Encode a body; TypeError for values without a JSON form, ValueError for NaN, Infinity, cycles and lone
    surrogates."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_convert_value)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"the lone surrogate {text[error.start]!r} in a text of the value is no character") from None


def decode_body(body: bytes, model: type[ModelT] | None) -> object:
    """Decode a body, to an instance of `model` if given; ValueError, with a text for people, if it can't be."""
    if model is not None and hasattr(model, "model_validate_json"):
        return _validate_model(body, model)
    try:
        value = json.loads(body, parse_constant=_refuse_constant)
        return value if model is None else _convert_to(model, value, "")
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def check_model(model: object) -> None:
    """TypeError unless `model` is a class that `decode_body` can create."""
    if not isinstance(model, type) or not (hasattr(model, "model_validate_json") or dataclasses.is_dataclass(model)):
        raise TypeError(f"json() makes dataclasses and pydantic models, which {model!r} is not")


def _convert_value(value: object) -> object:
    """Convert a value that `json` doesn't know by itself."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return value.model_dump(mode="json")
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, set | frozenset):
        return list(value)
    if isinstance(value, uuid.UUID | decimal.Decimal):
        return str(value)
    raise TypeError(f"JSON has no form for a {type(value).__name__}: {value!r:.100}")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _validate_model(body: bytes, model: Any) -> object:  # noqa: ANN401 - a class with `model_validate_json`
    from pydantic import ValidationError  # installed, since the model is one of pydantic

    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        # Without the values, which may be secret and long.
        errors = error.errors(include_url=False, include_input=False, include_context=False)
        problems = [f"{'.'.join(map(str, one['loc'])) or 'body'}: {one['msg']}" for one in errors[:ERRORS_SHOWN_MAX]]
        more = [f"{len(errors) - ERRORS_SHOWN_MAX} more"] if len(errors) > ERRORS_SHOWN_MAX else []
        raise ValueError("; ".join(problems + more)) from error


# Dataclasses.


def _convert_to(wanted: Any, value: object, place: str) -> object:  # noqa: ANN401 - an annotation can be anything
    """Convert `value` to the type `wanted`; `place` names it in errors."""
    if wanted in {Any, object}:
        return value
    if dataclasses.is_dataclass(wanted) and isinstance(wanted, type):
        return _create_instance(wanted, value, place)
    origin = get_origin(wanted)
    if origin in {Union, types.UnionType}:
        return _convert_union(get_args(wanted), value, place)
    if origin is Literal:
        # 1 == True, and they are not the same in JSON.
        if any(type(value) is type(one) and value == one for one in get_args(wanted)):
            return value
        raise _mismatch_error(wanted, place)
    if origin is not None or wanted in {dict, *_ARRAYS}:
        return _convert_container(origin or wanted, get_args(wanted), value, place)
    return _convert_scalar(wanted, value, place)


def _create_instance(wanted: type, value: object, place: str) -> object:
    if not isinstance(value, dict):
        raise _mismatch_error(wanted, place)
    hints = _type_hints(wanted)
    fields = [field for field in dataclasses.fields(wanted) if field.init]
    values: dict[str, object] = {}
    for field in fields:
        there = _member_path(place, field.name)
        if field.name in value:
            values[field.name] = _convert_to(hints[field.name], value[field.name], there)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ValueError(f"{there} is missing")
    return wanted(**values)


@functools.cache
def _type_hints(wanted: type) -> dict[str, Any]:
    return get_type_hints(wanted)


def _convert_union(options: Sequence[Any], value: object, place: str) -> object:
    """Convert to the first fitting type of a union, with one look into the value: trying several dataclasses at each
    level would let a body take for ever."""
    shape = type(value) if type(value) in {dict, list} else None
    fitting = [option for option in options if option in {Any, object} or _json_shape(option) is shape]
    if shape is not None and len(fitting) > 1:
        names = ", ".join(getattr(option, "__name__", str(option)) for option in fitting)
        raise TypeError(f"{place}: it is ambiguous which of {names} a JSON value is; pydantic has unions with a tag")
    # The value's own type comes first: for `float | int`, 1 is an int.
    for option in sorted(fitting, key=lambda option: option is not type(value)):
        try:
            return _convert_to(option, value, place)
        except ValueError:
            if shape is not None:
                raise
    raise _mismatch_error(" or ".join(getattr(option, "__name__", str(option)) for option in options), place)


def _json_shape(wanted: Any) -> type | None:  # noqa: ANN401
    """Return the JSON form of the type: an object, an array, or None for a scalar."""
    if dataclasses.is_dataclass(wanted):
        return dict
    origin = get_origin(wanted) or wanted
    if origin in {dict, Mapping}:
        return dict
    return list if origin in _ARRAYS else None


def _convert_container(kind: Any, items: Sequence[Any], value: object, place: str) -> object:  # noqa: ANN401
    if kind in {dict, Mapping}:
        key, item = items or (str, Any)
        if not isinstance(value, dict):
            raise _mismatch_error(dict, place)
        return {
            _convert_to(key, one, place): _convert_to(item, each, _member_path(place, repr(one)[:60]))
            for one, each in value.items()
        }
    if kind not in _ARRAYS:
        raise _unsupported_error(kind, place)
    if not isinstance(value, list):
        raise _mismatch_error(list, place)
    if kind is tuple and items and items[-1] is not Ellipsis:
        if len(items) != len(value):
            raise ValueError(f"{place or 'body'} has {len(value)} items instead of {len(items)}")
        pairs = zip(items, value, strict=True)
    else:
        pairs = zip([items[0] if items else Any] * len(value), value, strict=True)
    converted = [_convert_to(item, each, f"{place}[{number}]") for number, (item, each) in enumerate(pairs)]
    return converted if kind is Sequence else kind(converted)


def _convert_scalar(wanted: Any, value: object, place: str) -> object:  # noqa: ANN401
    if wanted in _PLAIN or wanted is None:
        fits = type(value) is (type(None) if wanted is None else wanted) or (wanted is float and type(value) is int)
        if not fits:
            raise _mismatch_error(wanted, place)
        if wanted is not float or not isinstance(value, int):
            return value
        try:
            return float(value)
        except OverflowError:
            raise _mismatch_error(wanted, place) from None
    if wanted in _FROM_TEXT and isinstance(value, str):
        try:
            return _FROM_TEXT[wanted](value)
        except (ValueError, decimal.InvalidOperation):
            raise _mismatch_error(wanted, place) from None
    if isinstance(wanted, type) and issubclass(wanted, enum.Enum):
        try:
            return wanted(value)
        except ValueError:
            raise _mismatch_error(wanted, place) from None
    if wanted in _FROM_TEXT:
        raise _mismatch_error(wanted, place)
    raise _unsupported_error(wanted, place)


def _mismatch_error(wanted: object, place: str) -> ValueError:
    return ValueError(f"{place or 'body'} is no {getattr(wanted, '__name__', wanted)}")


def _unsupported_error(wanted: object, place: str) -> TypeError:
    return TypeError(f"{place or 'a body'} of type {wanted!r} can't be read from JSON")


def _member_path(place: str, name: object) -> str:
    return f"{place}.{name}" if place else str(name)
