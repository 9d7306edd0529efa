"""`ternmq pipeline replay`: sends the rows of files to a topic."""

import dataclasses
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Literal

import click

from ternmq_command.pipeline.options import SparkOptions, connection_options, spark_options
from ternmq_command.pipeline.session import check_options, pipeline_session
from ternmq_command.pipeline.table_options import catalog_options
from ternmq_command.terminal.options import DurationParam, TimeParam, json_option
from ternmq_command.terminal.output import format_count, print_json
from ternmq_command.terminal.printing import echo

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark_ternmq.pipelines.connection import PipelineConnection
    from pyspark_ternmq.pipelines.replaying.replay import ReplayOptions, ReplayReport
    from pyspark_ternmq.pipelines.snapshots.opening import FileFormat


@click.command()
@click.option(
    "--from",
    "paths",
    required=True,
    multiple=True,
    metavar="PATH",
    help="A lake or a part of it, a Delta or Iceberg table, a folder or a file; repeatable.",
)
@click.option("--to", required=True, metavar="TOPIC", help="The topic that gets the messages.")
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["parquet", "json", "delta", "iceberg"]),
    help="What PATH must be, otherwise it is refused; by default it is detected: a table, or files by their names.",
)
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), metavar="N", help="Messages per second.")
@click.option(
    "--pace",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SPEED",
    help="At the pace of the messages' times: 1 for the original pace, 2 for twice as fast.",
)
@click.option(
    "--tick",
    type=DurationParam(),
    default="1s",
    show_default=True,
    help="With --pace, for how long messages are collected and sent together, which delays them by at most that.",
)
@click.option("--since", type=TimeParam(), help="Only those since this time: ISO 8601, or 2h for two hours ago.")
@click.option("--until", type=TimeParam(), help="Only those before this time.")
@click.option(
    "--order",
    type=click.Choice(["born", "stored"]),
    default="stored",
    show_default=True,
    help="The time that decides the order, and to which --pace, --since and --until refer.",
)
@click.option("--keep-ids", is_flag=True, help="Send messages with their original ids, not with new ones.")
@click.option(
    "--step", "step_rows", type=click.IntRange(min=1), default=100_000, show_default=True, help="Messages of one step."
)
@click.option(
    "--checkpoint",
    metavar="FOLDER",
    help="Where plan and progress are kept: a local folder or s3a://bucket/folder; without it, a replay can't go on.",
)
@catalog_options
@connection_options
@spark_options
@json_option
def command(
    paths: tuple[str, ...],
    to: str,
    file_format: "FileFormat | None",
    rate: float | None,
    pace: float | None,
    tick: timedelta,
    since: datetime | None,
    until: datetime | None,
    order: Literal["born", "stored"],
    keep_ids: bool,
    step_rows: int,
    checkpoint: str | None,
    storage: tuple[tuple[str, str], ...],
    catalog: str | None,
    catalog_settings: tuple[tuple[str, str], ...],
    namespace: str,
    connection: "Callable[[], PipelineConnection]",
    spark_at: SparkOptions,
    as_json: bool,
) -> None:
    """Send rows of a lake, of Parquet files or JSON lines to a topic, in the order of their times.

    A path in a Delta or Iceberg table is read as that table: the live rows of its version at the start, of all topics
    or of topic=T. Each message is sent once. Message groups keep their order; other messages are ordered by steps.

    A replay with a checkpoint can be stopped or killed: the same command continues with the same version or files, and
    repeats the interrupted step with the same message ids. If rows were deleted or files changed, it is refused.

    \b
    Examples:
      ternmq pipeline replay --from /data/lake/data/topic=orders --to orders-again --rate 5000
      ternmq pipeline replay --from letters.jsonl --to orders --keep-ids
      ternmq pipeline replay --from /data/lake --catalog prod --namespace shop --to orders-again
      ternmq pipeline replay --from /data/lake/data/topic=orders --to orders-test --pace 10 \\
        --since 2026-08-01T12:00 --until 2026-08-01T13:00 --checkpoint /data/checkpoints/replay
    """

    def build_options() -> "ReplayOptions":
        from pyspark_ternmq.pipelines.replaying.replay import ReplayOptions
        from pyspark_ternmq.pipelines.snapshots.snapshot import TableSettings

        tables = TableSettings(
            storage_options=dict(storage), catalog=catalog, catalog_options=dict(catalog_settings), namespace=namespace
        )
        return ReplayOptions(
            paths=paths,
            to=to,
            connection=connection(),
            file_format=file_format,
            tables=tables,
            order=order,
            since=since,
            until=until,
            rows_per_second=rate,
            speed=pace,
            tick=tick,
            step_rows=step_rows,
            keep_ids=keep_ids,
            checkpoint=checkpoint,
        )

    wanted = check_options(build_options)
    with pipeline_session("replay", spark_at) as (spark, line):
        from pyspark_ternmq.pipelines.replaying import replay
        from pyspark_ternmq.pipelines.sessions.restarts import restarted

        run = partial(replay.run, spark, wanted, line=line)
        # Without a checkpoint it is unknown what was sent already.
        report = run() if checkpoint is None else restarted(run, line)
    if as_json:
        print_json(dataclasses.asdict(report))
    else:
        echo(_report_sentence(report, to))


def _report_sentence(report: "ReplayReport", to: str) -> str:
    done = report.steps - report.steps_before
    text = f"sent {format_count(report.sent, 'message')} to {to} in {format_count(done, 'step')}"
    if report.steps_before:
        text += f"; {format_count(report.steps_before, 'step')} were done before"
    if report.doubles:
        text += f"; {format_count(report.doubles, 'row')} left out, since their messages occur more than once"
    if report.skipped:
        text += f"; {format_count(report.skipped, 'row')} can't be sent"
    if report.latest_s is not None:
        text += f"; the latest step was done {report.latest_s:.1f} s after its time"
    return text
