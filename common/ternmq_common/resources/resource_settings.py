"""Describes the settings of topics, groups and quotas, one description a field, from which every surface is derived.

A class in `ternmq_common` has a field for each setting, created by `described`; `settings_of` lists the descriptions.

Stored  the field's value: whole milliseconds, an enumeration, None for what the broker or shard decides
Given   what `ternmq.admin` takes and returns: a `timedelta`, a word
Text    what files and options have, and output shows: `90m`, `sync`; the word for absence, such as `broker`
Wire    the field of the setting's name in the admin service's messages, of which any type will do here
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.units import SIZE_UNITS, parse_duration, parse_size, render_duration, render_in_largest_unit

DEFAULT_BEGINNING = "auto"
BEGINNINGS = (DEFAULT_BEGINNING, "earliest", "latest")
Message = Any
Value = Any
_MS = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME_DIGITS_MAX = 15
_BINARY = {unit: size for unit, size in SIZE_UNITS.items() if "i" in unit or unit == "B"}


class SettingKind:
    """The type of a setting, the same on all surfaces, unless a kind says otherwise."""

    absent: str | None = ""
    """The word for a setting without a value, if there is one."""

    def read_stored(self, message: Message, name: str) -> Value:
        return getattr(message, name)

    def write_stored(self, message: Message, name: str, stored: Value) -> None:
        setattr(message, name, stored)

    def read_given(self, message: Message, name: str) -> Value:
        return getattr(message, name)

    def write_given(self, message: Message, name: str, given: Value) -> None:
        setattr(message, name, given)

    def parse_text(self, text: str) -> Value:
        """Parse a text of a file or an option; raises ValueError, and MessagingError as the server does."""
        return text

    def to_text(self, given: Value) -> Value:
        return given

    def row_value(self, stored: Value) -> Value:
        return stored

    def from_row(self, value: Value) -> Value:
        return value


class Flag(SettingKind):
    """True or false. The option of `create` is `--name` alone with `is_plain_at_creation`, else `--no-name` too."""

    def __init__(self, *, is_plain_at_creation: bool = False) -> None:
        self.is_plain_at_creation = is_plain_at_creation


class Whole(SettingKind):
    """A whole number; with a `metavar`, clients check both bounds, otherwise the server checks the upper one."""

    def __init__(self, least: int, most: int, metavar: str | None = None) -> None:
        self.least, self.most, self.metavar = least, most, metavar

    @property
    def most_early(self) -> int | None:
        """The upper bound that clients check."""
        return self.most if self.metavar else None


class Choice(SettingKind):
    """One word of an enumeration, or the word `absent`, which is stored as None."""

    def __init__(self, known: type[StrEnum], absent: str = "") -> None:
        self.known, self.absent = known, absent

    @property
    def words(self) -> tuple[str, ...]:
        words = tuple(each.value for each in self.known)
        return (*words, self.absent) if self.absent else words

    def read_stored(self, message: Message, name: str) -> StrEnum | None:
        """Return the value; BAD_REQUEST for a number without a meaning here."""
        number = getattr(message, name)
        word = self._word_of(message, name)
        if not number or word not in self.words:
            raise MessagingError(ErrorCode.BAD_REQUEST, f"{name} {number} is unknown")
        return None if word == self.absent else self.known(word)

    def write_stored(self, message: Message, name: str, stored: StrEnum | None) -> None:
        self.write_given(message, name, stored or self.absent)

    def read_given(self, message: Message, name: str) -> str:
        """Return the word; the number as text if it is not known here, as of a newer server."""
        return self._word_of(message, name) if getattr(message, name) else self.absent or self.words[0]

    def write_given(self, message: Message, name: str, given: Value) -> None:
        setattr(message, name, self.wire_name(message, name, given))

    def wire_name(self, message: Message, name: str, word: str) -> str:
        """Return the name of a word's value in the protocol: READ_WRITE, FLUSH_SYNC."""
        kind = message.DESCRIPTOR.fields_by_name[name].enum_type
        return next(str(value.name) for value in kind.values if _wire_word(value.name, kind.name) == word)

    def _word_of(self, message: Message, name: str) -> str:
        number, kind = getattr(message, name), message.DESCRIPTOR.fields_by_name[name].enum_type
        value = kind.values_by_number.get(number)
        return _wire_word(value.name, kind.name) if value is not None else str(number)

    def row_value(self, stored: StrEnum | None) -> str:
        return "" if stored is None else stored.value

    def from_row(self, value: str) -> StrEnum | None:
        return self.known(value) if value else None


def _wire_word(name: str, kind: str) -> str:
    """Return the word of an enumeration's value: `sync` for FLUSH_SYNC of Flush, `read-write` for READ_WRITE."""
    return name.removeprefix(f"{kind.upper()}_").lower().replace("_", "-")


class Span(SettingKind):
    """A duration in milliseconds; 0 is none of its own, for which `absent` is the word. `least` and `most` hold for
    others.

    With `early_none`, the text for none, files are refused before the server sees them. With None for
    `absent`, none has no word, and is given as 0.
    """

    def __init__(self, least: int, most: int, *, absent: str | None, early_none: str = "") -> None:
        self.least, self.most, self.absent, self._early_none = least, most, absent, early_none

    def read_stored(self, message: Message, name: str) -> int:
        return int(getattr(message, name).ToMilliseconds())

    def write_stored(self, message: Message, name: str, stored: int) -> None:
        if stored:
            getattr(message, name).FromMilliseconds(stored)

    def read_given(self, message: Message, name: str) -> Value:
        is_missing = self.absent is not None and not message.HasField(name)
        return None if is_missing else getattr(message, name).ToTimedelta()

    def write_given(self, message: Message, name: str, given: Value) -> None:
        getattr(message, name).FromTimedelta(given)

    def parse_text(self, text: str) -> timedelta:
        """Parse a duration, or the word for none; raises ValueError."""
        given = timedelta() if text == self.absent else timedelta(seconds=float(parse_duration(text, unit="s")))
        if given and self._early_none and not self.least <= given / _MS <= self.most:
            allowed = f"{render_duration(self.least)} to {render_duration(self.most)}"
            raise ValueError(f"{allowed} are allowed, {self._early_none}")
        return given

    def to_text(self, given: timedelta | None) -> str | None:
        return render_duration(given // _MS) if given and given >= _MS else self.absent

    def from_row(self, value: int | None) -> int:
        return value or 0


class Text(SettingKind):
    """A text that `parse` turns into what is stored; MessagingError from it is a refusal. `str` turns it back."""

    def __init__(self, parse: Callable[[str], Value], metavar: str, *, is_checked_by_option: bool = True) -> None:
        self._parse, self.metavar, self.is_checked_by_option = parse, metavar, is_checked_by_option

    def read_stored(self, message: Message, name: str) -> Value:
        return self._parse(getattr(message, name))

    def write_stored(self, message: Message, name: str, stored: Value) -> None:
        setattr(message, name, str(stored))

    def parse_text(self, text: str) -> str:
        parsed = self._parse(text)
        return parsed if isinstance(parsed, str) else text.strip()

    def to_text(self, given: str) -> str:
        try:
            return str(self._parse(given))
        except MessagingError:
            return given  # from a newer server with another kind of it


class Beginning(SettingKind):
    """The start of a group: a word of `BEGINNINGS`, or a time, which is stored as milliseconds since the epoch."""

    def read_stored(self, message: Message, name: str) -> str:
        text = str(getattr(message, name))
        if text in BEGINNINGS or (text.isascii() and text.isdigit() and len(text) <= _TIME_DIGITS_MAX):
            return text
        raise MessagingError(
            ErrorCode.BAD_REQUEST,
            f"a group can't begin at {text!r}; {', '.join(BEGINNINGS)} or milliseconds since the epoch are allowed",
        )

    def read_given(self, message: Message, name: str) -> str | datetime:
        """Return a time as such; one that no datetime can hold stays text."""
        return self._decode(getattr(message, name))

    def write_given(self, message: Message, name: str, given: Value) -> None:
        setattr(message, name, str((given - _EPOCH) // _MS) if isinstance(given, datetime) else given)

    def to_text(self, given: str | datetime) -> str:
        at = self._decode(given) if isinstance(given, str) else given
        if isinstance(at, str):
            return at
        return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _decode(self, text: str) -> str | datetime:
        if not (text.isascii() and text.isdigit()):
            return text or DEFAULT_BEGINNING
        try:
            return _EPOCH + int(text) * _MS
        except (OverflowError, ValueError):
            return text


class Words(SettingKind):
    """Any number of `known` words, joined by commas; `none` for none of them."""

    def __init__(self, known: tuple[str, ...], metavar: str) -> None:
        self.known, self.metavar = known, metavar

    def parse_text(self, text: str) -> tuple[str, ...]:
        words = [] if text.strip() == "none" else [word.strip() for word in text.split(",")]
        if not {*words} <= {*self.known}:
            raise ValueError(f"{', '.join(self.known)}, both with a comma, or none")
        return tuple(word for word in self.known if word in words)

    def to_text(self, given: tuple[str, ...] | None) -> str | None:
        return None if given is None else ",".join(given) or "none"


class Limit(SettingKind):
    """A limit of a quota, at least 1, of `unit` such as `/s`; None is no limit, with the word `none`, given as 0."""

    def __init__(self, unit: str, kinds: Collection[str], *, is_size: bool = False) -> None:
        self.unit, self.kinds, self.is_size = unit, kinds, is_size

    @property
    def metavar(self) -> str:
        return f"{'SIZE' if self.is_size else 'N'}{self.unit.upper()}"

    def read_given(self, message: Message, name: str) -> int | None:
        return getattr(message, name) if message.HasField(name) else None

    def parse_text(self, text: str) -> int:
        """Parse a limit, 0 for `none`; raises ValueError."""
        if text.strip().lower() == "none":
            return 0
        number = text.strip().removesuffix(self.unit)
        try:
            found = parse_size(number) if self.is_size else int(number)
        except ValueError:
            found = 0
        if found < 1:
            example = "10MiB/s" if self.is_size else f"1000{self.unit}"
            raise ValueError(f"a limit like {example}, or none, is needed")
        return found

    def to_text(self, given: int | None) -> str | None:
        return f"{self.format_number(given)}{self.unit}" if given else None

    def format_number(self, limit: int) -> str:
        """Return the limit without its unit of time."""
        return render_in_largest_unit(limit, _BINARY) if self.is_size else str(limit)


class FormField(NamedTuple):
    """A field of a form of the console. `says` are the words to choose from, and what they say."""

    label: str
    hint: str = ""
    placeholder: str = ""
    says: Mapping[str, str] = {}
    is_filled: bool = False
    """Whether it begins with the present value."""


class Setting(NamedTuple):
    """The description of a setting.

    `help` is that of the option of `update`, `creation_help` of `create`, if it is another; None: it has no option
    there. `refusal` is the server's text for a value out of bounds, a format of `value`, `least` and `most`. Of
    topics of type LITE alone with `is_lite` true, of all others with false; `type_refusal` is the server's text then.
    `absence` says what a topic has without a value. `since` is the registry's schema that has its column first, with
    `comment`. `fact` is its label among the facts of a page, `creation_form` and `form` are its form fields; the
    number in `form` only grows with `only_grows`.
    """

    kind: SettingKind
    help: str
    since: int = 0
    comment: str = ""
    creation_help: str | None = ""
    refusal: str = ""
    is_lite: bool | None = None
    type_refusal: str = ""
    absence: str = ""
    fact: str = ""
    creation_form: FormField | None = None
    form: FormField | None = None
    only_grows: bool = False
    attribute: str = ""
    default: Value = None

    @property
    def name(self) -> str:
        """The name on all surfaces: the field's without its unit."""
        return self.attribute.removesuffix("_ms")

    @property
    def option(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    def check_stored(self, stored: Value) -> None:
        """Check a value that a request has; BAD_REQUEST if it is out of bounds."""
        if not isinstance(self.kind, Whole | Span) or (isinstance(self.kind, Span) and not stored):
            return
        if not self.kind.least <= stored <= self.kind.most:
            text = self.refusal.format(value=stored, least=self.kind.least, most=self.kind.most)
            raise MessagingError(ErrorCode.BAD_REQUEST, text)

    def check_type(self, stored: Value, *, is_lite: bool) -> None:
        """Check that a topic of that type may have the value; BAD_REQUEST."""
        if stored and self.is_lite not in (None, is_lite):
            raise MessagingError(ErrorCode.BAD_REQUEST, self.type_refusal)

    def stored_text(self, stored: Value) -> str:
        """Return a stored value for a sentence."""
        if not stored:
            return self.absence
        return render_duration(stored) if isinstance(self.kind, Span) else str(stored)

    def has_presence(self, message: Message) -> bool:
        return bool(message.DESCRIPTOR.fields_by_name[self.name].has_presence)

    def is_in(self, message: Message) -> bool:
        """Return whether the message has a value for it: where fields have no presence, any but 0."""
        return bool(message.HasField(self.name) if self.has_presence(message) else getattr(message, self.name))


def described(default: Value, kind: SettingKind, help_text: str, **more: Value) -> Any:  # noqa: ANN401 - as `field`
    """Return a field of a dataclass, with the description of its setting."""
    return field(default=default, metadata={"setting": Setting(kind, help_text, **more)})


def settings_of(described_class: type) -> tuple[Setting, ...]:
    """Return the descriptions of the class's fields, in their order."""
    return tuple(
        each.metadata["setting"]._replace(attribute=each.name, default=each.default)
        for each in fields(described_class)
        if "setting" in each.metadata
    )


def read_stored(message: Message, settings: Iterable[Setting]) -> dict[str, Value]:
    """Return the values that a message has, by field; BAD_REQUEST for one without a meaning."""
    return {each.attribute: each.kind.read_stored(message, each.name) for each in settings if each.is_in(message)}


def write_stored(message: Message, settings: Iterable[Setting], values: object) -> None:
    """Write the values of an object that has the fields."""
    for each in settings:
        each.kind.write_stored(message, each.name, getattr(values, each.attribute))
