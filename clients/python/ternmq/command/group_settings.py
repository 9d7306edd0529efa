"""The settings of a consumer group: options that set them, merging, and how they are shown."""

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import click

from ternmq.command.moments import shown_consume_from
from ternmq.command.options import Backoff, ConsumeFrom, Duration
from ternmq.command.output import iso
from ternmq_common.errors import MessagingError
from ternmq_common.limits import DEFAULT_PRIORITY_FACTOR
from ternmq_common.retry_backoff import DEFAULT_BACKOFF, parse_backoff
from ternmq_common.units import rendered_duration

if TYPE_CHECKING:
    from ternmq.command.output import Record
    from ternmq_protos.admin_v1 import admin_pb2

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_ASSIGNMENT = "averagely"
PRIORITY_FACTOR_MAX = 100
_OPTIONS = (
    click.option(
        "--max-attempts",
        type=click.IntRange(min=1),
        help="Deliveries of a message, the first included.  [default: the server's]",
    ),
    click.option(
        "--retry-backoff",
        type=Backoff(),
        help="Waits after failed deliveries: customized:1s,5s,10s (the last goes on) or exponential:5s,2h,2 (first, "
        "longest, factor); customized alone is the default of 1s to 2h in 18 steps.",
    ),
    click.option(
        "--consume-from",
        type=ConsumeFrom(),
        help="Where the group begins in a queue that it was never in. auto: at the first message while the queue has "
        "all it ever had, else at the end. TIME is ISO 8601, or 2h for two hours ago.  [default: auto]",
    ),
    click.option(
        "--assignment",
        metavar="STRATEGY",
        help="How queues are shared out among members that pull: averagely, averagely-by-circle, consistent-hash, "
        "by-config:c1=0,1;c2=2, machine-room:r1,r2, machine-room-nearby:averagely.  [default: averagely]",
    ),
    click.option(
        "--queue-lock-hold",
        type=Duration(),
        help="Give each queue one pulling reader at a time, which loses it when silent for so long; 0s: do not.",
    ),
    click.option(
        "--priority-factor",
        type=click.IntRange(0, PRIORITY_FACTOR_MAX),
        metavar="N",
        help="Of 100 receives from a priority topic, N begin with the highest priority, the others with a lower one, "
        f"so that none starves.  [default: {DEFAULT_PRIORITY_FACTOR}]",
    ),
)


class GroupSettings(TypedDict):
    """What the options say; None for what was not given."""

    max_attempts: int | None
    retry_backoff: str | None
    consume_from: str | None
    assignment: str | None
    queue_lock_hold: timedelta | None
    priority_factor: int | None


def settings_options(command: F) -> F:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def set_given(group: "admin_pb2.Group", settings: GroupSettings) -> None:
    """Change what was given, and nothing else."""
    if (max_attempts := settings["max_attempts"]) is not None:
        group.max_attempts = max_attempts
    if (retry_backoff := settings["retry_backoff"]) is not None:
        group.retry_backoff = retry_backoff
    if (consume_from := settings["consume_from"]) is not None:
        group.consume_from = consume_from
    if (assignment := settings["assignment"]) is not None:
        group.assignment = assignment.strip()
    if (queue_lock_hold := settings["queue_lock_hold"]) is not None:
        group.queue_lock_hold.FromTimedelta(queue_lock_hold)
    if (priority_factor := settings["priority_factor"]) is not None:
        group.priority_factor = priority_factor


def group_record(group: "admin_pb2.Group") -> dict[str, object]:
    """The group with its settings as the options and `ternmq apply` read them."""
    hold_ms = group.queue_lock_hold.ToMilliseconds()
    return {
        "name": group.name,
        "fifo": group.fifo,
        "max_attempts": group.max_attempts,
        "retry_backoff": _canonical_backoff(group.retry_backoff),
        "consume_from": shown_consume_from(group.consume_from),
        "assignment": group.assignment or DEFAULT_ASSIGNMENT,
        "queue_lock_hold": rendered_duration(hold_ms) if hold_ms else None,
        "priority_factor": group.priority_factor if group.HasField("priority_factor") else DEFAULT_PRIORITY_FACTOR,
        "created": iso(group.created),
    }


def for_people(record: "Record") -> dict[str, object]:
    """A group's record without the 18 steps of the default backoff, which are wider than a screen."""
    is_default = record["retry_backoff"] == str(DEFAULT_BACKOFF)
    return {**record, "retry_backoff": "default" if is_default else record["retry_backoff"]}


def _canonical_backoff(text: str) -> str:
    try:
        return str(parse_backoff(text))
    except MessagingError:
        return text  # of a server that knows more kinds than we do
