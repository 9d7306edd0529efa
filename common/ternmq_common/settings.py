"""Typed settings from defaults < a TOML file < `TERNMQ_*` variables < flags, each value with its origin.

A settings class is a frozen, keyword-only dataclass. Its field names are the keys of the file and, in upper case behind
`TERNMQ_`, the variables; a flag is `--field-name`, or what `metadata={"flag": "--name"}` says. Field types: int, float,
bool, str, Path, enums, and each of them `| None` (written `none`, or `auto` where the server finds a value itself).

Sizes       fields named `*_bytes*` take `64MiB`, `1GiB`, `10MB` (decimal) or a plain number of bytes
Durations   fields named `*_ms`, `*_s` take `500ms`, `90s`, `15m`, `72h`, `3d`, `1h30m` or a plain number in that unit
Passwords   that in the URL of a field named `registry` is never shown

What a class finds wrong with itself it raises as `InvalidSetting`; here that becomes one line with the value's origin.
"""

import dataclasses
import difflib
import enum
import re
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ternmq_common.errors import StartupError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

VARIABLE_PREFIX = "TERNMQ_"
# Read by the `ternmq` command itself, not settings of a process.
OTHER_VARIABLES = frozenset({"TERNMQ_CONFIG", "TERNMQ_ENDPOINT"})
DEFAULT = "default"

SIZE_UNITS = {
    "TiB": 1024**4,
    "GiB": 1024**3,
    "MiB": 1024**2,
    "KiB": 1024,
    "TB": 1000**4,
    "GB": 1000**3,
    "MB": 1000**2,
    "KB": 1000,
    "B": 1,
}
DURATION_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
TRUE_WORDS = frozenset({"true", "yes", "on", "1"})
FALSE_WORDS = frozenset({"false", "no", "off", "0"})
AUTOMATIC = frozenset({"connections_max", "disk_free_min_bytes"})
"""Fields whose None is written `auto`."""

_SIZE_FACTORS = {unit.lower(): factor for unit, factor in SIZE_UNITS.items()}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.ASCII)
_PASSWORD = re.compile(r"(://[^:/@]*:).*@|(password=)[^&]*", re.IGNORECASE)
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|d|h|m|s)", re.ASCII)

S = TypeVar("S", bound="DataclassInstance")


class InvalidSetting(ValueError):
    """A settings class refuses the value of one of its fields; `problem` says what is allowed."""

    def __init__(self, name: str, problem: str) -> None:
        self.name, self.problem = name, problem
        super().__init__(f"{name}: {problem}")


class SettingsError(StartupError):
    """A setting is unknown, unreadable or out of range; the text names it and where it came from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded(Generic[S]):
    """Settings in force, and for each field's name where its value came from."""

    settings: S
    origins: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Given:
    value: object
    origin: str


def load(cls: type[S], *, file: Path | None, environ: Mapping[str, str], flags: Mapping[str, object]) -> Loaded[S]:
    """Make a `cls`; a flag whose value is None was not given."""
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}
    assert flags.keys() <= fields.keys(), f"flags without a field: {flags.keys() - fields.keys()}"
    given: dict[str, _Given] = {}
    if file is not None:
        given |= _from_file(file, fields)
    given |= _from_environment(environ, fields)
    given |= {name: _Given(value, _flag_name(fields[name])) for name, value in flags.items() if value is not None}
    origins = {name: given[name].origin if name in given else DEFAULT for name in fields}
    values = {name: _converted(name, hints[name], entry) for name, entry in given.items()}
    try:
        settings = cls(**values)
    except InvalidSetting as refusal:
        value = values.get(refusal.name, fields[refusal.name].default)
        shown = rendered(refusal.name, value)
        raise SettingsError(f"{refusal.name} = {shown} (from {origins[refusal.name]}): {refusal.problem}") from None
    return Loaded(settings=settings, origins=origins)


def variable_name(field_name: str) -> str:
    """`TERNMQ_DATA_DIR` for `data_dir`."""
    return VARIABLE_PREFIX + field_name.upper()


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown word: `; did you mean 'grpc'?`, or all that is known."""
    names = sorted(known)
    nearest = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    return f"; did you mean {nearest[0]!r}?" if nearest else f"; known are {', '.join(names)}"


def parsed_size(text: str) -> int:
    """Bytes of `64MiB`, `1.5GiB`, `10MB` or `4096`; ValueError says what is allowed."""
    match = _SIZE.fullmatch(text.strip().lower())
    factor = _SIZE_FACTORS.get(match[2] or "b") if match else None
    if match is None or factor is None:
        raise ValueError("a size like 64MiB, 1GiB or 4096 is needed")
    size = Decimal(match[1]) * factor
    if size != int(size):
        raise ValueError("a whole number of bytes is needed")
    return int(size)


def parsed_duration(text: str, *, unit: str) -> Decimal:
    """`text` in `unit` (`ms` or `s`): `500ms`, `90s`, `1h30m`, or a plain number that is in `unit` already."""
    compact = text.strip().lower().replace(" ", "")
    if re.fullmatch(r"\d+(\.\d+)?", compact, re.ASCII):
        return Decimal(compact)
    parts = _DURATION_PART.findall(compact)
    if not parts or "".join(number + name for number, name in parts) != compact:
        raise ValueError("a duration like 500ms, 90s, 15m, 72h or 3d is needed")
    total_ms = sum((Decimal(number) * DURATION_UNITS_MS[name] for number, name in parts), Decimal(0))
    return total_ms / DURATION_UNITS_MS[unit]


def rendered_duration(milliseconds: int) -> str:
    """`500ms`, `90s`, `2h`: in the largest unit that it is a whole number of."""
    return _in_largest_unit(milliseconds, DURATION_UNITS_MS) if milliseconds else "0s"


def spelled_duration(milliseconds: int) -> str:
    """`39d4h12m5s`: to the second, in all units that it has a part of."""
    rest, parts = milliseconds, list[str]()
    for unit, size in DURATION_UNITS_MS.items():
        number, rest = divmod(rest, size)
        if number and size >= DURATION_UNITS_MS["s"]:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"


def without_password(url: str) -> str:
    """The URL as it may be shown. It need not be a right one: what could be a password is hidden."""
    return _PASSWORD.sub(lambda found: f"{found[1]}***@" if found[1] else f"{found[2]}***", url)


def rendered(name: str, value: object) -> str:
    """A field's value as a person would write it in the file: `1GiB`, `72h`, `true`."""
    if value is None:
        return _absent_word(name)
    if isinstance(value, bool):
        return str(value).lower()
    if name == "registry":
        return without_password(str(value))
    if isinstance(value, int) and value > 0:
        if _is_size(name):
            return _in_largest_unit(value, {unit: n for unit, n in SIZE_UNITS.items() if "i" in unit or unit == "B"})
        if unit := _duration_unit(name):
            return _in_largest_unit(value * DURATION_UNITS_MS[unit], DURATION_UNITS_MS)
    return str(value)


def _from_file(file: Path, fields: Mapping[str, "dataclasses.Field[Any]"]) -> dict[str, _Given]:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SettingsError(f"can't read the settings file {file}: {reason}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"the settings file {file} is not TOML: {error}") from None
    for key in table:
        if key not in fields:
            raise SettingsError(f"unknown setting {key!r} in {file}{did_you_mean(key, fields)}")
    return {key: _Given(value, f"file {file}") for key, value in table.items()}


def _from_environment(environ: Mapping[str, str], fields: Mapping[str, "dataclasses.Field[Any]"]) -> dict[str, _Given]:
    by_variable = {variable_name(name): name for name in fields}
    ours = {key: text for key, text in environ.items() if key.startswith(VARIABLE_PREFIX)}
    for variable in sorted(ours.keys() - by_variable.keys() - OTHER_VARIABLES):
        raise SettingsError(f"unknown variable {variable}{did_you_mean(variable, [*by_variable, *OTHER_VARIABLES])}")
    return {by_variable[key]: _Given(text, key) for key, text in ours.items() if key in by_variable}


def _flag_name(field: "dataclasses.Field[Any]") -> str:
    return str(field.metadata.get("flag", "--" + field.name.replace("_", "-")))


def _converted(name: str, hint: object, given: _Given) -> object:
    try:
        return _as_type(name, hint, given.value)
    except (ValueError, InvalidOperation) as error:
        shown = repr(rendered(name, given.value) if name == "registry" else given.value)
        raise SettingsError(f"{name} = {shown} (from {given.origin}): {error}") from None


def _as_type(name: str, hint: object, value: object) -> object:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        (inner,) = (argument for argument in typing.get_args(hint) if argument is not type(None))
        absent = isinstance(value, str) and value.strip().lower() in {"", _absent_word(name)}
        return None if absent else _as_type(name, inner, value)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _as_enum(hint, value)
    if hint is int or hint is float:
        return _as_number(name, hint, value)
    return _PLAIN[hint](value)


def _absent_word(name: str) -> str:
    return "auto" if name in AUTOMATIC else "none"


def _as_enum(kind: type[enum.Enum], value: object) -> enum.Enum:
    if isinstance(value, kind):
        return value
    members = {str(member.value).lower(): member for member in kind}
    member = members.get(str(value).lower())
    if member is None:
        raise ValueError(f"one of {', '.join(members)} is needed")
    return member


def _as_number(name: str, kind: type[int] | type[float], value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("a number is needed")  # noqa: TRY004  (a wrong setting is one kind of error)
    if not isinstance(value, str):
        number = Decimal(value)
    elif _is_size(name):
        number = Decimal(parsed_size(value))
    elif unit := _duration_unit(name):
        number = parsed_duration(value, unit=unit)
    else:
        number = _plain_number(value)
    if kind is float:
        return float(number)
    if not number.is_finite() or number != int(number):
        raise ValueError("a whole number is needed")
    return int(number)


def _plain_number(text: str) -> Decimal:
    try:
        return Decimal(text.strip().replace("_", ""))
    except InvalidOperation:
        raise ValueError("a number is needed") from None


def _as_bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word not in TRUE_WORDS | FALSE_WORDS:
        raise ValueError("true or false is needed")
    return word in TRUE_WORDS


def _as_str(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("text in quotes is needed")  # noqa: TRY004
    return value


def _as_path(value: object) -> Path:
    if isinstance(value, Path):
        return value.expanduser()
    if not _as_str(value):
        raise ValueError("a path is needed")
    return Path(_as_str(value)).expanduser()


_PLAIN: dict[object, Callable[[object], object]] = {bool: _as_bool, str: _as_str, Path: _as_path}


def _is_size(name: str) -> bool:
    return "_bytes" in name


def _duration_unit(name: str) -> str | None:
    return next((unit for unit in ("ms", "s") if name.endswith("_" + unit)), None)


def _in_largest_unit(value: int, units: Mapping[str, int]) -> str:
    unit, factor = next((unit, factor) for unit, factor in units.items() if value % factor == 0)
    return f"{value // factor}{unit}"
