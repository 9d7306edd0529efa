"""Shows settings as facts and as fields of forms, and reads the forms, by the settings' descriptions."""

from typing import TYPE_CHECKING, Any, NamedTuple

from ternmq_common.resources.resource_settings import Choice, Span, Whole
from ternmq_console.pages.base.rendering import format_span, format_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ternmq_common.resources.resource_settings import FormField, Setting
    from ternmq_console.operator_calls import Message
    from ternmq_console.pages.base.forms import PageForm


class SettingInput(NamedTuple):
    """A field of a form: a choice of `options` (value, text), a number from `least` on, or else text."""

    name: str
    value: str
    field: "FormField"
    least: int | None
    options: tuple[tuple[str, str], ...]


def creation_inputs(settings: "Iterable[Setting]", form: "PageForm | None") -> "Iterator[SettingInput]":
    """Yield the fields of the form for a new one, with what was typed before."""
    for each in settings:
        if each.creation_form is not None:
            value = "" if form is None else form.text(each.name)
            least = each.kind.least if isinstance(each.kind, Whole) else None
            yield SettingInput(each.name, value, each.creation_form, least, tuple(each.creation_form.says.items()))


def change_inputs(settings: "Iterable[Setting]", there: "Message") -> "Iterator[SettingInput]":
    """Yield the fields of the form that changes an existing one."""
    for each in settings:
        if each.form is not None:
            value = _form_value(each, there) if each.form.is_filled else ""
            least = (int(value) if each.only_grows else each.kind.least) if isinstance(each.kind, Whole) else None
            yield SettingInput(each.name, value, each.form, least, _options(each, each.form, there))


def _form_value(setting: "Setting", there: "Message") -> str:
    if not isinstance(setting.kind, Choice):
        return str(getattr(there, setting.name))
    return setting.kind.wire_name(there, setting.name, setting.kind.read_given(there, setting.name))


def _options(setting: "Setting", field: "FormField", there: "Message") -> tuple[tuple[str, str], ...]:
    if not isinstance(setting.kind, Choice):
        return ()
    names = {word: setting.kind.wire_name(there, setting.name, word) for word in field.says or setting.kind.words}
    return tuple((name, field.says.get(word) or format_words(name)) for word, name in names.items())


def read_settings(form: "PageForm", settings: "Iterable[Setting]", *, at_creation: bool = False) -> dict[str, Any]:
    """Return the settings that a form has as fields of the call; empty ones are left out. Raises BadForm."""
    values: dict[str, Any] = {}
    for each in settings:
        if (each.creation_form if at_creation else each.form) is None or not form.is_set(each.name):
            continue
        if isinstance(each.kind, Whole):
            values[each.name] = form.parse_integer(each.name, least=each.kind.least)
        elif isinstance(each.kind, Span):
            values[each.name] = form.parse_duration(each.name)
        else:
            values[each.name] = form.text(each.name)
    return values


def setting_facts(settings: "Iterable[Setting]", there: "Message") -> "Iterator[tuple[str, str]]":
    """Yield label and value of the settings that are facts of a page."""
    for each in settings:
        if each.fact:
            yield each.fact, _shown_value(each, there)


def _shown_value(setting: "Setting", there: "Message") -> str:
    if isinstance(setting.kind, Span):
        return format_span(getattr(there, setting.name)) if there.HasField(setting.name) else setting.absence
    value = _form_value(setting, there)
    return format_words(value) if isinstance(setting.kind, Choice) else value
