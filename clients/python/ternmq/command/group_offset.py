"""`ternmq group offset`: show how far a group is, and move it."""

from datetime import datetime
from typing import TYPE_CHECKING

import click

from ternmq.command.confirmation import confirm, yes_option
from ternmq.command.failures import WrongUsage
from ternmq.command.nearest_group import NearestGroup
from ternmq.command.options import Moment, endpoint_option, json_option
from ternmq.command.output import counted, print_json, table
from ternmq.command.printing import echo, echo_lines
from ternmq.command.progress import lag_sentence, progress_record, shown_progress, totals

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq.command.admin import AdminClient
    from ternmq_protos.admin_v1 import admin_pb2


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

    The lag is what is neither acknowledged nor given up; OLDEST is the age of the oldest message of it.

    \b
    Examples:
      ternmq group offset show billing
      ternmq group offset show billing --topic orders --json | jq .total.lag_s
    """
    from ternmq.command.admin import AdminClient

    with AdminClient(endpoint) as admin:
        entries = [entry for entry in admin.group(group).progress if topic in (None, entry.topic)]
    records, total = [progress_record(entry) for entry in entries], totals(entries)
    if as_json:
        print_json({"group": group, "queues": records, "total": total})
    elif records:
        echo_lines(table(shown_progress(records)))
        echo_lines(f"\nlag {lag_sentence(total)}; {total['in_flight']} in flight")
    else:
        echo(f"group {group} has no progress yet" + (f" in {topic}" if topic else ""), err=True)


@command.command()
@click.argument("group")
@click.option("--topic", required=True, help="The topic in which the group moves.")
@click.option("--queue", "queue_ids", type=click.IntRange(min=0), multiple=True, help="Only this queue; repeatable.")
@click.option("--to-earliest", is_flag=True, help="To the first message that is kept.")
@click.option("--to-latest", is_flag=True, help="Behind the last message: skip all that is there.")
@click.option("--to-time", type=Moment(), help="To the first message stored then or later: ISO 8601, or 2h (ago).")
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
    """Move GROUP in a topic. Asks first; without a terminal it needs --yes.

    Messages that members have in hand come again if they are behind the new place. Without --queue, what waits for a
    retry is dropped.

    \b
    Examples:
      ternmq group offset reset billing --topic orders --to-earliest
      ternmq group offset reset billing --topic orders --to-time 2h --dry-run
      ternmq group offset reset billing --topic orders --queue 3 --queue 4 --shift -100
    """
    from ternmq.command.admin import AdminClient
    from ternmq_protos.admin_v1 import admin_pb2

    request = admin_pb2.ResetOffsetsRequest(group=group, topic=topic, queue_ids=queue_ids, dry_run=dry_run)
    _set_target(request, earliest=to_earliest, latest=to_latest, time=to_time, offset=to_offset, shift=shift)
    with AdminClient(endpoint) as admin:
        if not dry_run:
            confirm(lambda: f"{_move_table(_rehearsed(admin, request))}\nMove group {group} in {topic} so?", yes=yes)
        moves = admin.reset_offsets(request)
    _print_moves(request, moves, as_json=as_json)


def _set_target(
    request: "admin_pb2.ResetOffsetsRequest",
    *,
    earliest: bool,
    latest: bool,
    time: datetime | None,
    offset: int | None,
    shift: int | None,
) -> None:
    if [earliest, latest, time is not None, offset is not None, shift is not None].count(True) != 1:
        raise WrongUsage("give exactly one of --to-earliest, --to-latest, --to-time, --to-offset and --shift")
    if earliest or latest:
        setattr(request, "earliest" if earliest else "latest", True)
    elif time is not None:
        request.time.FromDatetime(time)
    elif offset is not None:
        request.offset = offset
    elif shift is not None:
        request.shift = shift


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
    """Skip the backlog of GROUP in a topic: it goes on with what is sent from now on.

    The messages stay in the topic, so `ternmq group offset reset` can go back to them. What waits for a retry is
    dropped. With --offset nothing but that message is skipped: a FIFO group stops at one that can't be read any more,
    and goes on then. Asks first; without a terminal it needs --yes.

    \b
    Examples:
      ternmq group offset skip billing --topic orders
      ternmq group offset skip billing --topic orders --queue 3 --offset 4711 --yes
    """
    from ternmq.command.admin import AdminClient
    from ternmq_protos.admin_v1 import admin_pb2

    if (offset is None) != (queue_id is None) or (broker and offset is None):
        raise WrongUsage("--offset goes with --queue, and --broker with both")
    request = admin_pb2.ResetOffsetsRequest(group=group, topic=topic, latest=True, broker=broker)
    if offset is not None and queue_id is not None:
        request.skip = offset
        request.queue_ids.append(queue_id)
        _skip_one(request, endpoint, yes=yes, as_json=as_json)
        return
    with AdminClient(endpoint) as admin:
        skipped = _unfinished(admin, request)
        confirm(f"Skip {counted(skipped, 'message')} of {topic}, so that group {group} does not get them?", yes=yes)
        moves = admin.reset_offsets(request)
    _print_moves(request, moves, as_json=as_json)
    if not as_json:
        echo_lines(f"\nskipped {counted(skipped, 'message')}")


def _skip_one(request: "admin_pb2.ResetOffsetsRequest", endpoint: str, *, yes: bool, as_json: bool) -> None:
    from ternmq.command.admin import AdminClient

    place = f"offset {request.skip} of queue {request.queue_ids[0]} of {request.topic}"
    with AdminClient(endpoint) as admin:
        confirm(f"Skip the message at {place}, so that group {request.group} does not get it?", yes=yes)
        moves = admin.reset_offsets(request)
    _print_moves(request, moves, as_json=as_json)
    if not as_json:
        echo_lines(f"\nskipped the message at {place}")


def _unfinished(admin: "AdminClient", request: "admin_pb2.ResetOffsetsRequest") -> int:
    """Messages that the group has not finished: its lag, and all that a queue holds in which it never was."""
    lags = {
        (entry.broker, entry.queue_id): entry.max_offset - entry.cursor + entry.in_flight
        for entry in admin.group(request.group).progress
        if entry.topic == request.topic
    }
    queues = admin.topic(request.topic).queues
    return sum(lags.get((queue.broker, queue.queue_id), queue.max_offset - queue.min_offset) for queue in queues)


def _rehearsed(admin: "AdminClient", request: "admin_pb2.ResetOffsetsRequest") -> "list[admin_pb2.OffsetMove]":
    rehearsal = type(request)()
    rehearsal.CopyFrom(request)
    rehearsal.dry_run = True
    return admin.reset_offsets(rehearsal)


def _print_moves(
    request: "admin_pb2.ResetOffsetsRequest", moves: "list[admin_pb2.OffsetMove]", *, as_json: bool
) -> None:
    if as_json:
        records = [_move_record(move) for move in moves]
        print_json({"group": request.group, "topic": request.topic, "dry_run": request.dry_run, "moves": records})
        return
    echo_lines(_move_table(moves))
    if request.dry_run:
        echo_lines("\nnothing was changed (--dry-run)")


def _move_table(moves: "Iterable[admin_pb2.OffsetMove]") -> str:
    """`broker-0  queue 3  120 -> 450`."""
    return "\n".join(
        f"{move.broker}  queue {move.queue_id}  {'never there' if move.before < 0 else move.before} -> {move.after}"
        for move in moves
    )


def _move_record(move: "admin_pb2.OffsetMove") -> dict[str, object]:
    return {
        "broker": move.broker,
        "queue": move.queue_id,
        "before": None if move.before < 0 else move.before,
        "after": move.after,
    }
