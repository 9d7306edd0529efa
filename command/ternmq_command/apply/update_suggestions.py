"""Suggests the `update` command when `topic create` or `group create` meets an existing one with other settings.

The server refuses such a call, and compares defaults too; the refusal is replaced by the `update` that makes the
change, if there is one.
"""

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from ternmq_command.terminal.failures import CallRefused
from ternmq_command.terminal.setting_options import is_no_span
from ternmq_common.resources.topic_settings import TOPIC_SETTINGS

if TYPE_CHECKING:
    from ternmq_command.apply.plan import PlannedChange

# The server's codes for it; other refusals are passed on.
TAKEN = ("BAD_REQUEST", "PRECONDITION_FAILED")


@contextmanager
def suggesting_update(compare: "Callable[[], PlannedChange | None]") -> Iterator[None]:
    """Add the difference and the `update` command to the refusal of a creation.

    `compare` returns the change that would be needed; None if nothing of that name exists.
    """
    try:
        yield
    except CallRefused as refusal:
        change = compare() if refusal.word in TAKEN else None
        if change is None:
            raise
        raise CallRefused(refusal.code, f"{change.kind} {change.name} exists: {_describe_difference(change)}") from None


def _describe_difference(change: "PlannedChange") -> str:
    if change.is_refused:
        return change.reason
    if change.is_needed:
        return f"{change.differences}; to change it: `{shlex.join(_update_command(change))}`"
    return (
        f"it has other settings than the defaults; see `ternmq {change.kind} describe {change.name}`, and change it "
        f"with `ternmq {change.kind} update {change.name}`, or give its settings"
    )


def _update_command(change: "PlannedChange") -> Sequence[str]:
    """Return the command that makes the change, with the endpoint of this call."""
    words = ["ternmq", change.kind, "update", change.name]
    for setting, (_, value) in change.settings.items():
        words += _option_words(setting, value)
    context = click.get_current_context()
    if context.get_parameter_source("endpoint") is ParameterSource.COMMANDLINE:
        words += ["--endpoint", context.params["endpoint"]]
    return words


def _option_words(name: str, value: object) -> Sequence[str]:
    option = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{option}" if value else f"--no-{option}"]
    described = next((each for each in TOPIC_SETTINGS if each.name == name), None)
    is_none = value is None or (described is not None and is_no_span(described, value))
    return [f"--{option}", "0s" if is_none else str(value)]
