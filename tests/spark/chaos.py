"""Exactly once, whatever dies: `python -m tests.spark.chaos [--kills 20 | --minutes 1] [--format delta]`.

A job copies a topic to another one through Spark's source and sink, then the lake pipeline writes that one to Parquet
files, or to Delta or Iceberg tables. Both are killed with SIGKILL over and over at random moments: the driver with its
Java, or a Python worker under it. At the end every message has to be in the lake, each once; in the topic between, what
was sent twice has one id.

Tables get new fields of the JSON with each of the first starts, and those of Delta are compacted on the way. In the end
rows are deleted, and a replay has to send what the table has.
"""

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from pyspark_ternmq.pipelines.lake.options import FORMATS, Format
from ternmq import Message
from ternmq.admin import topics as topic_calls
from ternmq.blocking import Producer
from ternmq.pull.offset_reader import OffsetReader
from ternmq_command.calls.admin import AdminClient
from tests.spark.lake_tables import TableOptions, arguments_of, arrow, delta_table, iceberg_table, table_options
from tests.support.spark_jobs import SparkJob, batches_done, last_batch
from tests.support.stack import Stack
from tests.support.topic_contents import bodies

if TYPE_CHECKING:
    import pyarrow as pa

QUEUES = 4
MakeJob = Callable[[], SparkJob]
# Says whether a job was killed enough, from how often it was.
Enough = Callable[[int], bool]
# A job that is killed for a time has so many micro-batches, which it doesn't finish in it.
MICRO_BATCHES = 40
# Of the first starts of the lake, one after the other; the others have the last.
SCHEMAS = ("id long", "id long, lines array<struct<a: int>>", "id long, lines array<struct<a: int, b: string>>, c date")
COMPACTED_BEFORE_START = len(SCHEMAS)


@dataclass(frozen=True, slots=True)
class Account:
    """What became of the messages."""

    kills: int
    sent: int
    missing: int
    twice_in_lake: int
    twice_in_topic: int
    ids_in_topic: int
    bodies_in_topic: int
    is_replay_right: bool = True

    @property
    def exactly_once(self) -> bool:
        has_all = self.missing == self.twice_in_lake == 0 and self.ids_in_topic == self.bodies_in_topic == self.sent
        return has_all and self.is_replay_right


def run(
    folder: Path, *, kills: int = 0, minutes: float = 0, messages: int, seed: int, table_format: Format = "parquet"
) -> Account:
    """Half of the kills hit each of the two jobs; with `minutes` as many as there is time for, at least one each."""
    chance = random.Random(seed)
    rows = max(10, messages // (2 * kills if kills else MICRO_BATCHES))
    with Stack(folder / "broker") as stack:
        with AdminClient(stack.grpc) as admin:
            admin.send_call(topic_calls.create_topic("origin", "normal", QUEUES))
            admin.send_call(topic_calls.create_topic("copy", "normal", QUEUES))
        send(stack.grpc, messages)
        checkpoint = folder / "copy-checkpoint"
        copy = ("-m", "tests.spark.jobs.copy", stack.grpc, "origin", "copy", str(checkpoint), str(rows))
        done = survive(
            lambda: SparkJob(folder / "copy", command=copy),
            checkpoint,
            lambda: in_topic(stack.grpc, "copy"),
            counted(kills // 2) if kills else timed(minutes * 30),
            chance,
        )
        lake, checkpoint = folder / "lake", folder / "lake-checkpoint"
        arguments = ("--endpoint", stack.grpc, "--topics", "copy", "--out", str(lake), "--checkpoint", str(checkpoint))
        tables = table_options(table_format, folder)
        limit = ("--max-offsets-per-trigger", str(rows), *arguments_of(tables))
        starts = itertools.count()

        def lake_job() -> SparkJob:
            number = next(starts)
            if table_format == "parquet":
                return SparkJob(folder / "job", "lake", *arguments, *limit)
            if table_format == "delta" and number == COMPACTED_BEFORE_START:
                delta_table(lake).optimize.compact()
            schema = SCHEMAS[min(number, len(SCHEMAS) - 1)]
            return SparkJob(folder / "job", "lake", *arguments, *limit, "--json-schema", schema)

        done += survive(
            lake_job,
            checkpoint,
            lambda: parquet_files(lake),
            counted(kills - kills // 2) if kills else timed(minutes * 30),
            chance,
        )
        found = account(stack.grpc, arrow(lake, tables), done, messages)
        if table_format != "parquet":
            found = replace(found, is_replay_right=replays_what_is_left(stack.grpc, folder, lake, tables))
        return found


def replays_what_is_left(endpoint: str, folder: Path, lake: Path, tables: TableOptions) -> bool:
    """Delete a part of the rows and replay the table: whether that sends what the table has then."""
    if tables["format"] == "delta":
        delta_table(lake).delete("json['id'] % 3 = 0")
    else:
        iceberg_table(tables).delete("json.id < 1000")
    left = Counter(number_of(body) for body in arrow(lake, tables).column("body").to_pylist())
    with AdminClient(endpoint) as admin:
        admin.send_call(topic_calls.create_topic("again", "normal", QUEUES))
    command = ("replay", "--endpoint", endpoint, "--from", str(lake), "--to", "again", *arguments_of(tables))
    with SparkJob(folder / "replay", *command) as job:
        job.finish()
    return Counter(number_of(body) for body in bodies(endpoint, "again")) == left


def number_of(body: bytes) -> int:
    """Of a message of `send`."""
    return int(json.loads(body)["id"])


def parquet_files(folder: Path) -> int:
    """How many there are, published or staged. Folders may go while this looks."""
    return sum(name.endswith(".parquet") for _, _, names in os.walk(folder) for name in names)


def send(endpoint: str, messages: int) -> None:
    with Producer(endpoint, ["origin"]) as producer:
        for start in range(0, messages, 20):  # the messages of one request go to one queue
            numbers = range(start, min(start + 20, messages))
            producer.send_many([Message("origin", json.dumps({"id": number}).encode(), tag="t") for number in numbers])


def counted(kills: int) -> Enough:
    return lambda done: done >= kills


def timed(seconds: float) -> Enough:
    """From now on, and one kill in any case."""
    end = time.monotonic() + seconds
    return lambda done: done > 0 and time.monotonic() >= end


def survive(job: MakeJob, checkpoint: Path, output: Callable[[], int], enough: Enough, chance: random.Random) -> int:
    """Run the job to its end, killing it on the way; how often it was. `output` counts what it has written."""
    done = 0
    while not enough(done):
        with job() as running:
            begun, written = last_batch(checkpoint / "offsets"), output()
            if chance.random() < 0.5:
                # The next micro-batch has begun; how far it is by the time of the kill is left to chance.
                running.wait_until(lambda begun=begun: last_batch(checkpoint / "offsets") > begun or _ended(running))  # type: ignore[misc]
                with suppress(subprocess.TimeoutExpired):
                    running.process.wait(chance.uniform(0.0, 1.0))
            else:
                # Its first rows have come out, and it is not done.
                running.wait_until(lambda written=written: output() > written or _ended(running))  # type: ignore[misc]
            if _ended(running):
                break
            if chance.random() < 0.5:
                done += kill_worker(running, chance)
                committed = batches_done(checkpoint)
                # Spark starts another worker, or the job ends: then it is started again like one that was killed.
                running.wait_until(
                    lambda committed=committed: batches_done(checkpoint) > committed or _ended(running)  # type: ignore[misc]
                )
            if not _ended(running):
                done += 1
            running.kill9()
            print(f"chaos: kill {done}, {batches_done(checkpoint)} micro-batches done", file=sys.stderr)
    with job() as running:
        running.finish()
    return done


def in_topic(endpoint: str, topic: str) -> int:
    with OffsetReader(endpoint) as reader:
        return sum(reader.offsets(reader.queues(topic), "latest"))


def _ended(job: SparkJob) -> bool:
    return job.process.poll() is not None


def kill_worker(job: SparkJob, chance: random.Random) -> int:
    """Kill a Python worker under the job's Java; how many were there to kill, one or none."""
    with suppress(psutil.NoSuchProcess):
        workers = [
            process
            for process in psutil.Process(job.process.pid).children(recursive=True)
            if "pyspark.daemon" in " ".join(process.cmdline()) and not process.children()
        ]
        if workers:
            chance.choice(workers).kill()
            return 1
    return 0


def account(endpoint: str, table: "pa.Table", kills: int, messages: int) -> Account:
    written = Counter(number_of(body) for body in table.column("body").to_pylist())
    ids: Counter[str] = Counter()
    bodies = set()
    with OffsetReader(endpoint) as reader:
        for queue in reader.queues("copy"):
            for part in reader.read(queue, 0, reader.offset(queue, "latest")):
                for message in part.messages:
                    ids[message.system_properties.message_id] += 1
                    bodies.add((message.system_properties.message_id, message.body))
    return Account(
        kills=kills,
        sent=messages,
        missing=len(set(range(messages)) - written.keys()),
        twice_in_lake=sum(count - 1 for count in written.values()),
        twice_in_topic=sum(count - 1 for count in ids.values()),
        ids_in_topic=len(ids),
        bodies_in_topic=len(bodies),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    limit = parser.add_mutually_exclusive_group()
    limit.add_argument("--kills", type=int, default=20)
    limit.add_argument("--minutes", type=float, help="kill for so long, however often that is")
    parser.add_argument("--messages", type=int, help="20000, or 4000 with --minutes")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--format", choices=FORMATS, default="parquet", help="of the lake")
    arguments = parser.parse_args()
    print(f"chaos: seed {arguments.seed}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        how = {"seed": arguments.seed, "table_format": arguments.format}
        if arguments.minutes is None:
            kills = arguments.kills
            found = run(Path(folder), kills=kills, messages=arguments.messages or 20_000, **how)
        else:
            kills = 2
            found = run(Path(folder), minutes=arguments.minutes, messages=arguments.messages or 4_000, **how)
    print(found)
    sys.exit(0 if found.exactly_once and found.kills >= kills else 1)


if __name__ == "__main__":
    main()
