"""Loads typed settings from defaults < a TOML file < `TERNMQ_*` variables < flags, each value with its origin.

A settings class is a frozen, keyword-only dataclass. Its field names are the keys of the file and, in upper case behind
`TERNMQ_`, the variables; a flag is `--field-name`, or as `metadata={"flag": "--name"}` says. Field types: int, float,
bool, str, Path, enums, and each of them `| None` (written `none`, or `auto` where the server finds a value itself).

Sizes       fields named `*_bytes*` take `64MiB`, `1GiB`, `10MB` (decimal) or a plain number of bytes
Durations   fields named `*_ms`, `*_s` take `500ms`, `90s`, `15m`, `72h`, `3d`, `1h30m` or a plain number in that unit
Links       variables that Kubernetes sets for Services are no settings (`service_links.py`): ignored, and reported
Others      variables that are settings of another kind of process are ignored, and reported: several kinds may share
            one list of variables. In files they are errors, as a file is for one process.
Passwords   those in URLs are never shown, whatever the field, and no value of the fields in `SECRET`

A class raises `InvalidSetting` for a value that it refuses; here that becomes one line with the value's origin.
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
from ternmq_common.service_links import is_service_link
from ternmq_common.units import DURATION_UNITS_MS, SIZE_UNITS, parse_duration, parse_size, render_in_largest_unit

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

VARIABLE_PREFIX = "TERNMQ_"
# Read by the `ternmq` command itself, not settings of a process.
OTHER_VARIABLES = frozenset(
    {
        "TERNMQ_ACCESS_KEY",
        "TERNMQ_CA",
        "TERNMQ_CLIENT_CERT",
        "TERNMQ_CLIENT_KEY",
        "TERNMQ_CONFIG",
        "TERNMQ_CONTEXT",
        "TERNMQ_CREDENTIALS_FILE",
        "TERNMQ_ENDPOINT",
        "TERNMQ_SCHEMA_REGISTRY_PASSWORD",
        "TERNMQ_SCHEMA_REGISTRY_USER",
        "TERNMQ_SECRET_KEY",
        "TERNMQ_SERVER_NAME",
        "TERNMQ_SESSION_TOKEN",
        "TERNMQ_TLS",
    }
)
"""Those of the command and of its calls."""
DEFAULT = "default"

TRUE_WORDS = frozenset({"true", "yes", "on", "1"})
FALSE_WORDS = frozenset({"false", "no", "off", "0"})
AUTOMATIC = frozenset({"connections_max", "disk_free_min_bytes", "grpc_tls", "http_tls", "tls_client_auth"})
"""Fields whose None is written `auto`."""
SECRET = frozenset({"init_secret", "secrets_key"})
"""Fields whose values are shown nowhere."""
_MASK = "***"

_PASSWORD = re.compile(r"(://[^:/@]*:).*@|(password=)[^&]*", re.IGNORECASE)

S = TypeVar("S", bound="DataclassInstance")


class InvalidSetting(ValueError):
    """A settings class refuses the value of one of its fields; `problem` says what is allowed."""

    def __init__(self, name: str, problem: str) -> None:
        self.name, self.problem = name, problem
        super().__init__(f"{name}: {problem}")


class SettingsError(StartupError):
    """A setting is unknown, unreadable or out of range; the text names it and its origin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSettings(Generic[S]):
    """Settings in force, and the origin of each field's value.

    `ignored` are variables that only look like settings, `others` those of other kinds of processes.
    """

    settings: S
    origins: dict[str, str]
    ignored: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _GivenValue:
    value: object
    origin: str


def load_settings(
    cls: type[S],
    *,
    file: Path | None,
    environ: Mapping[str, str],
    flags: Mapping[str, object],
    known_elsewhere: Iterable[str] = (),
) -> LoadedSettings[S]:
    """Load settings of the class `cls`; a flag with the value None was not given.

    `known_elsewhere` are fields of other settings classes, whose variables are no errors here.
    """
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}
    assert flags.keys() <= fields.keys(), f"flags without a field: {flags.keys() - fields.keys()}"
    given: dict[str, _GivenValue] = {}
    if file is not None:
        given |= _read_file(file, fields)
    foreign = {variable_name(name) for name in known_elsewhere if name not in fields}
    others = tuple(sorted(foreign & environ.keys()))
    ignored = _service_links({key: text for key, text in environ.items() if key not in others}, fields)
    left_out = {*others, *ignored}
    given |= _read_environment({key: text for key, text in environ.items() if key not in left_out}, fields)
    given |= {name: _GivenValue(value, _flag_name(fields[name])) for name, value in flags.items() if value is not None}
    origins = {name: given[name].origin if name in given else DEFAULT for name in fields}
    values = {name: _convert_value(name, hints[name], entry) for name, entry in given.items()}
    try:
        settings = cls(**values)
    except InvalidSetting as refusal:
        value = values.get(refusal.name, fields[refusal.name].default)
        shown = render_value(refusal.name, value)
        raise SettingsError(f"{refusal.name} = {shown} (from {origins[refusal.name]}): {refusal.problem}") from None
    return LoadedSettings(settings=settings, origins=origins, ignored=ignored, others=others)


def variable_name(field_name: str) -> str:
    """The variable of a field: `TERNMQ_DATA_DIR` for `data_dir`."""
    return VARIABLE_PREFIX + field_name.upper()


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown word: `; did you mean 'grpc'?`, or all that is known."""
    names = sorted(known)
    nearest = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    return f"; did you mean {nearest[0]!r}?" if nearest else f"; known are {', '.join(names)}"


def without_password(url: str) -> str:
    """The URL with its password hidden. It need not be valid: what could be a password is hidden."""
    return _PASSWORD.sub(lambda found: f"{found[1]}***@" if found[1] else f"{found[2]}***", url)


def render_value(name: str, value: object) -> str:
    """A field's value as a person would write it in the file: `1GiB`, `72h`, `true`."""
    if value is None:
        return _absent_word(name)
    if name in SECRET:
        return _MASK
    if isinstance(value, bool):
        return str(value).lower()
    if _may_be_url(name, value):
        return without_password(str(value))
    if isinstance(value, int) and value > 0:
        if _is_size(name):
            return render_in_largest_unit(
                value, {unit: n for unit, n in SIZE_UNITS.items() if "i" in unit or unit == "B"}
            )
        if unit := _duration_unit(name):
            return render_in_largest_unit(value * DURATION_UNITS_MS[unit], DURATION_UNITS_MS)
    return str(value)


def differing_fields(settings: "DataclassInstance") -> dict[str, str]:
    """The fields that differ from their defaults, each as `render_value`."""
    values = {field.name: (getattr(settings, field.name), field.default) for field in dataclasses.fields(settings)}
    return {name: render_value(name, value) for name, (value, default) in values.items() if value != default}


def _read_file(file: Path, fields: Mapping[str, "dataclasses.Field[Any]"]) -> dict[str, _GivenValue]:
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
    return {key: _GivenValue(value, f"file {file}") for key, value in table.items()}


def _service_links(environ: Mapping[str, str], fields: Iterable[str]) -> tuple[str, ...]:
    settings = {*map(variable_name, fields), *OTHER_VARIABLES}
    named = (key for key in environ if key.startswith(VARIABLE_PREFIX) and key not in settings)
    return tuple(sorted(key for key in named if is_service_link(key, environ[key])))


def _read_environment(
    environ: Mapping[str, str], fields: Mapping[str, "dataclasses.Field[Any]"]
) -> dict[str, _GivenValue]:
    by_variable = {variable_name(name): name for name in fields}
    ours = {key: text for key, text in environ.items() if key.startswith(VARIABLE_PREFIX)}
    for variable in sorted(ours.keys() - by_variable.keys() - OTHER_VARIABLES):
        raise SettingsError(f"unknown variable {variable}{did_you_mean(variable, [*by_variable, *OTHER_VARIABLES])}")
    return {by_variable[key]: _GivenValue(text, key) for key, text in ours.items() if key in by_variable}


def _flag_name(field: "dataclasses.Field[Any]") -> str:
    return str(field.metadata.get("flag", "--" + field.name.replace("_", "-")))


def _convert_value(name: str, hint: object, given: _GivenValue) -> object:
    try:
        return _as_type(name, hint, given.value)
    except (ValueError, InvalidOperation) as error:
        is_hidden = name in SECRET or _may_be_url(name, given.value)
        shown = repr(render_value(name, given.value) if is_hidden else given.value)
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
        number = Decimal(parse_size(value))
    elif unit := _duration_unit(name):
        number = parse_duration(value, unit=unit)
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


def _may_be_url(name: str, value: object) -> bool:
    return name == "registry" or (isinstance(value, str) and "://" in value)


def _is_size(name: str) -> bool:
    return "_bytes" in name


def _duration_unit(name: str) -> str | None:
    return next((unit for unit in ("ms", "s") if name.endswith("_" + unit)), None)
