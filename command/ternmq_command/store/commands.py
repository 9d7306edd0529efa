"""`ternmq store`: inspects, verifies, exports and repairs the files of a broker."""

from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from ternmq_command.store.findings import UNSOUND, print_findings, summary_record, verified_record
from ternmq_command.store.options import directory_argument, progress_bar, store_failures
from ternmq_command.store.repair import repair
from ternmq_command.store.rescue import rescue
from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.nearest_group import NearestGroup
from ternmq_command.terminal.options import TimeParam, json_option
from ternmq_command.terminal.output import (
    format_count,
    format_json,
    format_record,
    format_table,
    iso_datetime,
    print_json,
)
from ternmq_command.terminal.printing import echo, echo_lines
from ternmq_common.process.private_files import private_umask

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_broker.store.log.record import Record
    from ternmq_broker.store_tools.checking.verification import VerificationResult
    from ternmq_broker.store_tools.inspection import StoreInspection


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
        from ternmq_broker.store_tools.inspection import inspect_store

        found = inspect_store(directory)
    if as_json:
        print_json(_inspection_facts(found) | {"segments": _segment_records(found), "topics": _topic_records(found),
        "queues": _queue_records(found),
                                    "groups": _group_records(found), "accepted_damage": _range_records(found.accepted),
                                    "damage": _range_records(found.newly_damaged),
                                    "set_aside": found.set_aside})  # fmt: skip
        return
    echo_lines(format_record(_inspection_facts(found)))
    for title, records in (
        ("segments", _segment_records(found)),
        ("queues", _queue_records(found)) if with_queues else ("topics", _topic_records(found)),
        ("groups", _group_records(found)),
        ("damage that was accepted", _range_records(found.accepted)),
        ("damage that a start would find", _range_records(found.newly_damaged)),
        ("set aside", [{"file": name} for name in found.set_aside]),
    ):
        if records:
            echo_lines(f"\n{title}\n{format_table(records)}")


def _inspection_facts(found: "StoreInspection") -> dict[str, object]:
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


def _segment_records(found: "StoreInspection") -> list[dict[str, object]]:
    return [
        {
            "log_offset": each.log_offset,
            "bytes": each.size_bytes,
            "first_stored": _format_ms(each.first_stored_ms),
            "last_stored": _format_ms(each.last_stored_ms),
        }
        for each in found.segments
    ]


def _queue_records(found: "StoreInspection") -> list[dict[str, object]]:
    return [
        {
            "topic": each.topic,
            "queue": each.queue_id,
            "first_offset": each.first,
            "end_offset": each.end,
            "messages": each.end - each.first,
            "first_stored": _format_ms(each.first_stored_ms),
            "last_stored": _format_ms(each.last_stored_ms),
        }
        for each in found.queues
    ]


def _topic_records(found: "StoreInspection") -> list[dict[str, object]]:
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
                "first_stored": _format_ms(min(first, default=None)),
                "last_stored": _format_ms(max(last, default=None)),
            }
        )
    return records


def _group_records(found: "StoreInspection") -> list[dict[str, object]]:
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


def _range_records(ranges: "Iterable[tuple[int, int]]") -> list[dict[str, object]]:
    return [{"log_offset": begin, "bytes": end - begin} for begin, end in ranges]


def _format_ms(milliseconds: int | None) -> str | None:
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
        from ternmq_broker.store_tools.checking.verification import verify_store

        found = verify_store(directory, progress)
    if as_json:
        print_json(verified_record(found))
    else:
        print_findings(found)
        echo_lines(format_record(summary_record(found)))
        echo_lines(_verdict_text(found))
    return 0 if found.findings.is_sound else UNSOUND


def _verdict_text(found: "VerificationResult") -> str:
    problems = found.findings.problems
    if found.findings.is_sound:
        return "\nthe store is sound"
    parts = ", ".join(f"{count} of the {part}" for part, count in sorted(problems.items()) if count)
    return f"\n{format_count(problems.total(), 'problem')}: {parts}; `ternmq store repair` repairs what it can"


# --- export


@command.command()
@directory_argument
@click.option("--topic", "topics", multiple=True, help="Only this topic; repeatable.  [default: all but retries and "
              "dead letters]")  # fmt: skip
@click.option(
    "--since", type=TimeParam(), help="Only messages stored since this time: ISO 8601, or 2h for two hours ago."
)
@click.option("--until", type=TimeParam(), help="Only messages stored before this time.")
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
        from ternmq_broker.store_tools.export import ExportSelection, SkippedRecords, export_messages

        wanted = ExportSelection(
            topics=frozenset(topics),
            **{name: round(at.timestamp() * 1000) for name, at in (("since_ms", since), ("until_ms", until)) if at},
        )
        skipped = SkippedRecords()
        try:
            with private_umask():
                target = click.open_file(out, "w", encoding="utf-8")
        except OSError as error:
            raise WrongUsage(f"can't write {out}: {error.strerror}") from None
        with target as file:
            count = _write_records(file, export_messages(directory, wanted, skipped, progress))
    echo(f"exported {format_count(count, 'message')}", err=True)
    if skipped.places or skipped.messages:
        lost = sum(end - begin for begin, end in skipped.places)
        echo(
            f"left out {format_count(len(skipped.places), 'damaged place')} of the log, {lost} bytes, and "
            f"{format_count(skipped.messages, 'message')} that share bytes with one; `ternmq store verify` names them",
            err=True,
        )


def _write_records(file: "IO[str]", records: "Iterable[Record]") -> int:
    from ternmq_command.dlq.dead_letters import full_letter_record
    from ternmq_command.store.stored_message import build_view

    count = 0
    for record in records:
        shown = {"topic": record.topic, "queue": record.queue_id, **full_letter_record(build_view(record))}
        file.write(format_json(shown) + "\n")
        count += 1
    return count
