"""`ternmq pipeline stats`: computes counts, bytes and latencies by time windows."""

import dataclasses
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import click

from ternmq_command.pipeline.options import (
    SparkOptions,
    connection_options,
    source_options,
    spark_options,
    stream_options,
)
from ternmq_command.pipeline.session import check_options, pipeline_session
from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.options import DurationParam, json_option
from ternmq_command.terminal.output import format_count, iso_datetime, print_json
from ternmq_command.terminal.printing import echo

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark_ternmq.pipelines.connection import PipelineConnection
    from pyspark_ternmq.pipelines.stats import StatsOptions, StatsReport


@click.command()
@click.option("--topics", required=True, metavar="TOPIC,...", help="The topics to count.")
@click.option("--window", type=DurationParam(), default="1m", show_default=True, help="How long a window is.")
@click.option(
    "--by",
    default="topic,tag",
    show_default=True,
    metavar="topic,tag,key",
    help="The columns to group by; some of these.",
)
@click.option("--out", metavar="FOLDER", help="Write Parquet files below FOLDER/windows/date=D.")
@click.option("--to", metavar="TOPIC", help="Send a JSON message for each window to this topic.")
@click.option("--to-tag", default="stats", show_default=True, metavar="TAG", help="The tag of these messages.")
@click.option(
    "--delay",
    type=DurationParam(),
    default="10m",
    show_default=True,
    help="How long after its end a window waits for late messages.",
)
@click.option(
    "--checkpoint", metavar="FOLDER", help="Where the progress is kept.  [default: FOLDER/_checkpoint of --out]"
)
@stream_options("counted")
@click.option(
    "--max-offsets-per-trigger",
    type=click.IntRange(min=1),
    metavar="N",
    help="Most messages of a batch; a queue that is read to its end sooner may make messages of others late.",
)
@source_options
@connection_options
@spark_options
@json_option
def command(
    topics: str,
    window: timedelta,
    by: str,
    out: str | None,
    to: str | None,
    to_tag: str,
    delay: timedelta,
    checkpoint: str | None,
    trigger: timedelta | None,
    starting: str,
    max_offsets_per_trigger: int | None,
    source: tuple[tuple[str, str], ...],
    connection: "Callable[[], PipelineConnection]",
    spark_at: SparkOptions,
    as_json: bool,
) -> None:
    """Count messages, bytes and latencies by windows of the store time.

    A window is written once: to files exactly once, to a topic at least once with its own message id. It is written
    when a message comes that was stored --delay after the window's end, so the last windows of a topic wait for more
    messages.

    \b
    Examples:
      ternmq pipeline stats --topics orders,payments --out /data/stats
      ternmq pipeline stats --topics orders --by topic,key --window 1h --out /data/stats
      ternmq pipeline stats --topics orders --to orders-stats --checkpoint /data/checkpoints/stats --continuous
    """
    folder = checkpoint or (f"{out.rstrip('/')}/_checkpoint" if out else None)
    if folder is None:
        raise WrongUsage("--checkpoint is needed without --out")

    def build_options() -> "StatsOptions":
        from pyspark_ternmq.pipelines.stats import StatsOptions

        return StatsOptions(
            connection=connection(),
            topics=[topic.strip() for topic in topics.split(",")],
            checkpoint=folder,
            out=out,
            to=to,
            to_tag=to_tag,
            window=window,
            by=[name.strip() for name in by.split(",")],  # type: ignore[misc]  # checked there
            delay=delay,
            starting=starting,
            max_offsets_per_trigger=max_offsets_per_trigger,
            trigger=trigger,
            source_options=dict(source),
        )

    wanted = check_options(build_options)
    with pipeline_session("stats", spark_at) as (spark, line):
        from pyspark_ternmq.pipelines import stats
        from pyspark_ternmq.pipelines.sessions.restarts import restarted

        report = restarted(partial(stats.run, spark, wanted, line=line), line)
    if as_json:
        closes_at = report.closes_at and iso_datetime(report.closes_at)
        print_json({**dataclasses.asdict(report), "closes_at": closes_at})
        return
    where = " and ".join(name for name in (out, to) if name)
    echo(
        f"{format_count(report.windows, 'row')} of {format_count(report.messages, 'message')} to "
        f"{where}{_waiting_text(report)}"
    )


def _waiting_text(report: "StatsReport") -> str:
    """Return the part of the report about windows that are not written yet."""
    if not report.waiting:
        return ""
    text = f"; {format_count(report.waiting, 'row')} of open windows wait in the checkpoint"
    if report.closes_at is not None:
        text += f" until a message comes that was stored at {iso_datetime(report.closes_at)} or later"
    return text
