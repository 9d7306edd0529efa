"""What runs again: the same rows come under the same ids, after a restart from the checkpoint and of the broker."""

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from ternmq import parse_message_id
from ternmq.admin import topics as topic_calls
from ternmq.testing import Stack
from ternmq_command.calls.admin import AdminClient
from tests.spark.sink_support import numbered, save, stored, stored_count
from tests.support import stack as processes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark]
NewTopic = Callable[..., str]


def test_the_same_seed_gives_the_same_ids(spark: "SparkSession", stack: Stack, new_topic: NewTopic) -> None:
    first, second, other = new_topic(), new_topic(), new_topic()
    for topic, options in ((first, {"idSeed": "job 1"}), (second, {"idSeed": "job 1"}), (other, {})):
        save(numbered(spark, 50), stack.endpoint, topic=topic, **options)
    ids = [{view.body: view.message_id for view in stored(stack.endpoint, topic)} for topic in (first, second, other)]
    assert ids[0] == ids[1]
    assert not set(ids[0].values()) & set(ids[2].values())


class FileStream:
    """A stream of text files with a checkpoint of its own."""

    def __init__(self, spark: "SparkSession", folder: Path) -> None:
        self.spark, self.checkpoint, self.files = spark, folder / "checkpoint", folder / "files"
        self.files.mkdir()

    def add(self, name: str, lines: list[str]) -> None:
        (self.files / name).write_text("".join(f"{line}\n" for line in lines))

    def rows(self) -> "DataFrame":
        return self.spark.readStream.text(str(self.files)).withColumnRenamed("value", "body")

    def run(self, endpoint: str, **options: str) -> None:
        """Write what is there; a new query on the same checkpoint."""
        writer = self.rows().writeStream.format("ternmq").options(endpoint=endpoint, **options)
        writer = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True)
        query = writer.start()
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def forget_last_commit(self) -> None:
        """As if the driver had been killed before it noted the end of the last batch."""
        commits = self.checkpoint / "commits"
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink()


@pytest.mark.parametrize("options", [{}, {"idSeed": "the stream"}])
def test_a_batch_that_runs_again_after_a_restart_has_the_same_ids(
    spark: "SparkSession", stack: Stack, new_topic: NewTopic, tmp_path: Path, options: dict[str, str]
) -> None:
    topic, stream = new_topic(), FileStream(spark, tmp_path)
    stream.add("one", [f"first {number}" for number in range(30)])
    stream.run(stack.endpoint, topic=topic, **options)
    stream.add("two", [f"second {number}" for number in range(20)])
    stream.run(stack.endpoint, topic=topic, **options)
    stream.forget_last_commit()
    stream.run(stack.endpoint, topic=topic, **options)
    times = Counter((view.message_id, view.body) for view in stored(stack.endpoint, topic))
    assert len(times) == len({message_id for message_id, _ in times}) == 50
    assert {body: count for (_, body), count in times.items()} == {
        **{b"first %d" % number: 1 for number in range(30)},
        **{b"second %d" % number: 2 for number in range(20)},
    }
    assert all(parse_message_id(message_id) is not None for message_id, _ in times)


def test_batches_of_foreach_batch_have_ids_of_their_own(
    spark: "SparkSession", stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, stream = new_topic(), FileStream(spark, tmp_path)

    def write(rows: "DataFrame", _: int) -> None:
        save(rows, stack.endpoint, topic=topic, idSeed="job")

    def run() -> None:
        writer = stream.rows().writeStream.foreachBatch(write).trigger(availableNow=True)
        writer.option("checkpointLocation", str(stream.checkpoint)).start().awaitTermination()

    stream.add("one", ["a"])
    run()
    stream.add("two", ["b"])
    run()
    stream.forget_last_commit()
    run()
    times = Counter((view.message_id, view.body) for view in stored(stack.endpoint, topic))
    assert sorted((body, count) for (_, body), count in times.items()) == [(b"a", 1), (b"b", 2)]
    assert len({message_id for message_id, _ in times}) == 2


def test_a_stream_from_topic_to_topic_that_runs_again_repeats_its_last_batch_with_the_same_ids(
    spark: "SparkSession", stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    origin, copy = new_topic(queues=3), new_topic()
    save(numbered(spark, 30), stack.endpoint, topic=origin)
    source = spark.readStream.format("ternmq").options(
        endpoint=stack.endpoint, startingOffsets="earliest", maxOffsetsPerTrigger="20"
    )
    rows = source.load(origin).select("body")

    def run() -> None:
        writer = rows.writeStream.format("ternmq").options(endpoint=stack.endpoint, topic=copy)
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        query.awaitTermination()

    run()
    (tmp_path / "commits/1").unlink()
    (tmp_path / "commits/.1.crc").unlink()
    run()
    times = Counter((view.message_id, view.body) for view in stored(stack.endpoint, copy))
    assert sorted(int(body) for _, body in times) == list(range(30))
    assert Counter(times.values()) == {1: 20, 2: 10}


def test_a_task_that_is_run_again_sends_the_same_ids(stack: Stack, new_topic: NewTopic, tmp_path: Path) -> None:
    topic, rows = new_topic(queues=2), 1000
    with (tmp_path / "log").open("wb") as log:
        job = [sys.executable, "-m", "tests.spark.jobs.retried_write", stack.endpoint, topic, str(rows)]
        ended = subprocess.run(job, stderr=log, check=False)
    text = (tmp_path / "log").read_text()
    assert ended.returncode == 0, text[-2000:]
    assert text.count("RuntimeError: the first attempt fails") >= 2, "the tasks did not fail"
    times = Counter((view.message_id, view.body) for view in stored(stack.endpoint, topic))
    assert sorted(int(body) for _, body in times) == list(range(rows))
    assert max(times.values()) == 2, "nothing was sent twice"


def test_a_broker_that_is_away_for_too_long_fails_the_write_and_is_named(
    spark: "SparkSession", unused_tcp_port: int
) -> None:
    endpoint = f"127.0.0.1:{unused_tcp_port}"
    # A busy machine may not even be refused within the time of the last attempt.
    reason = "(UNAVAILABLE|no route of orders in time)"
    with pytest.raises(PySparkException, match=rf"(?s){endpoint}.*{reason}.*row 0 of partition \d"):
        save(numbered(spark, 10), endpoint, topic="orders", deliveryTimeoutMs=1000)


def test_a_stream_in_complete_mode_is_refused(
    spark: "SparkSession", stack: Stack, new_topic: NewTopic, tmp_path: Path
) -> None:
    stream = FileStream(spark, tmp_path)
    stream.add("one", ["a"])
    counted = stream.rows().groupBy("body").count().select("body")
    writer = (
        counted.writeStream.format("ternmq").outputMode("complete").options(endpoint=stack.endpoint, topic=new_topic())
    )
    query = writer.option("checkpointLocation", str(stream.checkpoint)).trigger(availableNow=True).start()
    with pytest.raises(PySparkException, match="messages can't be overwritten"):
        query.awaitTermination()


def test_a_broker_that_is_killed_in_the_middle_costs_no_row(spark: "SparkSession", tmp_path: Path) -> None:
    with processes.Stack(tmp_path) as broker, ThreadPoolExecutor() as pool:
        written = threading.Event()

        def kill_in_the_middle() -> int:
            """Kill the broker and start it again; how many rows it had."""
            while not (count := stored_count(broker.grpc, "orders")):
                assert not written.is_set()
            broker.kill9()
            broker.start()
            return count

        with AdminClient(broker.grpc) as admin:
            admin.send_call(topic_calls.create_topic("orders", "normal", 2))
        killing = pool.submit(kill_in_the_middle)
        try:
            save(numbered(spark, 4000), broker.grpc, topic="orders", rowsPerSecond=1000, requestTimeoutMs=5000)
        finally:
            written.set()
        assert 0 < killing.result() < 4000
        views = stored(broker.grpc, "orders")
    assert {view.body for view in views} == {b"%d" % number for number in range(4000)}
    assert len({view.message_id for view in views}) == 4000
