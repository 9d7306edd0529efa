"""Writes the flights from the topic into a lake, and creates tables and charts from it.

Broker      is started again on the first part's data while the lake pipeline reads
Restart     the lake pipeline continues from its checkpoint; tables and charts are created again
Proof       `LakeAccount`: each flight that the broker acknowledged is in the lake
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark_ternmq.demo import charts, flights
from pyspark_ternmq.pipelines import lake
from pyspark_ternmq.pipelines.connection import PipelineConnection
from pyspark_ternmq.pipelines.progress import LOOK_INTERVAL_S, ProgressLine, QueryPosition
from pyspark_ternmq.pipelines.sessions.restarts import restarted
from ternmq_command.calls.admin import AdminClient
from ternmq_command.demo import TOPIC
from ternmq_command.demo.lake.lake_account import LakeAccount
from ternmq_command.demo.lake.names import airport_names, carrier_names
from ternmq_command.demo.lake.second_report import SparkOutput, TableResult
from ternmq_command.demo.lake.signal_listener import SignalListener
from ternmq_command.demo.ledger import Ledger
from ternmq_command.demo.replay import DemoFolders
from ternmq_command.demo.stack import DemoStack
from ternmq_command.pipeline.options import SparkOptions, spark_session_for
from ternmq_command.terminal.failures import CommandFailure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_ternmq.demo.findings import Row

# Java's second compiler takes more processor time in these minutes than its code saves.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
AT_HOME = SparkOptions(master=None, config={"spark.driver.extraJavaOptions": JAVA_OPTIONS}, is_verbose=False)
# Seven batches for all flights, so that there is visible progress.
BATCH_ROWS = 50_000
CHARTS = {
    "hourly_departures": charts.hourly_departures,
    "delays_by_carrier": charts.delays_by_carrier,
    "busiest_routes": charts.busiest_routes,
}


def spark_run(folders: DemoFolders, ledger: Ledger) -> SparkOutput:
    with SignalListener() as stopping, _StoppableLine(stopping) as line:
        steps = _StepTimes(stopping)
        line.print_line("starting Spark")
        with spark_session_for("ternmq demo", AT_HOME) as spark:
            stopping.start_listening()
            with _running_broker(folders) as endpoint:
                line.print_line(f"broker ready at {endpoint}; writing its topic to {folders.lake}")
                steps.end_step("start")
                written = _fill_lake(spark, folders, endpoint, line)
                steps.end_step("lake")
                messages = _messages_in_topic(endpoint)
            steps.end_step("broker's stop")
            account = _build_account(spark, folders, ledger, messages)
            line.print_line(f"{account.rows:,} rows are in the lake; making tables and charts")
            tables = _write_tables(spark, folders)
            steps.end_step("tables")
        results = [_draw_chart(folders, name, rows) for name, rows in tables.items()]
        steps.end_step("charts")
    return SparkOutput(account, written.rows, written.batches, steps.seconds, results)


class _StepTimes:
    """The duration of each step; signals are handled between steps."""

    def __init__(self, stopping: SignalListener) -> None:
        self._stopping = stopping
        self._last_s = time.monotonic()
        self.seconds: dict[str, float] = {}

    def end_step(self, name: str) -> None:
        now_s = time.monotonic()
        self.seconds[name], self._last_s = now_s - self._last_s, now_s
        self._stopping.check_signals()


class _StoppableLine(ProgressLine):
    """A progress line that also checks for signals; the pipeline updates it twice a second, between calls into Java."""

    def __init__(self, stopping: SignalListener) -> None:
        super().__init__("lake")
        self._stopping = stopping

    def update(self, position: QueryPosition) -> None:
        super().update(position)
        self._stopping.check_signals()

    def wait(self, duration_s: float) -> None:
        """Wait for some seconds; raises KeyboardInterrupt after a signal."""
        end_s = time.monotonic() + duration_s
        while (left_s := end_s - time.monotonic()) > 0:
            self._stopping.check_signals()
            time.sleep(min(left_s, LOOK_INTERVAL_S))


@contextmanager
def _running_broker(folders: DemoFolders) -> Iterator[str]:
    """Run a broker on the first part's data for the block, and yield its endpoint."""
    stack = DemoStack(folders.stack, folders.log)
    with asyncio.Runner() as runner:
        try:
            runner.run(stack.start())
            yield stack.grpc
        finally:
            runner.run(stack.stop())


def _fill_lake(spark: "SparkSession", folders: DemoFolders, endpoint: str, line: _StoppableLine) -> lake.LakeReport:
    options = lake.LakeOptions(
        connection=PipelineConnection(endpoint=endpoint),
        topics=[TOPIC],
        out=str(folders.lake.resolve()),
        max_offsets_per_trigger=BATCH_ROWS,
        json_schema=flights.JSON_SCHEMA,
    )
    try:
        return restarted(partial(lake.run, spark, options, line=line), line, wait=line.wait)
    except (lake.Locked, lake.LockLost) as error:
        raise CommandFailure(str(error)) from None
    except (lake.LakeBroken, OSError) as error:
        raise CommandFailure(f"{error}; --fresh starts over") from None


def _messages_in_topic(endpoint: str) -> int:
    from ternmq.admin import topics as topic_calls

    with AdminClient(endpoint) as admin:
        return sum(
            queue.max_offset - queue.min_offset for queue in admin.send_call(topic_calls.describe_topic(TOPIC)).queues
        )


def _build_account(spark: "SparkSession", folders: DemoFolders, ledger: Ledger, messages: int) -> LakeAccount:
    def count_set_aside(kind: str) -> int:
        folder = folders.lake / kind
        return spark.read.parquet(str(folder.resolve())).count() if folder.exists() else 0

    numbers = flights.flight_numbers(flights.read_messages(spark, str(folders.lake.resolve())))
    return LakeAccount.count_flights(
        ledger, numbers, messages=messages, late=count_set_aside("late"), malformed=count_set_aside("malformed")
    )


def _write_tables(spark: "SparkSession", folders: DemoFolders) -> "dict[str, list[Row]]":
    """Write the tables to Parquet, and return the rows of each."""
    each_flight = flights.each_once(flights.read_messages(spark, str(folders.lake.resolve()))).persist()
    tables = {
        "hourly_departures": flights.hourly_departures(each_flight),
        "delays_by_carrier": flights.delays_by_carrier(each_flight, carrier_names()),
        "busiest_routes": flights.busiest_routes(each_flight, airport_names()),
    }
    rows = {name: _write_table(table, _table_folder(folders, name)) for name, table in tables.items()}
    each_flight.unpersist()
    return rows


def _write_table(table: "DataFrame", folder: Path) -> "list[Row]":
    table.coalesce(1).write.mode("overwrite").parquet(str(folder.resolve()))
    return [row.asDict() for row in table.sparkSession.read.parquet(str(folder.resolve())).collect()]


def _draw_chart(folders: DemoFolders, name: str, rows: "list[Row]") -> TableResult:
    folders.charts.mkdir(exist_ok=True)
    chart = folders.charts / f"{name}.png"
    return TableResult(name, rows, _table_folder(folders, name), chart, finding=CHARTS[name](rows, chart))


def _table_folder(folders: DemoFolders, name: str) -> Path:
    return folders.tables / f"{name}.parquet"
