"""`ternmq pipeline compact`: merges small files of a lake into larger ones."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ternmq_command.pipeline.options import SparkOptions, spark_options
from ternmq_command.pipeline.session import check_options, pipeline_session
from ternmq_command.pipeline.table_options import storage_option
from ternmq_command.terminal.failures import CommandFailure
from ternmq_command.terminal.options import DurationParam, json_option
from ternmq_command.terminal.output import format_count, print_json
from ternmq_command.terminal.printing import echo
from ternmq_common.units import parse_size

if TYPE_CHECKING:
    from pyspark_ternmq.pipelines.lake import CompactionOptions

F = TypeVar("F", bound=Callable[..., Any])

if TYPE_CHECKING:
    SizeType = click.ParamType[int]
else:  # older releases of click can't be subscripted
    SizeType = click.ParamType


class SizeParam(SizeType):
    """A size such as `128MiB`; a plain number is in bytes."""

    name = "SIZE"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            size_bytes = parse_size(value)
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)
        if size_bytes < 1:
            self.fail(f"{value!r}: at least 1 byte is needed", param, ctx)
        return size_bytes


def compaction_options(command: F) -> F:
    """Add the options of a compaction: `older_than`, `target_bytes`, `min_files` and `retention`."""
    for option in (
        click.option(
            "--retention",
            type=DurationParam(),
            default="7d",
            show_default=True,
            help="Delta: how long merged files are kept for readers of older versions.",
        ),
        click.option(
            "--min-files",
            type=click.IntRange(min=2),
            default=4,
            show_default=True,
            help="Compact partitions with at least this many small files.",
        ),
        click.option(
            "--target-bytes", type=SizeParam(), default="128MiB", show_default=True, help="How large a file may become."
        ),
        click.option(
            "--older-than",
            type=DurationParam(),
            default="1h",
            show_default=True,
            help="How long ago a partition's hour must have ended to be compacted.",
        ),
    ):
        command = option(command)
    return command


def build_compaction(
    older_than: timedelta,
    target_bytes: int,
    min_files: int,
    retention: timedelta,
    storage: tuple[tuple[str, str], ...],
) -> "CompactionOptions":
    from pyspark_ternmq.pipelines.lake import CompactionOptions

    return CompactionOptions(
        older_than=older_than,
        target_bytes=target_bytes,
        min_files=min_files,
        retention=retention,
        storage_options=dict(storage),
    )


@click.command()
@click.option("--out", required=True, metavar="FOLDER", help="The lake, as given to `ternmq pipeline lake`.")
@compaction_options
@storage_option
@spark_options
@json_option
def command(
    out: str,
    older_than: timedelta,
    target_bytes: int,
    min_files: int,
    retention: timedelta,
    storage: tuple[tuple[str, str], ...],
    spark_at: SparkOptions,
    as_json: bool,
) -> None:
    """Merge small files of a lake, hour by hour, into larger ones.

    Only files of less than half of --target-bytes are merged. The lake pipeline may run at the same time; a second
    compaction is refused. A compaction that is killed changes nothing, or is finished by the next. Readers that list a
    partition while its files are replaced may see rows twice, as long as _commits/compact-*.json exists; readers of
    Delta tables do not. Iceberg tables are compacted by an engine of their catalog.

    \b
    Examples:
      ternmq pipeline compact --out /data/lake
      ternmq pipeline compact --out s3a://bucket/lake --older-than 6h --target-bytes 512MiB
    """
    options = check_options(partial(build_compaction, older_than, target_bytes, min_files, retention, storage))
    with pipeline_session("compact", spark_at) as (spark, line):
        from pyspark_ternmq.pipelines import lake
        from pyspark_ternmq.pipelines.sessions.restarts import restarted

        def show_progress(report: lake.CompactionReport) -> None:
            line.show_progress(f"{report.removed:,} files merged into {report.added:,}")

        try:
            run = partial(lake.compact, spark, out, options, on_group=show_progress)
            report = restarted(run, line, has_checkpoint=False)
        except lake.WrongFormat as error:
            raise CommandFailure(str(error)) from None
    if as_json:
        print_json(
            {"partitions": report.partitions, "removed": report.removed, "added": report.added, "bytes": report.bytes}
        )
    elif not report.removed:
        echo("nothing to compact")
    else:
        where = format_count(report.partitions, "partition")
        echo(f"merged {format_count(report.removed, 'file')} of {where} into {report.added:,}, {report.bytes:,} bytes")
