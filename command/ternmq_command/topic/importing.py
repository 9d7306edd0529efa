"""`ternmq topic import`: sends JSON lines to a topic; a repeated call continues where an interrupted one stopped."""

from typing import TYPE_CHECKING

import click

from ternmq_command.terminal.options import endpoint_option, json_option

if TYPE_CHECKING:
    from ternmq_command.topic.import_run import ImportCounts


@click.command()
@click.argument("topic")
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--again", is_flag=True, help="Store every message, also those that an earlier call has stored.")
@endpoint_option
@json_option
def command(topic: str, file: str, again: bool, endpoint: str, as_json: bool) -> None:
    """Send the messages of FILE (- is standard input, .gz is compressed) to TOPIC, in their order.

    A JSON line has the fields that `ternmq send --jsonl` reads, and that `topic export`, `tail --json` and `dlq export`
    write.

    After an interruption, call it again: message ids are derived from the topic, the line and its number, and messages
    stored under these ids are left out. Lines that were changed or moved in the file are stored again, and so are
    messages that are not found: those that retention or a purge removed, timed messages before their delivery, and
    messages on brokers that can't be reached.

    \b
    Examples:
      ternmq topic import orders orders.jsonl
      ternmq topic import orders-copy orders.jsonl.gz
      ternmq topic export orders | ternmq topic import orders-copy -
      ternmq topic import orders orders.jsonl --again
    """
    from ternmq_command.calls.library import converting_errors
    from ternmq_command.message.line_files import open_for_reading
    from ternmq_command.terminal.output import format_count, print_json
    from ternmq_command.terminal.printing import echo
    from ternmq_command.terminal.progress_line import ProgressLine
    from ternmq_command.topic.import_run import ImportCounts, ImportRun

    imported = ImportCounts()
    try:
        with (
            ProgressLine("imported", f"to {topic}") as progress,
            converting_errors(endpoint),
            open_for_reading(file) as source,
            ImportRun(endpoint, topic, again=again) as run,
        ):
            run.import_messages(source, imported, progress)
    finally:
        if imported.found:
            echo(f"left out {format_count(imported.found, 'message')} that an earlier call has stored", err=True)
    if as_json:
        print_json(_import_record(topic, imported))


def _import_record(topic: str, imported: "ImportCounts") -> dict[str, object]:
    return {"topic": topic, "sent": imported.sent, "left_out": imported.found}
