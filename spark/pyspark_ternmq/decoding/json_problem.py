"""Why a body is no JSON of a schema: which field it is, and what kind of value it has. Values may be private.

Spark has decided that the body is none. This looks for the reason in the order of the schema's fields; where it finds
none, a text in a field of another type is named, such as one that Spark does not take for a time.
"""

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

UNKNOWN = "the body does not have the form of the schema"
PATH_CHARACTERS_MAX = 200
_INTEGER_BITS: Mapping[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
# Which texts Spark takes for a number: others are no number to it.
_NUMBER_TEXTS = {"NaN", "+INF", "INF", "+Infinity", "Infinity", "-INF", "-Infinity"}


def json_problems(bodies: "Column", schema: StructType) -> "Column":
    """Return for each body why it is no JSON of the schema; null for a null body."""

    def explain_batch(batch: pa.Array) -> pa.Array:
        # Nearly always there is nothing to explain.
        if batch.null_count == len(batch):
            return pa.nulls(len(batch), pa.string())
        found = (None if body is None else json_problem(body, schema) for body in batch.to_pylist())
        return pa.array(list(found), pa.string())

    return arrow_udf(explain_batch, StringType())(bodies)  # type: ignore[call-overload, no-any-return]


def json_problem(body: bytes, schema: StructType) -> str:
    """`field lines[2].price is a string, not double`."""
    try:
        value = json.loads(body, parse_float=Decimal)
    except RecursionError:
        return "too many levels"
    except UnicodeDecodeError:
        return "the body is not UTF-8"
    except json.JSONDecodeError as error:
        return f"the body is not JSON: {error.msg} at character {error.pos + 1}"
    except ValueError:
        return "the body has a number of too many digits"
    if not isinstance(value, dict):
        return f"the body is {_kind_of_value(value, schema)}, not an object"
    found = next(_find_problems("", value, schema, is_sure=True), None) or next(
        _find_problems("", value, schema, is_sure=False), None
    )
    return UNKNOWN if found is None else f"field {found}"


def _find_problems(path: str, value: Any, wanted: DataType, *, is_sure: bool) -> Iterator[str]:  # noqa: ANN401 - JSON
    """Find values that do not fit, field by field; uncertain ones are texts whose form only Spark knows."""
    if value is None:
        return
    if isinstance(wanted, StructType) and isinstance(value, dict):
        for field in wanted.fields:
            yield from _find_problems(
                _child_path(path, field.name), value.get(field.name), field.dataType, is_sure=is_sure
            )
    elif isinstance(wanted, ArrayType) and isinstance(value, list):
        for number, one in enumerate(value):
            yield from _find_problems(f"{path}[{number}]", one, wanted.elementType, is_sure=is_sure)
    elif isinstance(wanted, MapType) and isinstance(value, dict):
        for name, one in value.items():
            yield from _find_problems(_child_path(path, name), one, wanted.valueType, is_sure=is_sure)
    elif _is_wrong(value, wanted) if is_sure else isinstance(value, str) and not isinstance(wanted, StringType):
        yield f"{path} is {_kind_of_value(value, wanted)}, not {_type_text(wanted)}"


def _child_path(path: str, name: str) -> str:
    """Names of a map's values are the sender's, and may be long."""
    return (f"{path}.{name}" if path else name)[:PATH_CHARACTERS_MAX]


def _is_wrong(value: Any, wanted: DataType) -> bool:  # noqa: ANN401 - JSON
    """Whether no value of this kind can be of a type; of structs, arrays and maps only other kinds come here."""
    if isinstance(wanted, StringType):
        return False
    if isinstance(wanted, StructType | ArrayType | MapType):
        return True
    if isinstance(value, dict | list):
        return True
    if isinstance(wanted, BooleanType) or isinstance(value, bool):
        return not (isinstance(wanted, BooleanType) and isinstance(value, bool))
    if (bits := _INTEGER_BITS.get(type(wanted))) is not None:
        return not isinstance(value, int) or not -(1 << bits - 1) <= value < 1 << bits - 1
    if isinstance(wanted, FloatType | DoubleType):
        return isinstance(value, str) and value not in _NUMBER_TEXTS
    if isinstance(wanted, DecimalType):
        return not _fits_decimal(value, wanted)
    # A date, a time or bytes: of texts Spark alone knows the form.
    return False


def _fits_decimal(value: int | Decimal | float | str, wanted: DecimalType) -> bool:
    try:
        number = Decimal(value)
    except InvalidOperation:
        return False
    # More digits behind the point are rounded away, more before it have no room.
    return number.is_finite() and (not number or number.adjusted() < wanted.precision - wanted.scale)


def _kind_of_value(value: Any, wanted: DataType) -> str:  # noqa: ANN401 - JSON
    if isinstance(value, int) and not isinstance(value, bool) and isinstance(wanted, (*_INTEGER_BITS, DecimalType)):
        return f"an integer of {len(str(abs(value)))} digits"
    kinds = {bool: "a boolean", int: "an integer", str: "a string", list: "an array", dict: "an object"}
    return "null" if value is None else kinds.get(type(value), "a number with a fraction")


def _type_text(wanted: DataType) -> str:
    for kind, word in ((StructType, "an object"), (ArrayType, "an array"), (MapType, "an object")):
        if isinstance(wanted, kind):
            return word
    return wanted.simpleString()
