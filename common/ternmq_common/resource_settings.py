"""Describes the settings of topics, one description a field, from which every surface is made.

A class in `ternmq_common` has a field for each setting, created by `described`; `settings_of` lists the descriptions.

Stored  the field's value: whole milliseconds, an enumeration, None for what the broker or shard decides
Given   what `ternmq.admin` takes and returns: a `timedelta`, a word
Text    what files and options have, and output shows: `90m`, `sync`; the word for absence, such as `broker`
Wire    the field of the setting's name in the admin service's messages, of which any type will do here
"""

from collections.abc import Iterable, Mapping
from dataclasses import field, fields
from datetime import timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.units import parse_duration, render_duration

Message = Any
Value = Any
_MS = timedelta(milliseconds=1)


class Whole(NamedTuple):
    """A whole number; with a `metavar`, options check both bounds, otherwise the server checks the upper one."""

    least: int
    most: int
    metavar: str | None = None
    absent: str = ""

    def read_stored(self, message: Message, name: str) -> int:
        return int(getattr(message, name))

    def read_given(self, message: Message, name: str) -> int:
        return int(getattr(message, name))

    def write_stored(self, message: Message, name: str, stored: int) -> None:
        setattr(message, name, stored)

    def write_given(self, message: Message, name: str, given: int) -> None:
        setattr(message, name, given)

    def to_text(self, given: int) -> object:
        return given

    def row_value(self, stored: int) -> object:
        return stored

    def from_row(self, value: int) -> int:
        return value


class Choice(NamedTuple):
    """One word of an enumeration, or the word `absent`, which is stored as None."""

    known: type[StrEnum]
    absent: str = ""

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

    def read_given(self, message: Message, name: str) -> str:
        """Return the word; the number as text if it is not known here, as of a newer server."""
        return self._word_of(message, name) if getattr(message, name) else self.absent or self.words[0]

    def _word_of(self, message: Message, name: str) -> str:
        number, kind = getattr(message, name), message.DESCRIPTOR.fields_by_name[name].enum_type
        value = kind.values_by_number.get(number)
        return _wire_word(value.name, kind.name) if value is not None else str(number)

    def write_stored(self, message: Message, name: str, stored: StrEnum | None) -> None:
        self.write_given(message, name, stored or self.absent)

    def write_given(self, message: Message, name: str, given: str) -> None:
        setattr(message, name, self.wire_name(message, name, given))

    def wire_name(self, message: Message, name: str, word: str) -> str:
        """Return the name of a word's value in the protocol: READ_WRITE, FLUSH_SYNC."""
        kind = message.DESCRIPTOR.fields_by_name[name].enum_type
        return next(str(value.name) for value in kind.values if _wire_word(value.name, kind.name) == word)

    def to_text(self, given: str) -> object:
        return given

    def row_value(self, stored: StrEnum | None) -> object:
        return "" if stored is None else stored.value

    def from_row(self, value: str) -> StrEnum | None:
        return self.known(value) if value else None


def _wire_word(name: str, kind: str) -> str:
    """Return the word of an enumeration's value: `sync` for FLUSH_SYNC of Flush, `read-write` for READ_WRITE."""
    return name.removeprefix(f"{kind.upper()}_").lower().replace("_", "-")


class Span(NamedTuple):
    """A duration in milliseconds; 0, the word `absent`, is none of its own. `least` and `most` hold for others.

    With `is_checked_early`, files are refused before the server sees them.
    """

    least: int
    most: int
    absent: str
    is_checked_early: bool = False

    def read_stored(self, message: Message, name: str) -> int:
        return int(getattr(message, name).ToMilliseconds())

    def read_given(self, message: Message, name: str) -> timedelta | None:
        return getattr(message, name).ToTimedelta() if message.HasField(name) else None

    def write_stored(self, message: Message, name: str, stored: int) -> None:
        if stored:
            getattr(message, name).FromMilliseconds(stored)

    def write_given(self, message: Message, name: str, given: timedelta) -> None:
        getattr(message, name).FromTimedelta(given)

    def parse_text(self, text: str) -> timedelta:
        """Parse a duration, or the word for none; raises ValueError."""
        given = timedelta() if text == self.absent else timedelta(seconds=float(parse_duration(text, unit="s")))
        if given and self.is_checked_early and not self.least <= given / _MS <= self.most:
            allowed = f"{render_duration(self.least)} to {render_duration(self.most)}"
            raise ValueError(f"{allowed} are allowed, {self.absent} for no TTL")
        return given

    def to_text(self, given: timedelta | None) -> object:
        return render_duration(given // _MS) if given else self.absent

    def row_value(self, stored: int) -> object:
        return stored

    def from_row(self, value: int | None) -> int:
        return value or 0


class FormField(NamedTuple):
    """A field of a form of the console. `says` are the texts of a choice's words, those of the words if there are
    none."""

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
    `absence` says what it is without a value. `since` is the registry's schema that has it first, in a column with
    `comment`. `fact` is its label among the facts of a page, `creation_form` and `form` are its form fields.
    """

    kind: Whole | Choice | Span
    help: str
    since: int
    comment: str
    creation_help: str | None = ""
    refusal: str = ""
    is_lite: bool | None = None
    type_refusal: str = ""
    absence: str = ""
    fact: str = ""
    creation_form: FormField | None = None
    form: FormField | None = None
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
        if isinstance(self.kind, Choice) or (isinstance(self.kind, Span) and not stored):
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

    def is_in(self, message: Message) -> bool:
        """Return whether the message has a value for it: where fields have no presence, any but 0."""
        has_presence = message.DESCRIPTOR.fields_by_name[self.name].has_presence
        return bool(message.HasField(self.name) if has_presence else getattr(message, self.name))


def described(default: Value, kind: Whole | Choice | Span, help_text: str, **more: Value) -> Any:  # noqa: ANN401 - as `field`
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
