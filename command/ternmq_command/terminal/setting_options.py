"""Options and records of settings, from their descriptions in `ternmq_common`."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ternmq_command.terminal.options import ConsumeFromParam, DurationParam
from ternmq_common.errors import MessagingError
from ternmq_common.resources.resource_settings import Beginning, Choice, Flag, Limit, Setting, Span, Text, Whole, Words

if TYPE_CHECKING:
    from ternmq_command.terminal.output import Record

    SettingType = click.ParamType[Any]
else:  # older releases of click can't be subscripted
    SettingType = click.ParamType

F = TypeVar("F", bound=Callable[..., Any])


def settings_options(settings: Iterable[Setting], *, at_creation: bool = False) -> Callable[[F], F]:
    """Return a decorator that adds an option for each setting, `at_creation` for those that `create` has."""

    def add_options(command: F) -> F:
        for setting in reversed([*settings]):
            text = setting.creation_help if at_creation else setting.help
            if text is not None:
                command = _setting_option(setting, text or setting.help, at_creation=at_creation)(command)
        return command

    return add_options


def _setting_option(setting: Setting, text: str, *, at_creation: bool) -> Callable[[F], F]:
    kind = setting.kind
    if isinstance(kind, Flag) and at_creation and kind.is_plain_at_creation:
        return click.option(setting.option, setting.name, is_flag=True, help=text)
    if isinstance(kind, Flag):
        both = f"{setting.option}/--no-{setting.option.removeprefix('--')}"
        return click.option(both, setting.name, default=None, help=text)
    metavar = kind.metavar if isinstance(kind, Limit | Whole | Text | Words) else None
    return click.option(setting.option, setting.name, type=_option_type(setting), metavar=metavar, help=text)


def _option_type(setting: Setting) -> "click.ParamType[Any]":
    kind = setting.kind
    if isinstance(kind, Whole):
        return click.IntRange(kind.least, kind.most_early)
    if isinstance(kind, Choice):
        return click.Choice(kind.words)
    if isinstance(kind, Span):
        return DurationParam()
    if isinstance(kind, Beginning):
        return ConsumeFromParam()
    return click.STRING if isinstance(kind, Text) and not kind.is_checked_by_option else SettingParam(setting)


class SettingParam(SettingType):
    """The text of a setting, parsed as files are."""

    def __init__(self, setting: Setting) -> None:
        self.name, self._kind = setting.name, setting.kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        if not isinstance(value, str):
            return value
        try:
            return self._kind.parse_text(value)
        except MessagingError as error:
            self.fail(error.message, param, ctx)
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)


def given_texts(settings: Iterable[Setting], given: Mapping[str, Any]) -> dict[str, object]:
    """Return the given settings as records have them."""
    return {each.name: each.kind.to_text(value) for each in settings if (value := given.get(each.name)) is not None}


def settings_record(settings: Iterable[Setting], there: object) -> "Record":
    """Return the settings of a topic as names and values of `ternmq.admin`."""
    return {each.name: each.kind.to_text(getattr(there, each.name)) for each in settings}


def is_no_span(setting: Setting, text: object) -> bool:
    """Return whether the text of a record is the word for no duration, which options write as 0s."""
    return isinstance(setting.kind, Span) and text == setting.kind.absent
