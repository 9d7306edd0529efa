"""`ternmq pipeline lake`: writes topics to Parquet files, partitioned by topic, date and hour."""

import dataclasses
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Literal

import click

from ternmq_command.pipeline.compact import build_compaction, compaction_options
from ternmq_command.pipeline.decoding_options import decoding_options
from ternmq_command.pipeline.options import (
    SparkOptions,
    connection_options,
    source_options,
    spark_options,
    stream_options,
)
from ternmq_command.pipeline.session import check_options, pipeline_session
from ternmq_command.pipeline.table_options import table_options
from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.options import DurationParam, json_option
from ternmq_command.terminal.output import format_count, print_json
from ternmq_command.terminal.printing import echo

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark_ternmq.decoding.columns import BodyFormat
    from pyspark_ternmq.decoding.schema_registry.subject import AvroOfSubject
    from pyspark_ternmq.pipelines.connection import PipelineConnection
    from pyspark_ternmq.pipelines.lake import LakeOptions, LakeReport
    from pyspark_ternmq.pipelines.lake.options import Format as LakeFormat


@click.command()
@click.option("--topics", required=True, metavar="TOPIC,...", help="What to write; dead letters are in %DLQ%group.")
@click.option("--out", required=True, metavar="FOLDER", help="A local folder, or one that Spark can write: hdfs, s3a.")
@click.option("--checkpoint", metavar="FOLDER", help="Where the progress is kept.  [default: FOLDER/_checkpoint]")
@table_options
@stream_options("written")
@click.option("--max-offsets-per-trigger", type=click.IntRange(min=1), metavar="N", help="Most messages of a batch.")
@click.option("--tag", metavar="TAGS", help="Only messages with one of these tags, as in 'paid||shipped'.")
@click.option("--filter", "sql_filter", metavar="SQL92", help="Only messages whose properties match.")
@click.option("--group", metavar="GROUP", help="A consumer group to commit the progress to, so that its lag shows.")
@source_options
@click.option(
    "--event-time",
    type=click.Choice(["born", "stored"]),
    default="born",
    show_default=True,
    help="The time that decides the date and hour of a message.",
)
@click.option(
    "--dedup-window",
    type=DurationParam(),
    default="1h",
    show_default=True,
    help="How long message ids are remembered, so that an id is written once; 0 writes duplicates too.",
)
@click.option(
    "--lateness",
    type=DurationParam(),
    default="1h",
    show_default=True,
    help="Messages that were stored longer than this after they were born go to late/; not with --event-time stored.",
)
@click.option(
    "--json-schema", metavar="DDL", help="Parse bodies as JSON, as in 'id long, amount double', into a column json."
)
@decoding_options
@click.option(
    "--max-malformed",
    type=click.FloatRange(min=0, max=1),
    default=0.5,
    show_default=True,
    metavar="SHARE",
    help="A batch with a larger share of malformed messages is an error, and is not written; 1 allows all.",
)
@click.option(
    "--compact", "is_compacted", is_flag=True, help="Merge small files afterwards, and with --continuous regularly."
)
@click.option(
    "--compact-every", type=click.IntRange(min=1), default=100, show_default=True, metavar="N", help="In batches."
)
@compaction_options
@connection_options
@spark_options
@json_option
def command(
    topics: str,
    out: str,
    checkpoint: str | None,
    trigger: timedelta | None,
    starting: str,
    max_offsets_per_trigger: int | None,
    tag: str | None,
    sql_filter: str | None,
    group: str | None,
    source: tuple[tuple[str, str], ...],
    event_time: Literal["born", "stored"],
    dedup_window: timedelta,
    lateness: timedelta,
    json_schema: str | None,
    decoding: "Callable[[], BodyFormat | AvroOfSubject | None]",
    max_malformed: float,
    is_compacted: bool,
    compact_every: int,
    older_than: timedelta,
    target_bytes: int,
    min_files: int,
    retention: timedelta,
    table_format: "LakeFormat",
    storage: tuple[tuple[str, str], ...],
    catalog: str | None,
    catalog_settings: tuple[tuple[str, str], ...],
    namespace: str,
    connection: "Callable[[], PipelineConnection]",
    spark_at: SparkOptions,
    as_json: bool,
) -> None:
    """Write topics to Parquet files in FOLDER/data/topic=T/date=D/hour=H, each message exactly once.

    Late messages go to FOLDER/late, and malformed ones to FOLDER/malformed, with a column `reason`. A batch of which
    more than half is malformed is an error (--max-malformed).

    The pipeline can be stopped or killed at any moment: the same command continues where it stopped. With --format the
    three folders become Delta tables, or tables of an Iceberg catalog, which are called NAMESPACE.data and so on.

    \b
    Examples:
      ternmq pipeline lake --topics orders,payments --out /data/lake
      ternmq pipeline lake --topics orders --out /data/lake --json-schema 'id long, amount decimal(10,2)' --compact
      ternmq pipeline lake --topics orders --out /data/lake --avro-schema order.avsc
      ternmq pipeline lake --topics orders --out s3a://bucket/lake --continuous --trigger 30s --group lake
      ternmq pipeline lake --topics orders --out /data/lake --format delta --compact
      ternmq pipeline lake --topics orders --out /data/lake --format iceberg --catalog prod --namespace shop
    """

    def build_options() -> "LakeOptions":
        from pyspark_ternmq.pipelines.lake import LakeOptions

        return LakeOptions(
            connection=connection(),
            topics=[topic.strip() for topic in topics.split(",")],
            out=out,
            checkpoint=checkpoint,
            starting=starting,
            max_offsets_per_trigger=max_offsets_per_trigger,
            tag=tag,
            filter=sql_filter,
            group=group,
            source_options=dict(source),
            event_time=event_time,
            dedup_window=dedup_window,
            lateness=lateness,
            json_schema=json_schema,
            decoding=decoding(),
            max_malformed=max_malformed,
            trigger=trigger,
            compaction=build_compaction(older_than, target_bytes, min_files, retention, storage)
            if is_compacted
            else None,
            compact_every_batches=compact_every,
            format=table_format,
            storage_options=dict(storage),
            catalog=catalog,
            catalog_options=dict(catalog_settings),
            namespace=namespace,
        )

    _print_report(_run_pipeline(check_options(build_options), spark_at), out, as_json=as_json)


def _run_pipeline(options: "LakeOptions", spark_at: SparkOptions) -> "LakeReport":
    with pipeline_session("lake", spark_at) as (spark, line):
        from pyspark_ternmq.pipelines import lake
        from pyspark_ternmq.pipelines.sessions.restarts import restarted

        try:
            return restarted(partial(lake.run, spark, options, line=line), line)
        except ValueError as error:  # a JSON schema, which only a session can read, or a lake of another format
            raise WrongUsage(str(error)) from None


def _print_report(report: "LakeReport", out: str, *, as_json: bool) -> None:
    if as_json:
        print_json(dataclasses.asdict(report))
        return
    batches = "1 batch" if report.batches == 1 else f"{report.batches} batches"
    echo(
        f"{report.rows:,} rows to {out} in {batches}, {format_count(report.files, 'file')}; apart: {report.late:,} "
        "late, "
        f"{report.malformed:,} malformed; dropped: {format_count(report.duplicates, 'duplicate')}"
    )
