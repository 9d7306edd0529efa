"""`ternmq timer`: lists timed messages that are not due yet."""

import itertools
from typing import TYPE_CHECKING

import click

from ternmq_command.terminal.nearest_group import NearestGroup
from ternmq_command.terminal.options import endpoint_option, json_lines_option
from ternmq_command.terminal.output import iso_or_none, print_stream
from ternmq_command.terminal.printing import echo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ternmq.admin.timers import WaitingTimer
    from ternmq_command.terminal.output import Record

LISTED_MAX = 100


@click.group(cls=NearestGroup)
def command() -> None:
    """List timed messages that are not due yet; `ternmq recall` recalls one.

    \b
    Examples:
      ternmq timer list
      ternmq timer list --topic reminders --json
    """


@command.command(name="list")
@click.option("--topic", default="", help="Only those of this topic.")
@click.option(
    "--max", "most", type=click.IntRange(min=1), default=LISTED_MAX, show_default=True, help="Stop after this many."
)
@endpoint_option
@json_lines_option
def list_timers(topic: str, most: int, endpoint: str, as_json: bool) -> None:
    """List timed messages, those that are due next first; in a cluster, broker by broker.

    \b
    Examples:
      ternmq timer list --topic reminders
      ternmq timer list --topic reminders --json | jq -r 'select(.keys == ["order-7"]) | .recall_handle'
    """
    records = itertools.islice(_read_records(endpoint, topic), most)
    count = print_stream(records if as_json else map(_table_row, records), as_json=as_json)
    if not count:
        echo("no timed messages wait" + (f" in topic {topic}" if topic else ""), err=True)
    elif count == most:
        echo(f"the first {count:,}; --max shows more", err=True)


def _read_records(endpoint: str, topic: str) -> "Iterator[Record]":
    from ternmq.admin import timers as timer_calls
    from ternmq_command.calls.admin import AdminClient

    with AdminClient(endpoint) as admin:
        for page in admin.send_pages(lambda mark: timer_calls.list_timers(topic=topic, page=mark)):
            yield from map(_timer_record, page.timers)


def _timer_record(timer: "WaitingTimer") -> "Record":
    return {
        "due": iso_or_none(timer.due, timespec="milliseconds"),
        "topic": timer.topic,
        "broker": timer.broker,
        "queue": timer.queue_id,
        "message_id": timer.message_id,
        "tag": timer.tag or None,
        "keys": list(timer.keys),
        "stored": iso_or_none(timer.stored, timespec="milliseconds"),
        "bytes": timer.size,
        "recall_handle": timer.recall_handle,
    }


def _table_row(record: "Record") -> "Record":
    """Return the row of a table, without the recall handle, which is as wide as a terminal."""
    return {name: value for name, value in record.items() if name != "recall_handle"}
