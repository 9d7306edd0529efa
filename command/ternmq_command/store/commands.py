"""`ternmq store`: inspects, verifies, exports and repairs the files of a broker."""

from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from ternmq_command.store.findings import UNSOUND, print_findings, summary, verified_record
from ternmq_command.store.options import directory_argument, progress_bar, store_failures
from ternmq_command.store.repair import repair
from ternmq_command.store.rescue import rescue
from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.nearest_group import NearestGroup
from ternmq_command.terminal.options import Moment, json_option
from ternmq_command.terminal.output import counted, described, iso_datetime, json_text, print_json, table
from ternmq_command.terminal.printing import echo, echo_lines
from ternmq_common.private_files import private_umask

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_broker.store.log.record import Record
    from ternmq_broker.store_tools.inspection import Inspected
    from ternmq_broker.store_tools.verification import Verified


@click.group(cls=NearestGroup)
def command() -> None:
    """Inspect the files of a broker. All but `repair` only read, and can be used while a broker runs.

    DIR is the data directory of a broker, or the folder `store` in it.

    \b
    Examples:
      ternmq store inspect ternmq-data
      ternmq store verify ternmq-data
      ternmq store export ternmq-data --topic orders --out orders.jsonl
      ternmq store repair ternmq-data --dry-run
      ternmq store rescue 4711 /mnt/saved
    """


command.add_command(repair)
command.add_command(rescue)


# --- inspect


@command.command()
@directory_argument
@click.option("--queues", "with_queues", is_flag=True, help="List each queue, not only topics.")
@json_option
def inspect(directory: Path, with_queues: bool, as_json: bool) -> None:
    """Show the store of DIR: segments, topics, groups, waiting messages, damage.

    It reads the indexes, and recovers the rest as a start would; `ternmq store verify` reads everything.

    \b
    Examples:
      ternmq store inspect
      ternmq store inspect /var/lib/ternmq --queues
      ternmq store inspect ternmq-data --json | jq .topics
    """
    with store_failures():
        from ternmq_broker.store_tools.inspection import inspected

        found = inspected(directory)
    if as_json:
        print_json(_facts(found) | {"segments": _segments(found), "topics": _topics(found), "queues": _queues(found),
                                    "groups": _groups(found), "accepted_damage": _places(found.accepted),
                                    "damage": _places(found.newly_damaged), "set_aside": found.set_aside})  # fmt: skip
        return
    echo_lines(described(_facts(found)))
    for title, records in (
        ("segments", _segments(found)),
        ("queues", _queues(found)) if with_queues else ("topics", _topics(found)),
        ("groups", _groups(found)),
        ("damage that was accepted", _places(found.accepted)),
        ("damage that a start would find", _places(found.newly_damaged)),
        ("set aside", [{"file": name} for name in found.set_aside]),
    ):
        if records:
            echo_lines(f"\n{title}\n{table(records)}")


def _facts(found: "Inspected") -> dict[str, object]:
    return {
        "store": str(found.path),
        "in_use": found.is_running,
        "layout": found.layout,
        **({"layout_1_below": found.layout_1_below} if found.layout_1_below else {}),
        "log_start": found.log_start,
        "log_end": found.log_end,
        "durable": found.durable,
        "torn_tail_bytes": found.torn_bytes,
        "messages": sum(queue.end - queue.first for queue in found.queues),
        "pending_timers": found.pending_timers,
        "waiting_half_messages": found.waiting_halves,
    }


def _segments(found: "Inspected") -> list[dict[str, object]]:
    return [
        {
            "log_offset": each.log_offset,
            "bytes": each.size_bytes,
            "first_stored": _moment(each.first_stored_ms),
            "last_stored": _moment(each.last_stored_ms),
        }
        for each in found.segments
    ]


def _queues(found: "Inspected") -> list[dict[str, object]]:
    return [
        {
            "topic": each.topic,
            "queue": each.queue_id,
            "first_offset": each.first,
            "end_offset": each.end,
            "messages": each.end - each.first,
            "first_stored": _moment(each.first_stored_ms),
            "last_stored": _moment(each.last_stored_ms),
        }
        for each in found.queues
    ]


def _topics(found: "Inspected") -> list[dict[str, object]]:
    records = []
    for topic in dict.fromkeys(each.topic for each in found.queues):
        queues = [each for each in found.queues if each.topic == topic]
        first = [each.first_stored_ms for each in queues if each.first_stored_ms is not None]
        last = [each.last_stored_ms for each in queues if each.last_stored_ms is not None]
        records.append(
            {
                "topic": topic,
                "queues": len(queues),
                "messages": sum(each.end - each.first for each in queues),
                "first_stored": _moment(min(first, default=None)),
                "last_stored": _moment(max(last, default=None)),
            }
        )
    return records


def _groups(found: "Inspected") -> list[dict[str, object]]:
    return [
        {
            "group": each.group,
            "topic": each.topic,
            "queue": "retries" if each.is_retry else each.queue_id,
            "delivered": each.cursor,
            "unfinished": each.unfinished,
            "end_offset": each.end,
            "lag": max(0, each.end - each.cursor) + each.unfinished,
        }
        for each in found.groups
    ]


def _places(ranges: "Iterable[tuple[int, int]]") -> list[dict[str, object]]:
    return [{"log_offset": begin, "bytes": end - begin} for begin, end in ranges]


def _moment(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    return iso_datetime(datetime.fromtimestamp(milliseconds / 1000, UTC), timespec="milliseconds")


# --- verify


@command.command()
@directory_argument
@json_option
def verify(directory: Path, as_json: bool) -> int:
    """Read and check the whole store of DIR: every record, index row, key and timer, and the other files.

    Problems are listed one on each line; damage that a start accepted is listed too, and is no problem. The exit code
    is 0 if the store is sound and 1 if not.

    \b
    Examples:
      ternmq store verify
      ternmq store verify /var/lib/ternmq --json | jq .problems
    """
    with store_failures(), progress_bar("verifying") as progress:
        from ternmq_broker.store_tools.verification import verified

        found = verified(directory, progress)
    if as_json:
        print_json(verified_record(found))
    else:
        print_findings(found)
        echo_lines(described(summary(found)))
        echo_lines(_verdict(found))
    return 0 if found.findings.is_sound else UNSOUND


def _verdict(found: "Verified") -> str:
    problems = found.findings.problems
    if found.findings.is_sound:
        return "\nthe store is sound"
    parts = ", ".join(f"{count} of the {part}" for part, count in sorted(problems.items()) if count)
    return f"\n{counted(problems.total(), 'problem')}: {parts}; `ternmq store repair` repairs what it can"


# --- export


@command.command()
@directory_argument
@click.option("--topic", "topics", multiple=True, help="Only this topic; repeatable.  [default: all but retries and "
              "dead letters]")  # fmt: skip
@click.option("--since", type=Moment(), help="Only messages stored since this time: ISO 8601, or 2h for two hours ago.")
@click.option("--until", type=Moment(), help="Only messages stored before this time.")
@click.option("--out", default="-", type=click.Path(allow_dash=True), metavar="FILE", help="Write here.  [default: -, "
              "standard output]")  # fmt: skip
def export(directory: Path, topics: tuple[str, ...], since: datetime | None, until: datetime | None, out: str) -> None:
    """Write the messages of the store of DIR, in the order in which they were stored.

    Each line is a JSON object as `ternmq dlq export` writes it, with the topic and the queue. Damaged messages are left
    out and counted. The command works where a broker refuses to start. Timed messages that are not due and half
    messages are in no queue yet, and are not exported.

    \b
    Examples:
      ternmq store export --topic orders --out orders.jsonl
      ternmq store export /var/lib/ternmq --since 2h | jq -r .body
    """
    with store_failures(), progress_bar("exporting") as progress:
        from ternmq_broker.store_tools.export import ExportSelection, Skipped, exported

        wanted = ExportSelection(
            topics=frozenset(topics),
            **{name: round(at.timestamp() * 1000) for name, at in (("since_ms", since), ("until_ms", until)) if at},
        )
        skipped = Skipped()
        try:
            with private_umask():
                target = click.open_file(out, "w", encoding="utf-8")
        except OSError as error:
            raise WrongUsage(f"can't write {out}: {error.strerror}") from None
        with target as file:
            count = _write(file, exported(directory, wanted, skipped, progress))
    echo(f"exported {counted(count, 'message')}", err=True)
    if skipped.places or skipped.messages:
        lost = sum(end - begin for begin, end in skipped.places)
        echo(
            f"left out {counted(len(skipped.places), 'damaged place')} of the log, {lost} bytes, and "
            f"{counted(skipped.messages, 'message')} that share bytes with one; `ternmq store verify` names them",
            err=True,
        )


def _write(file: "IO[str]", records: "Iterable[Record]") -> int:
    from ternmq_command.dlq.dead_letters import whole_record
    from ternmq_command.store.stored_message import view_of

    count = 0
    for record in records:
        shown = {"topic": record.topic, "queue": record.queue_id, **whole_record(view_of(record))}
        file.write(json_text(shown) + "\n")
        count += 1
    return count
