"""One setting of a process, described once: its name, type, unit, default, range and meaning. All code that reads and
prints it is derived from that: the file's keys, variables, options and their help, `ternmq config`, and the reference.

A settings class is a frozen, keyword-only dataclass whose fields are declared by `setting`; a plain field is a setting
without a range and a meaning. Types: int, float, bool, str, Path, enums, and each of them `| None` with None as
default, which is written `none`, or `auto` where the server finds a value itself.

Key         the field's name; `expert.NAME` of an expert setting, which needs knowledge of the code
Variable    the key in upper case, behind `TERNMQ_`, with _ for dots; a file or variable that names an expert setting
            as an ordinary one, as it was before it became one, is read too
Option      only where `flag` says so: `--field-name`, or the name that it gives
Sizes       names with `_bytes` take `64MiB`, `1GiB`, `10MB` (decimal) or a plain number of bytes
Durations   names that end in `_ms`, `_s` take `500ms`, `90s`, `72h`, `3d`, `1h30m` or a plain number in that unit
"""

import dataclasses
import enum
import re
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ternmq_common.units import DURATION_UNITS_MS, SIZE_UNITS, parse_duration, parse_size, render_in_largest_unit

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

VARIABLE_PREFIX = "TERNMQ_"
EXPERT = "expert"
"""The table of expert settings in a file."""
FIRST_VERSION = "0.1.0"

TRUE_WORDS = frozenset({"true", "yes", "on", "1"})
FALSE_WORDS = frozenset({"false", "no", "off", "0"})
_MASK = "***"

_PASSWORD = re.compile(r"(://[^:/@]*:).*@|(password=)[^&]*", re.IGNORECASE)
_BINARY_UNITS = {unit: size for unit, size in SIZE_UNITS.items() if "i" in unit or unit == "B"}

T = TypeVar("T")


class InvalidSetting(ValueError):
    """A settings class refuses the value of one of its fields; `problem` says what is allowed."""

    def __init__(self, name: str, problem: str) -> None:
        self.name, self.problem = name, problem
        super().__init__(f"{name}: {problem}")


def setting(
    default: T,
    meaning: str = "",
    *,
    within: tuple[int, int] | None = None,
    flag: bool | str = False,
    form: str = "",
    words: tuple[str, ...] = (),
    auto: bool = False,
    secret: bool = False,
    expert: bool = False,
    see: str = "",
    since: str = FIRST_VERSION,
) -> T:
    """Declare a field of a settings class; the keywords are the attributes of `Setting`."""
    metadata: dict[str, object] = {"meaning": meaning, "within": within, "flag": flag, "form": form, "words": words}
    metadata |= {"auto": auto, "secret": secret, "expert": expert, "see": see, "since": since}
    return dataclasses.field(default=default, metadata=metadata, repr=not secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The description of one setting."""

    name: str
    kind: Any
    """The type of its values other than None."""
    default: object
    meaning: str = ""
    """Its meaning, and that of special values; for help texts and the reference."""
    within: tuple[int, int] | None = None
    """The least and the greatest number that is allowed."""
    flag: bool | str = False
    """Whether there is an option, or its name if that is not the field's."""
    form: str = ""
    """How a value is written, such as HOST:PORT; empty: as `value_form` derives it from type and unit."""
    words: tuple[str, ...] = ()
    """Words of which a value may consist, for shells that complete them."""
    auto: bool = False
    """Whether None is written `auto`."""
    secret: bool = False
    """Whether its value is shown nowhere."""
    expert: bool = False
    """Whether it is in the table of expert settings, which need knowledge of the code."""
    see: str = ""
    """The page of docs/ that has more."""
    since: str = FIRST_VERSION
    """The version that has it first."""

    @property
    def key(self) -> str:
        """The key in a file: `retention_ms`, `expert.keepalive_ms`."""
        return f"{EXPERT}.{self.name}" if self.expert else self.name

    @property
    def variable(self) -> str:
        """The environment variable: `TERNMQ_RETENTION_MS`, `TERNMQ_EXPERT_KEEPALIVE_MS`."""
        return VARIABLE_PREFIX + self.key.replace(".", "_").upper()

    @property
    def former_variable(self) -> str | None:
        """The variable of an expert setting before it was one."""
        return VARIABLE_PREFIX + self.name.upper() if self.expert else None

    @property
    def option(self) -> str:
        """The name of its option, which exists if `flag` says so."""
        return self.flag if isinstance(self.flag, str) else "--" + self.name.replace("_", "-")

    @property
    def value_form(self) -> str:
        """How a value is written, as a word in upper case."""
        if self.form:
            return self.form
        if self.kind in (int, float):
            return "SIZE" if self.is_size else "DURATION" if self.duration_unit else "NUMBER"
        return "FILE" if self.kind is Path else "TEXT"

    @property
    def is_size(self) -> bool:
        return "_bytes" in self.name

    @property
    def duration_unit(self) -> str | None:
        return next((unit for unit in ("ms", "s") if self.name.endswith("_" + unit)), None)

    def render(self, value: object) -> str:
        """Return a value as a person would write it in the file: `1GiB`, `72h`, `true`."""
        if value is None:
            return self._absent_word
        if self.secret:
            return _MASK
        if isinstance(value, bool):
            return str(value).lower()
        if self._may_be_url(value):
            return without_password(str(value))
        if isinstance(value, int) and value > 0:
            if self.is_size:
                return render_in_largest_unit(value, _BINARY_UNITS)
            if unit := self.duration_unit:
                return render_in_largest_unit(value * DURATION_UNITS_MS[unit], DURATION_UNITS_MS)
        return str(value)

    def render_given(self, value: object) -> str:
        """Return a value as it was given, for an error, without what is secret of it."""
        return repr(self.render(value) if self.secret or self._may_be_url(value) else value)

    def render_range(self) -> str:
        """Return what is allowed: `1m to 3650d`; empty without a range."""
        return "" if self.within is None else " to ".join(map(self.render, self.within))

    def check_range(self, value: object) -> None:
        """Refuse a number outside the range: InvalidSetting."""
        if self.within is None or value is None:
            return
        least, most = self.within
        if not least <= typing.cast("int", value) <= most:
            raise InvalidSetting(self.name, f"{self.render_range()} is allowed")

    def parse(self, value: object) -> object:
        """Return the value of text, or of a value of TOML; ValueError with what is needed."""
        if isinstance(value, str) and self._is_absent(value):
            return None
        if isinstance(self.kind, type) and issubclass(self.kind, enum.Enum):
            return _parse_enum(self.kind, value)
        if self.kind in (int, float):
            return self._parse_number(value)
        return _PLAIN[self.kind](value)

    def _is_absent(self, text: str) -> bool:
        return self.default is None and text.strip().lower() in {"", self._absent_word}

    def _parse_number(self, value: object) -> int | float:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError("a number is needed")  # noqa: TRY004  (a wrong setting is one kind of error)
        number = self._parse_text(value) if isinstance(value, str) else Decimal(value)
        if self.kind is float:
            return float(number)
        if not number.is_finite() or number != int(number):
            raise ValueError("a whole number is needed")
        return int(number)

    def _parse_text(self, text: str) -> Decimal:
        if self.is_size:
            return Decimal(parse_size(text))
        if unit := self.duration_unit:
            return parse_duration(text, unit=unit)
        try:
            return Decimal(text.strip().replace("_", ""))
        except InvalidOperation:
            raise ValueError("a number is needed") from None

    def _may_be_url(self, value: object) -> bool:
        return self.form == "URL" or (isinstance(value, str) and "://" in value)

    @property
    def _absent_word(self) -> str:
        return "auto" if self.auto else "none"


def settings_of(cls: "type[DataclassInstance]") -> dict[str, Setting]:
    """The settings of a class by their names, in the order of its fields."""
    if cls not in _settings:
        kinds = typing.get_type_hints(cls)
        _settings[cls] = {
            each.name: Setting(
                name=each.name, kind=_inner_type(kinds[each.name]), default=each.default, **each.metadata
            )
            for each in dataclasses.fields(cls)
        }
    return _settings[cls]


def differing_settings(settings: "DataclassInstance") -> dict[str, str]:
    """The settings that differ from their defaults by their keys, each as it is written."""
    values = ((each, getattr(settings, each.name)) for each in settings_of(type(settings)).values())
    return {each.key: each.render(value) for each, value in values if value != each.default}


def without_password(url: str) -> str:
    """The URL with its password hidden. It need not be valid: what could be a password is hidden."""
    return _PASSWORD.sub(lambda found: f"{found[1]}***@" if found[1] else f"{found[2]}***", url)


def _inner_type(hint: object) -> object:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        (hint,) = (argument for argument in typing.get_args(hint) if argument is not type(None))
    return hint


def _parse_enum(kind: type[enum.Enum], value: object) -> enum.Enum:
    if isinstance(value, kind):
        return value
    members = {str(member.value).lower(): member for member in kind}
    member = members.get(str(value).lower())
    if member is None:
        raise ValueError(f"one of {', '.join(members)} is needed")
    return member


def _parse_bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word not in TRUE_WORDS | FALSE_WORDS:
        raise ValueError("true or false is needed")
    return word in TRUE_WORDS


def _parse_str(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("text in quotes is needed")  # noqa: TRY004
    return value


def _parse_path(value: object) -> Path:
    if isinstance(value, Path):
        return value.expanduser()
    if not _parse_str(value):
        raise ValueError("a path is needed")
    return Path(_parse_str(value)).expanduser()


_settings: dict[type, dict[str, Setting]] = {}
_PLAIN: dict[object, Callable[[object], object]] = {bool: _parse_bool, str: _parse_str, Path: _parse_path}
