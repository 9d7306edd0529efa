"""`ternmq topic export`: writes a topic's messages as JSON lines, which `topic import` and `send --jsonl` read."""

import sys
from datetime import datetime

import click

from ternmq_command.terminal.options import TimeParam, endpoint_option


@click.command()
@click.argument("topic")
@click.argument("file", type=click.Path(allow_dash=True), default="-")
@click.option("--since", type=TimeParam(), help="Only those stored since this time: ISO 8601, or 2h for two hours ago.")
@click.option("--until", type=TimeParam(), help="Only those stored before this time.")
@click.option("--broker", default="", metavar="NAME", help="Only those on this broker of a cluster.")
@click.option("--queue", "queue_id", type=click.IntRange(min=0), metavar="N", help="Only those in this queue.")
@endpoint_option
def command(
    topic: str,
    file: str,
    since: datetime | None,
    until: datetime | None,
    broker: str,
    queue_id: int | None,
    endpoint: str,
) -> None:
    """Write the messages of TOPIC to FILE (- is standard output, .gz is compressed), the oldest first.

    Each line is a JSON object, which `ternmq topic import` reads: queue and offset, id, tag, keys, properties, times
    and the body, as text if it is UTF-8 and as body_base64 if not. The export ends where the queues ended when it
    began. No consumer group is changed. Timed messages before their delivery and half messages are in no queue yet, and
    left out.

    \b
    Examples:
      ternmq topic export orders > orders.jsonl
      ternmq topic export orders orders.jsonl.gz --since 2026-08-01T12:00
      ternmq topic export orders --queue 3 | jq -r .body
    """
    from ternmq_command.calls.library import message_record
    from ternmq_command.message.line_files import STANDARD, open_for_writing
    from ternmq_command.message.message import open_topic_messages
    from ternmq_command.terminal.output import format_json
    from ternmq_command.terminal.progress_line import ProgressLine

    with open_topic_messages(endpoint, topic, broker, queue_id) as messages:
        within = messages.offset_ranges(since=since, until=until)
        total = sum(map(len, within.values()))
        is_quiet = file == STANDARD and sys.stdout.isatty()
        with (
            ProgressLine("exported", f"of {topic}", total=total, is_quiet=is_quiet) as progress,
            open_for_writing(file) as out,
        ):
            for view in messages.read_ranges(within):
                out.write(format_json(message_record(view)).encode() + b"\n")
                progress.add_messages(1)
