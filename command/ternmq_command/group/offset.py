"""`ternmq group offset`: shows, resets and skips offsets of a consumer group."""

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, cast

import click

from ternmq_command.group.progress import format_lag, progress_record, progress_rows, sum_progress
from ternmq_command.terminal.confirmation import confirm_action, yes_option
from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.nearest_group import NearestGroup
from ternmq_command.terminal.options import TimeParam, endpoint_option, json_option
from ternmq_command.terminal.output import format_count, format_table, print_json
from ternmq_command.terminal.printing import echo, echo_lines

if TYPE_CHECKING:
    from ternmq.admin.groups import OffsetMove, Target
    from ternmq_command.calls.admin import AdminClient


@click.group(cls=NearestGroup)
def command() -> None:
    """Show the offsets of a consumer group, reset them, or skip its backlog.

    \b
    Examples:
      ternmq group offset show billing
      ternmq group offset reset billing --topic orders --to-time 2026-08-01T12:00 --dry-run
      ternmq group offset skip billing --topic orders
    """


@command.command()
@click.argument("group")
@click.option("--topic", help="Only this topic.")
@endpoint_option
@json_option
def show(group: str, topic: str | None, endpoint: str, as_json: bool) -> None:
    """Show where GROUP is in each queue: committed, delivered, in flight, and how far behind.

    The lag is the number of messages neither acknowledged nor given up; OLDEST is the age of the oldest of them.

    \b
    Examples:
      ternmq group offset show billing
      ternmq group offset show billing --topic orders --json | jq .total.lag_s
    """
    from ternmq.admin import groups as group_calls
    from ternmq_command.calls.admin import AdminClient

    with AdminClient(endpoint) as admin:
        entries = [
            entry
            for entry in admin.send_call(group_calls.describe_group(group)).progress
            if topic in (None, entry.topic)
        ]
    records, total = [progress_record(entry) for entry in entries], sum_progress(entries)
    if as_json:
        print_json({"group": group, "queues": records, "total": total})
    elif records:
        echo_lines(format_table(progress_rows(records)))
        echo_lines(f"\nlag {format_lag(total)}; {total['in_flight']} in flight")
    else:
        echo(f"group {group} has no progress yet" + (f" in {topic}" if topic else ""), err=True)


@command.command()
@click.argument("group")
@click.option("--topic", required=True, help="The topic in which the group moves.")
@click.option("--queue", "queue_ids", type=click.IntRange(min=0), multiple=True, help="Only this queue; repeatable.")
@click.option("--to-earliest", is_flag=True, help="To the first message that is kept.")
@click.option("--to-latest", is_flag=True, help="Behind the last message: skip all stored messages.")
@click.option("--to-time", type=TimeParam(), help="To the first message stored then or later: ISO 8601, or 2h (ago).")
@click.option("--to-offset", type=click.IntRange(min=0), metavar="N", help="To this offset.")
@click.option("--shift", type=int, metavar="N", help="By so many messages; negative goes back.")
@click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing.")
@yes_option
@endpoint_option
@json_option
def reset(
    group: str,
    topic: str,
    queue_ids: tuple[int, ...],
    to_earliest: bool,
    to_latest: bool,
    to_time: datetime | None,
    to_offset: int | None,
    shift: int | None,
    dry_run: bool,
    yes: bool,
    endpoint: str,
    as_json: bool,
) -> None:
    """Move the offsets of GROUP in a topic. Asks first; without a terminal it needs --yes.

    Messages in flight are delivered again if they are at the new offset or behind it. Without --queue, messages that
    wait for a retry are dropped.

    \b
    Examples:
      ternmq group offset reset billing --topic orders --to-earliest
      ternmq group offset reset billing --topic orders --to-time 2h --dry-run
      ternmq group offset reset billing --topic orders --queue 3 --queue 4 --shift -100
    """
    from ternmq.admin import groups
    from ternmq_command.calls.admin import AdminClient

    places = ("earliest" if to_earliest else None, "latest" if to_latest else None, to_time, to_offset)
    given = [place for place in places if place is not None]
    if len(given) + (shift is not None) != 1:
        raise WrongUsage("give exactly one of --to-earliest, --to-latest, --to-time, --to-offset and --shift")
    to = cast("Target | None", given[0] if given else None)
    move = partial(groups.reset_offsets, group, topic, to, shift=shift, queue_ids=queue_ids)
    with AdminClient(endpoint) as admin:
        if not dry_run:
            confirm_action(
                lambda: f"{_move_table(admin.send_call(move(dry_run=True)))}\nMove group {group} in {topic}?",
                yes=yes,
            )
        moves = admin.send_call(move(dry_run=dry_run))
    _print_moves(group, topic, moves, dry_run=dry_run, as_json=as_json)


@command.command()
@click.argument("group")
@click.option("--topic", required=True, help="The topic whose backlog is skipped.")
@click.option("--offset", type=click.IntRange(min=0), metavar="N", help="Only the message there; with --queue.")
@click.option("--queue", "queue_id", type=click.IntRange(min=0), help="The queue of that message.")
@click.option("--broker", default="", help="The broker of that message, if there is more than one.")
@yes_option
@endpoint_option
@json_option
def skip(
    group: str,
    topic: str,
    offset: int | None,
    queue_id: int | None,
    broker: str,
    yes: bool,
    endpoint: str,
    as_json: bool,
) -> None:
    """Skip the backlog of GROUP in a topic: it continues with messages that are sent from now on.

    The messages stay in the topic, so `ternmq group offset reset` can go back to them. Messages that wait for a retry
    are dropped. With --offset only that message is skipped: a FIFO group stops at a message that can't be read any
    more, and continues after the skip. Asks first; without a terminal it needs --yes.

    \b
    Examples:
      ternmq group offset skip billing --topic orders
      ternmq group offset skip billing --topic orders --queue 3 --offset 4711 --yes
    """
    from ternmq.admin import groups
    from ternmq_command.calls.admin import AdminClient

    if (offset is None) != (queue_id is None) or (broker and offset is None):
        raise WrongUsage("--offset goes with --queue, and --broker with both")
    with AdminClient(endpoint) as admin:
        if offset is not None and queue_id is not None:
            skipped = f"the message at offset {offset} of queue {queue_id} of {topic}"
            confirm_action(f"Skip {skipped}, so that group {group} does not get it?", yes=yes)
            moves = admin.send_call(groups.skip_message(group, topic, queue_id, offset, broker=broker))
        else:
            skipped = format_count(_count_unfinished(admin, group, topic), "message")
            confirm_action(f"Skip {skipped} of {topic}, so that group {group} does not get them?", yes=yes)
            moves = admin.send_call(groups.reset_offsets(group, topic, "latest"))
    _print_moves(group, topic, moves, dry_run=False, as_json=as_json)
    if not as_json:
        echo_lines(f"\nskipped {skipped}")


def _count_unfinished(admin: "AdminClient", group: str, topic: str) -> int:
    """Return the number of unfinished messages: the group's lag, and all messages of queues where it has no offset."""
    from ternmq.admin import groups as group_calls
    from ternmq.admin import topics as topic_calls

    progress = [entry for entry in admin.send_call(group_calls.describe_group(group)).progress if entry.topic == topic]
    lags = {(entry.broker, entry.queue_id): entry.lag for entry in progress}
    queues = admin.send_call(topic_calls.describe_topic(topic)).queues
    return sum(lags.get((queue.broker, queue.queue_id), queue.max_offset - queue.min_offset) for queue in queues)


def _print_moves(group: str, topic: str, moves: "list[OffsetMove]", *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        records = [_move_record(move) for move in moves]
        print_json({"group": group, "topic": topic, "dry_run": dry_run, "moves": records})
        return
    echo_lines(_move_table(moves))
    if dry_run:
        echo_lines("\nnothing was changed (--dry-run)")


def _move_table(moves: "list[OffsetMove]") -> str:
    """Format moves as lines: `broker-0  queue 3  120 -> 450`."""
    return "\n".join(
        f"{move.broker}  queue {move.queue_id}  {'never there' if move.before is None else move.before} -> {move.after}"
        for move in moves
    )


def _move_record(move: "OffsetMove") -> dict[str, object]:
    return {"broker": move.broker, "queue": move.queue_id, "before": move.before, "after": move.after}
