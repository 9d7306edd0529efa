"""Exactly once, whatever dies: `python -m tests.spark.chaos [--kills 20] [--messages 20000] [--seed N]`.

A job copies a topic to another one through Spark's source and sink, then the lake pipeline writes that one to Parquet.
Both are killed with SIGKILL over and over at random moments: the driver with its Java, or a Python worker under it. At
the end every message has to be in the lake, each once; in the topic between, what was sent twice has one id.
"""

import argparse
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyarrow.dataset

from ternmq import Message
from ternmq.blocking import Producer
from ternmq.command.admin import AdminClient
from ternmq.offset_reader import OffsetReader
from tests.support.spark_jobs import SparkJob, batches_done, last_batch
from tests.support.stack import Stack

QUEUES = 4
MakeJob = Callable[[], SparkJob]


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

    @property
    def exactly_once(self) -> bool:
        return self.missing == self.twice_in_lake == 0 and self.ids_in_topic == self.bodies_in_topic == self.sent


def run(folder: Path, *, kills: int, messages: int, seed: int) -> Account:
    """Half of the kills hit each of the two jobs."""
    chance = random.Random(seed)
    rows = max(10, messages // (2 * kills))
    with Stack(folder / "broker") as stack:
        with AdminClient(stack.grpc) as admin:
            admin.create_topic("origin", "normal", QUEUES)
            admin.create_topic("copy", "normal", QUEUES)
        send(stack.grpc, messages)
        checkpoint = folder / "copy-checkpoint"
        copy = ("-m", "tests.spark.jobs.copy", stack.grpc, "origin", "copy", str(checkpoint), str(rows))
        done = survive(
            lambda: SparkJob(folder / "copy", command=copy),
            checkpoint,
            lambda: in_topic(stack.grpc, "copy"),
            kills // 2,
            chance,
        )
        lake, checkpoint = folder / "lake", folder / "lake-checkpoint"
        arguments = ("--endpoint", stack.grpc, "--topics", "copy", "--out", str(lake), "--checkpoint", str(checkpoint))
        limit = ("--max-offsets-per-trigger", str(rows))
        done += survive(
            lambda: SparkJob(folder / "job", "lake", *arguments, *limit),
            checkpoint,
            lambda: sum(1 for _ in lake.glob("*/**/*.parquet")),
            kills - kills // 2,
            chance,
        )
        return account(stack.grpc, lake, done, messages)


def send(endpoint: str, messages: int) -> None:
    with Producer(endpoint, ["origin"]) as producer:
        for start in range(0, messages, 20):  # the messages of one request go to one queue
            numbers = range(start, min(start + 20, messages))
            producer.send_many([Message("origin", str(number).encode(), tag="t") for number in numbers])


def survive(job: MakeJob, checkpoint: Path, output: Callable[[], int], kills: int, chance: random.Random) -> int:
    """Run the job to its end, killing it on the way; how often it was. `output` counts what it has written."""
    done = 0
    while done < kills:
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


def account(endpoint: str, lake: Path, kills: int, messages: int) -> Account:
    table = pyarrow.dataset.dataset(lake / "data", partitioning="hive").to_table(columns=["body"])
    written = Counter(int(body) for body in table.column("body").to_pylist())
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
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    arguments = parser.parse_args()
    print(f"chaos: seed {arguments.seed}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        found = run(Path(folder), kills=arguments.kills, messages=arguments.messages, seed=arguments.seed)
    print(found)
    sys.exit(0 if found.exactly_once and found.kills >= arguments.kills else 1)


if __name__ == "__main__":
    main()
