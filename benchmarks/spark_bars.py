"""Measures the promised figures of Spark: `python -m benchmarks.spark_bars [--only NAME] [--quick] [--json]`.

source  rows per CPU second from a topic to Spark's no-op sink and to Parquet, and the limits in the same run: a Python
        source that yields Arrow batches of the same columns which were built before, into the same sinks
sink    rows per CPU second from Parquet to a topic, and to a FIFO topic in 100 message groups
idle    processor time of a micro-batch that finds nothing new

The processes of Spark and of the client in them (driver, Java, Python workers) are counted. The CPU of the broker, an
embedded one on the same machine, is printed beside it. Bodies have 300 bytes that can't be compressed.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from benchmarks.ready_batches import QUEUES, ReadyBatches, message
from ternmq.admin import topics as topic_calls
from ternmq.admin.requests.words import TopicType
from ternmq.blocking import Producer
from ternmq_command.calls.admin import AdminClient
from tests.support.spark import SETTINGS
from tests.support.stack import Stack

ROWS = 400_000
SENT = 200_000
ROUNDS = 5
# The source's part of what ready batches reach, by sink.
LEAST_RATIOS = {"no-op": 0.6, "Parquet": 0.75}
# Of the sink's rows, by the kind of their topic.
BROKER_US_MAX: dict[TopicType, int] = {"normal": 8, "fifo": 12}
# Java compiles code that runs often, and each worker creates its batches.
WARM_UP = 2
IDLE_TRIGGERS = 20
Figures = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=list(BARS))
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    # Spark's workers have to find the benchmarks too.
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(Path(__file__).parents[1])}
    figures: Figures = {}
    with tempfile.TemporaryDirectory() as folder, Stack(Path(folder) / "broker") as stack:
        settings = {**SETTINGS, "spark.sql.parquet.compression.codec": "zstd"}
        spark = SparkSession.builder.master("local[2]").appName("bars").config(map=settings).getOrCreate()
        bench = Bench(spark, stack, Path(folder), 0.1 if arguments.quick else 1.0)
        for name, measure in BARS.items():
            if arguments.only not in (None, name):
                continue
            measured = measure(bench)
            figures |= measured
            if not arguments.json:
                for label, figure in measured.items():
                    print(f"{label:<78} {figure:>12,.2f}", flush=True)
        spark.stop()
    if arguments.json:
        print(json.dumps(figures))


class Bench:
    """One Spark and one broker for all measurements."""

    def __init__(self, spark: SparkSession, stack: Stack, folder: Path, scale: float) -> None:
        self.spark = spark
        self.stack = stack
        self.folder = folder
        self.scale = scale

    def used(self, work: Callable[[], object]) -> tuple[float, float]:
        """Return the CPU seconds of Spark, and of the broker, for the work."""
        before, broker = self._spark_s(), cpu_s(self.stack.process.pid)
        work()
        return self._spark_s() - before, cpu_s(self.stack.process.pid) - broker

    def used_by_living(self, work: Callable[[], object]) -> float:
        """Return the CPU seconds of Spark's processes that live before and after. A worker that ends after a pause may
        take its earlier CPU time out of the other count."""
        before = {one.pid: own_cpu_s(one) for one in self._processes()}
        work()
        return sum(own_cpu_s(one) - before[one.pid] for one in self._processes() if one.pid in before)

    def _spark_s(self) -> float:
        """Return the CPU seconds of this process and its descendants except the broker; ended workers are counted by
        their parent."""
        return sum(cpu_s(one.pid) for one in self._processes())

    def _processes(self) -> list[psutil.Process]:
        own = psutil.Process()
        broker = self.stack.process.pid
        return [one for one in (own, *own.children(recursive=True)) if one.pid != broker]


def cpu_s(pid: int) -> float:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return times.user + times.system + times.children_user + times.children_system


def own_cpu_s(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return times.user + times.system


# --- from a topic to Parquet


def source(bench: Bench) -> Figures:
    rows = int(ROWS * bench.scale)
    with AdminClient(bench.stack.grpc) as admin:
        admin.send_call(topic_calls.create_topic("source", "normal", QUEUES))
    with Producer(bench.stack.grpc, ["source"]) as producer:
        for start in range(0, rows, 1000):
            producer.send_many([message("source", number) for number in range(start, min(start + 1000, rows))])
    bench.spark.dataSource.register(ReadyBatches)
    read = bench.spark.read.format("ternmq").option("endpoint", bench.stack.grpc)
    ready = bench.spark.read.format("ready").option("rows", rows)

    def write(name: str, sink: str) -> None:
        frame = ready.load() if name == "limit" else read.load("source")
        writer = frame.write.mode("overwrite")
        writer.format("noop").save() if sink == "no-op" else writer.parquet(str(bench.folder / name))

    figures: Figures = {}
    for sink, least in LEAST_RATIOS.items():
        rates: dict[str, list[float]] = {"limit": [], "topic": []}
        broker_s = 0.0
        for turn in range(WARM_UP + ROUNDS):
            for name, of_name in rates.items():
                spark_s, beside_s = bench.used(lambda name=name, sink=sink: write(name, sink))  # type: ignore[misc]
                if turn >= WARM_UP:
                    of_name.append(rows / spark_s)
                    broker_s += beside_s
        limit, topic = (statistics.median(of_name) for of_name in rates.values())
        figures |= {
            f"limit: rows per CPU s, ready Arrow batches to {sink}": limit,
            f"source: rows per CPU s, topic to {sink}": topic,
            f"source: ratio to the limit of {sink}, at least {least}": topic / limit,
            f"source: us of the broker's CPU a row to {sink}, at most 8": broker_s / ROUNDS / rows * 1e6,
        }
    assert bench.spark.read.parquet(str(bench.folder / "topic")).count() == rows
    return figures


# --- from Parquet to a topic


def sink(bench: Bench) -> Figures:
    rows = int(SENT * bench.scale)
    bench.spark.dataSource.register(ReadyBatches)
    source = bench.folder / "to-send"
    frame = bench.spark.read.format("ready").option("rows", rows).load()
    frame.select("body", "tag", "keys", "properties").write.parquet(str(source))
    stored = bench.spark.read.parquet(str(source))
    group = "concat('group-', cast(split(element_at(keys, 1), '-')[1] AS INT) % 100)"
    frames = {"normal": stored, "fifo": stored.selectExpr("*", f"{group} AS message_group")}
    figures: Figures = {}
    for kind, us_max in BROKER_US_MAX.items():
        topic = f"sink-{kind}"
        with AdminClient(bench.stack.grpc) as admin:
            admin.send_call(topic_calls.create_topic(topic, kind, QUEUES))
        rates: list[float] = []
        costs: list[float] = []
        for turn in range(WARM_UP + ROUNDS):
            write = frames[kind].write.format("ternmq").mode("append")
            spark_s, broker_s = bench.used(write.options(endpoint=bench.stack.grpc, topic=topic).save)
            if turn >= WARM_UP:
                rates.append(rows / spark_s)
                costs.append(broker_s / rows * 1e6)
        least = ", at least 80,000" if kind == "normal" else ""
        figures |= {
            f"sink: rows per CPU s, Parquet to {kind} topic{least}": statistics.median(rates),
            f"sink: us of the broker's CPU a row of a {kind} topic, at most {us_max}": statistics.median(costs),
        }
    return figures


# --- nothing new


def idle(bench: Bench) -> Figures:
    with AdminClient(bench.stack.grpc) as admin:
        admin.send_call(topic_calls.create_topic("idle", "normal", 8))
    with Producer(bench.stack.grpc, ["idle"]) as producer:
        producer.send(message("idle", 0))
    frame = bench.spark.readStream.format("ternmq").options(endpoint=bench.stack.grpc, startingOffsets="earliest")
    writer = frame.load("idle").writeStream.format("noop").trigger(processingTime="500 milliseconds")
    query = writer.option("checkpointLocation", str(bench.folder / "idle")).start()
    query.processAllAvailable()
    triggers = max(4, int(IDLE_TRIGGERS * bench.scale))
    spark_s = bench.used_by_living(lambda: time.sleep(triggers / 2))
    assert query.isActive
    query.stop()
    return {"idle: ms of CPU for a micro-batch with nothing new, target below 150": spark_s / triggers * 1000}


BARS: dict[str, Callable[[Bench], Figures]] = {"source": source, "sink": sink, "idle": idle}

if __name__ == "__main__":
    main()
