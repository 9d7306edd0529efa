"""The settings of a consumer group: the options that set them, and their records."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import click

from ternmq_command.terminal.options import BackoffParam, ConsumeFromParam, DurationParam, LiteResetParam
from ternmq_command.terminal.output import iso_datetime, iso_or_none
from ternmq_command.terminal.time_parsing import format_consume_from
from ternmq_common.errors import MessagingError
from ternmq_common.limits import DEFAULT_PRIORITY_FACTOR
from ternmq_common.lite_group import DEFAULT_LITE_QUOTA, LITE_QUOTA_MAX
from ternmq_common.retry_backoff import DEFAULT_BACKOFF, parse_backoff
from ternmq_common.units import render_duration

if TYPE_CHECKING:
    from ternmq.admin.groups import Group
    from ternmq.admin.words import LiteModel
    from ternmq.admin.words import LiteReset as Reset
    from ternmq_command.terminal.output import Record

F = TypeVar("F", bound=Callable[..., Any])

PRIORITY_FACTOR_MAX = 100
LITE_MODELS = ("shared", "exclusive")
LITE_COLUMNS = ("lite_bind", "lite_model", "lite_quota", "lite_wildcard", "lite_reset")
"""Of `group_record`."""
_OPTIONS = (
    click.option(
        "--max-attempts",
        type=click.IntRange(min=1),
        help="Deliveries of a message, the first included.  [default: the server's]",
    ),
    click.option(
        "--retry-backoff",
        type=BackoffParam(),
        help="Backoff after failed deliveries: customized:1s,5s,10s (the last goes on) or exponential:5s,2h,2 (first, "
        "longest, factor); customized alone is the default of 1s to 2h in 18 steps.",
    ),
    click.option(
        "--consume-from",
        type=ConsumeFromParam(),
        help="Where the group begins in a queue without an offset. auto: at the first message while the queue has "
        "all it ever had, else at the end. TIME is ISO 8601, or 2h for two hours ago.  [default: auto]",
    ),
    click.option(
        "--assignment",
        metavar="STRATEGY",
        help="How queues are assigned to members that pull: averagely, averagely-by-circle, consistent-hash, "
        "by-config:c1=0,1;c2=2, machine-room:r1,r2, machine-room-nearby:averagely.  [default: averagely]",
    ),
    click.option(
        "--queue-lock-hold",
        type=DurationParam(),
        help="Let one member at a time pull a queue, until it is silent for this long; 0s: no queue locks.",
    ),
    click.option(
        "--priority-factor",
        type=click.IntRange(0, PRIORITY_FACTOR_MAX),
        metavar="N",
        help="Of 100 receives from a priority topic, N begin with the highest priority, the others with a lower one, "
        f"so that none starves.  [default: {DEFAULT_PRIORITY_FACTOR}]",
    ),
    click.option(
        "--lite-model",
        type=click.Choice(LITE_MODELS),
        help="Of a lite group: clients that subscribe to a lite topic share its messages (shared), or the latest "
        "subscriber has it alone (exclusive).  [default: shared]",
    ),
    click.option(
        "--lite-quota",
        type=click.IntRange(1, LITE_QUOTA_MAX),
        metavar="N",
        help=f"Of a lite group: a client may subscribe to N lite topics.  [default: {DEFAULT_LITE_QUOTA}]",
    ),
    click.option(
        "--lite-wildcard/--no-lite-wildcard",
        default=None,
        help="Of a lite group: each client subscribes to all lite topics, also to future ones.",
    ),
    click.option(
        "--lite-reset",
        type=LiteResetParam(),
        help="Of a lite group: reset its offset in a lite topic when another client takes it over (taken), when its "
        "subscriber drops it (unsubscribed), both (taken,unsubscribed), or never (none).  [default: none]",
    ),
)


class GroupSettings(TypedDict):
    """The values of the options; None for those that were not given."""

    max_attempts: int | None
    retry_backoff: str | None
    consume_from: str | None
    assignment: str | None
    queue_lock_hold: timedelta | None
    priority_factor: int | None
    lite_model: "LiteModel | None"
    lite_quota: int | None
    lite_wildcard: bool | None
    lite_reset: "tuple[Reset, ...] | None"


def settings_options(command: F) -> F:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def lite_option(settings: GroupSettings) -> str | None:
    """Return a given option that is for lite groups only; None if there is none."""
    names = [name for name, value in settings.items() if name in LITE_COLUMNS and value is not None]
    return f"--{names[0].replace('_', '-')}" if names else None


def given_record(settings: GroupSettings) -> dict[str, object]:
    """Return the given settings in the form of `group_record`."""
    return {name: _RECORDED.get(name, _keep_value)(value) for name, value in settings.items() if value is not None}


def group_record(group: "Group") -> dict[str, object]:
    """Return a group and its settings in the form that the options and `ternmq apply` read."""
    return {
        "name": group.name,
        "fifo": group.fifo,
        "max_attempts": group.max_attempts,
        "retry_backoff": _canonical_backoff(group.retry_backoff),
        "consume_from": _format_consume_from(group.consume_from),
        "assignment": group.assignment,
        "queue_lock_hold": _format_lock_hold(group.queue_lock_hold),
        "priority_factor": group.priority_factor,
        "lite_bind": group.lite_bind,
        "lite_model": group.lite_model,
        "lite_quota": group.lite_quota,
        "lite_wildcard": group.lite_wildcard,
        "lite_reset": None if group.lite_reset is None else _format_reset(group.lite_reset),
        "created": iso_or_none(group.created),
    }


def group_row(record: "Record") -> dict[str, object]:
    """Return a group's record for a table: the default backoff's 18 steps shortened, the lite settings in one
    column."""
    is_default = record["retry_backoff"] == str(DEFAULT_BACKOFF)
    shown = {name: value for name, value in record.items() if name not in LITE_COLUMNS}
    return {
        **shown,
        "retry_backoff": "default" if is_default else record["retry_backoff"],
        "lite": _format_lite(record),
    }


def _format_lite(record: "Record") -> str | None:
    """Format the settings of a lite group: `orders,model=exclusive,quota=100`; None for other groups."""
    if record["lite_bind"] is None:
        return None
    words = [str(record["lite_bind"]), f"model={record['lite_model']}", f"quota={record['lite_quota']}"]
    if record["lite_wildcard"]:
        words.append("wildcard")
    if record["lite_reset"] != "none":
        words.append("reset=" + str(record["lite_reset"]).replace(",", "+"))
    return ",".join(words)


def _format_reset(reset: "tuple[Reset, ...]") -> str:
    return ",".join(reset) or "none"


def _canonical_backoff(text: str) -> str:
    try:
        return str(parse_backoff(text))
    except MessagingError:
        return text  # from a newer server with another kind of backoff


def _format_consume_from(consume_from: str | datetime) -> str:
    if isinstance(consume_from, datetime):
        return iso_datetime(consume_from, timespec="milliseconds")
    return format_consume_from(consume_from)


def _format_lock_hold(queue_lock_hold: timedelta) -> str | None:
    hold_ms = queue_lock_hold // timedelta(milliseconds=1)
    return render_duration(hold_ms) if hold_ms else None


def _keep_value(value: object) -> object:
    return value


_RECORDED: Mapping[str, Callable[[Any], object]] = {
    "retry_backoff": _canonical_backoff,
    "consume_from": _format_consume_from,
    "assignment": str.strip,
    "queue_lock_hold": _format_lock_hold,
    "lite_reset": _format_reset,
}
