"""Options and records of settings, from their descriptions in `ternmq_common`."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ternmq_command.terminal.options import DurationParam
from ternmq_common.resource_settings import Choice, Setting, Span, Whole

if TYPE_CHECKING:
    from ternmq_command.terminal.output import Record

F = TypeVar("F", bound=Callable[..., Any])


def settings_options(settings: Iterable[Setting], *, at_creation: bool = False) -> Callable[[F], F]:
    """Return a decorator that adds an option for each setting, `at_creation` for those that `create` has."""

    def add_options(command: F) -> F:
        for setting in reversed([*settings]):
            text = setting.creation_help if at_creation else setting.help
            if text is not None:
                option = click.option(
                    setting.option, setting.name, type=_option_type(setting), help=text or setting.help
                )
                command = option(command)
        return command

    return add_options


def _option_type(setting: Setting) -> "click.ParamType[Any]":
    if isinstance(setting.kind, Whole):
        return click.IntRange(setting.kind.least, setting.kind.most if setting.kind.metavar else None)
    return click.Choice(setting.kind.words) if isinstance(setting.kind, Choice) else DurationParam()


def given_texts(settings: Iterable[Setting], given: Mapping[str, Any]) -> dict[str, object]:
    """Return the given settings as records have them."""
    return {each.name: each.kind.to_text(value) for each in settings if (value := given.get(each.name)) is not None}


def settings_record(settings: Iterable[Setting], there: object) -> "Record":
    """Return the settings of a topic as `ternmq.admin` has it."""
    return {each.name: each.kind.to_text(getattr(there, each.name)) for each in settings}


def is_no_span(setting: Setting, text: object) -> bool:
    """Return whether the text of a record is the word for no duration, which options write as 0s."""
    return isinstance(setting.kind, Span) and text == setting.kind.absent
