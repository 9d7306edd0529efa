"""What `topic create` and `group create` say where one is there with other settings: how to get what is asked for.

The server refuses such a call, and compares defaults too; here that becomes the `update` that does it, if there is one.
"""

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from ternmq_command.terminal.failures import Refused

if TYPE_CHECKING:
    from ternmq_command.apply.plan import Change

# What the server may answer; what else is wrong keeps its own words.
TAKEN = ("BAD_REQUEST", "PRECONDITION_FAILED")


@contextmanager
def telling_how_to_change(compare: "Callable[[], Change | None]") -> Iterator[None]:
    """Around a creation. `compare` says what would have to change; None if nothing of that name is there."""
    try:
        yield
    except Refused as refusal:
        change = compare() if refusal.word in TAKEN else None
        if change is None:
            raise
        raise Refused(refusal.code, f"{change.kind} {change.name} is there: {_difference(change)}") from None


def _difference(change: "Change") -> str:
    if change.is_refused:
        return change.reason
    if change.is_needed:
        return f"{change.differences}; to change it: `{shlex.join(_update(change))}`"
    return (
        f"it has other settings than are the default; see `ternmq {change.kind} describe {change.name}`, and change it "
        f"with `ternmq {change.kind} update {change.name}`, or ask for what it has"
    )


def _update(change: "Change") -> Sequence[str]:
    """The command that changes it, at the endpoint that was given here."""
    words = ["ternmq", change.kind, "update", change.name]
    for setting, (_, value) in change.settings.items():
        words += _option(setting.replace("_", "-"), value)
    context = click.get_current_context()
    if context.get_parameter_source("endpoint") is ParameterSource.COMMANDLINE:
        words += ["--endpoint", context.params["endpoint"]]
    return words


def _option(name: str, value: object) -> Sequence[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    # Words for no time of their own.
    is_none = value is None or (name, value) in (("retention", "broker"), ("lite-ttl", "none"))
    return [f"--{name}", "0s" if is_none else str(value)]
