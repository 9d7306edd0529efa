"""`ternmq topic import`: messages of JSON lines into a topic, such that a second call goes on where the first ended."""

from typing import TYPE_CHECKING

import click

from ternmq_command.terminal.options import endpoint_option, json_option

if TYPE_CHECKING:
    from ternmq_command.topic.import_run import Imported


@click.command()
@click.argument("topic")
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--again", is_flag=True, help="Store every message, also those that an earlier call has stored.")
@endpoint_option
@json_option
def command(topic: str, file: str, again: bool, endpoint: str, as_json: bool) -> None:
    """Send the messages of FILE (- is standard input, .gz is compressed) to TOPIC, in their order.

    A JSON line has what `ternmq send --jsonl` reads: what `topic export`, `tail --json` and `dlq export` write.

    When it was interrupted, call it again: messages have ids that are made of the topic, the line and its number, and
    what is stored under them is left out. So the same file changed in the middle, or put together otherwise, is stored
    anew, and so is what is not found: what retention or a purge removed, what waits for its time of delivery, and what
    is on a broker that can't be reached.

    \b
    Examples:
      ternmq topic import orders orders.jsonl
      ternmq topic import orders-copy orders.jsonl.gz
      ternmq topic export orders | ternmq topic import orders-copy -
      ternmq topic import orders orders.jsonl --again
    """
    from ternmq_command.calls.library import client_errors
    from ternmq_command.message.line_files import opened
    from ternmq_command.terminal.output import counted, print_json
    from ternmq_command.terminal.printing import echo
    from ternmq_command.terminal.progress_line import ProgressLine
    from ternmq_command.topic.import_run import Imported, ImportRun

    imported = Imported()
    try:
        with (
            ProgressLine("imported", f"to {topic}") as progress,
            client_errors(endpoint),
            opened(file) as source,
            ImportRun(endpoint, topic, again=again) as run,
        ):
            run.take(source, imported, progress)
    finally:
        if imported.found:
            echo(f"left out {counted(imported.found, 'message')} that an earlier call has stored", err=True)
    if as_json:
        print_json(_record(topic, imported))


def _record(topic: str, imported: "Imported") -> dict[str, object]:
    return {"topic": topic, "sent": imported.sent, "left_out": imported.found}
