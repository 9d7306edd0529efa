"""The options of `ternmq dlq` that select dead letters."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import click

from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.options import TimeParam
from ternmq_command.terminal.printing import echo

if TYPE_CHECKING:
    from ternmq_command.calls.admin import AdminClient
    from ternmq_command.dlq.dead_letters import DeadLetters, LetterSelection

F = TypeVar("F", bound=Callable[..., Any])

_BROKER_OPTION = click.option("--broker", default="", metavar="NAME", help="Only those on this broker of a cluster.")
_RANGE_OPTIONS = (
    click.option("--since", type=TimeParam(), help="Only those since this time: ISO 8601, or 2h for two hours ago."),
    click.option("--until", type=TimeParam(), help="Only those before this time."),
    click.option("--key", help="Only those with this key."),
)
_OPTIONS = (
    click.option("--all", "every", is_flag=True, help="All dead letters of the group."),
    click.option("--offset", "offsets", type=click.IntRange(min=0), multiple=True, metavar="N", help="The one there; "
                 "repeatable."),
    click.option("--id", "ids", multiple=True, metavar="ID", help="The newest one of this message id; repeatable."),
    *_RANGE_OPTIONS,
)  # fmt: skip


class SelectionOptions(TypedDict):
    """The values of the options."""

    every: bool
    offsets: tuple[int, ...]
    ids: tuple[str, ...]
    key: str | None
    since: datetime | None
    until: datetime | None


def broker_option(command: F) -> F:
    return _BROKER_OPTION(command)


def range_options(command: F) -> F:
    """Add `--since`, `--until`, `--key` and `--broker`."""
    for option in (_BROKER_OPTION, *reversed(_RANGE_OPTIONS)):
        command = option(command)
    return command


def selection_options(command: F) -> F:
    """Add all options of `SelectionOptions`, and `--broker`."""
    for option in (_BROKER_OPTION, *reversed(_OPTIONS)):
        command = option(command)
    return command


def build_selection(options: SelectionOptions) -> "LetterSelection":
    """Return the selection of the options, all letters without any; raises WrongUsage if they contradict each other."""
    from ternmq_command.dlq.dead_letters import LetterSelection

    named = [options["every"], bool(options["offsets"]), bool(options["ids"]), options["key"] is not None]
    if named.count(True) > 1:
        raise WrongUsage("give one of --all, --offset, --id and --key")
    since, until = options["since"], options["until"]
    if (options["offsets"] or options["ids"]) and (since or until):
        raise WrongUsage("--since and --until can be combined with --all or --key only")
    return LetterSelection(
        queue_offsets=options["offsets"], message_ids=options["ids"], key=options["key"], since=since, until=until
    )


def is_given(options: SelectionOptions) -> bool:
    return any(value not in (None, False, ()) for value in options.values())


@contextmanager
def open_dead_letters(endpoint: str, group: str, broker: str) -> "Iterator[tuple[AdminClient, DeadLetters]]":
    from ternmq_command.calls.admin import AdminClient
    from ternmq_command.calls.messaging import MessagingClient
    from ternmq_command.dlq.dead_letters import DeadLetters

    with AdminClient(endpoint) as admin, MessagingClient(endpoint) as messaging:
        yield admin, DeadLetters(admin, messaging, group, broker=broker)


def report_none(letters: "DeadLetters", group: str) -> None:
    """Print on standard error that no letter was selected."""
    text = f"group {group} has no dead letters" if letters.is_empty else f"no dead letter of group {group} matches"
    echo(text, err=True)
