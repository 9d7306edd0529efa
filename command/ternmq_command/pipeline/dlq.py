"""`ternmq pipeline dlq`: analyses, repairs and resends the dead letters of a group by Spark."""

from functools import partial
from typing import TYPE_CHECKING

import click

from ternmq_command.pipeline.options import SparkOptions, connection_options, spark_options
from ternmq_command.pipeline.session import check_options, pipeline_session
from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.options import json_option
from ternmq_command.terminal.output import format_count, format_table, iso_datetime, print_json
from ternmq_command.terminal.printing import echo, echo_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark_ternmq.pipelines.connection import PipelineConnection
    from pyspark_ternmq.pipelines.dead_letters.dlq import DlqOptions, DlqReport

# Kinds of letters that a table has; the report has all.
ROWS_MAX = 20


@click.command()
@click.option("--group", required=True, metavar="GROUP", help="Whose dead letters.")
@click.option("--report", metavar="FOLDER", help="Write what was found and done to Parquet files.")
@click.option(
    "--repair",
    metavar="MODULE:FUNCTION",
    help="A function that gets a letter and returns the message to send, or None to leave the letter.",
)
@click.option("--send", is_flag=True, help="Send letters, instead of printing what would be sent; unchanged without "
              "--repair.")  # fmt: skip
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="Handle at most this many letters, the oldest first."
)
@click.option(
    "--step", "step_rows", type=click.IntRange(min=1), default=10_000, show_default=True, help="Letters of one step."
)
@click.option(
    "--checkpoint",
    metavar="FOLDER",
    help="With --send: where handled letters are recorded: a local folder, or s3a://bucket/folder.",
)
@connection_options
@spark_options
@json_option
def command(
    group: str,
    report: str | None,
    repair: str | None,
    send: bool,
    limit: int | None,
    step_rows: int,
    checkpoint: str | None,
    connection: "Callable[[], PipelineConnection]",
    spark_at: SparkOptions,
    as_json: bool,
) -> None:
    """Count the dead letters of GROUP by reason, origin, tag, attempts and hour; repair them and send them back.

    A letter is sent as a new message to the topic that it came from, for all groups of that topic: `ternmq dlq resend`
    delivers unchanged letters to the one group only. With a checkpoint each letter is handled once; after a kill, some
    may be sent again with the same message id. The exit code is 1 if some could not be repaired or sent, and standard
    error lists them with the reasons.

    \b
    repairs.py, in the current folder:
      def add_currency(letter):
          order = json.loads(letter.body)
          return letter.message(body=json.dumps({**order, "currency": "EUR"}).encode())

    \b
    Examples:
      ternmq pipeline dlq --group billing
      ternmq pipeline dlq --group billing --repair repairs:add_currency --report /data/letters
      ternmq pipeline dlq --group billing --repair repairs:add_currency --send --checkpoint /data/checkpoints/billing
    """
    if send and checkpoint is None:
        raise WrongUsage("--send needs --checkpoint, which records the letters that were sent")

    def build_options() -> "DlqOptions":
        from pyspark_ternmq.pipelines.dead_letters.dlq import DlqOptions

        return DlqOptions(
            connection=connection(),
            group=group,
            repair=repair,
            send=send,
            report=report,
            checkpoint=checkpoint,
            limit=limit,
            step_rows=step_rows,
        )

    wanted = check_options(build_options)
    with pipeline_session("dlq", spark_at) as (spark, line):
        from pyspark_ternmq.pipelines.dead_letters import dlq
        from pyspark_ternmq.pipelines.sessions.restarts import restarted

        # Without a checkpoint it sends nothing, and starts over.
        run = partial(dlq.run, spark, wanted, line=line)
        result = restarted(run, line, has_checkpoint=checkpoint is not None)
    if as_json:
        print_json(_report_record(result))
    else:
        _print_report(result, group, decided=send or repair is not None)
    if result.failed:
        click.get_current_context().exit(1)


def _kind_records(report: "DlqReport") -> list[dict[str, object]]:
    return [
        {**kind._asdict(), "hour": kind.hour and iso_datetime(kind.hour), "letters": letters}
        for kind, letters in report.analysis.most_common()
    ]


def _report_record(report: "DlqReport") -> dict[str, object]:
    names = ("letters", "sent", "ready", "left", "failed", "missing")
    failures = [failure._asdict() for failure in report.failures]
    return {**{name: getattr(report, name) for name in names}, "analysis": _kind_records(report), "failures": failures}


def _print_report(report: "DlqReport", group: str, *, decided: bool) -> None:
    if not report.letters:
        echo(f"group {group} has no dead letters that were not handled", err=True)
        return
    kinds = _kind_records(report)
    echo_lines(format_table(kinds[:ROWS_MAX]))
    if len(kinds) > ROWS_MAX:
        echo(f"and {len(kinds) - ROWS_MAX} more kinds; --report writes them all", err=True)
    text = format_count(report.letters, "dead letter")
    if decided:
        text += f": {report.sent:,} sent, " if not report.ready else f": {report.ready:,} would be sent, "
        text += f"{report.left:,} left, {report.failed:,} failed"
    echo(text)
    _print_failures(report)


def _print_failures(report: "DlqReport") -> None:
    for failure in report.failures[:ROWS_MAX]:
        place = f"{failure.broker}/{failure.queue_id} offset {failure.offset}"
        origin = failure.origin_topic or "a topic that the letter does not name"
        # The text of an exception of the user's function may have several lines.
        why = " ".join((failure.why or "no reason is known").split())
        echo(f"failed: {place} (id {failure.message_id or '-'}, of {origin}): {why}", err=True)
    if report.failed > len(report.failures[:ROWS_MAX]):
        more = report.failed - len(report.failures[:ROWS_MAX])
        echo(f"and {more:,} more; --report writes them all", err=True)
