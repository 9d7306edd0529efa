"""A topic whose queues move between brokers while Spark reads it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from ternmq.admin import topics
from ternmq.admin import topics as topic_calls
from ternmq.pull.offset_reader import OffsetReader
from ternmq_command.calls.admin import AdminClient
from tests.spark.stream_support import numbers
from tests.support.cluster_processes import ClusterProcesses
from tests.support.spark import bodies_of, send_bodies

# A cluster of processes, which takes a minute to come up and to fail over.
pytestmark = [pytest.mark.cluster, pytest.mark.long]


def wait_for_brokers(endpoint: str, topic: str, brokers: set[str]) -> None:
    """Wait until the route has these brokers, no others."""
    with OffsetReader(endpoint) as reader:
        while {queue.broker for queue in reader.queues(topic)} != brokers:
            pass


def reading(spark: SparkSession, endpoint: str, folder: Path) -> Callable[[], list[str]]:
    """A function that reads on as far as there is something, and gives what was read up to then."""

    def read_on() -> list[str]:
        given = {"endpoint": endpoint, "startingOffsets": "earliest"}
        frame: DataFrame = spark.readStream.format("ternmq").options(**given).load("moving")
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(folder / "rows"))
        assert query.awaitTermination(110)
        return bodies_of(spark.read.parquet(str(folder / "rows")))

    return read_on


def test_queues_that_move_are_read_once(spark: SparkSession, tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path / "cluster") as cluster:
        sending, endpoint = (proxy.grpc for proxy in cluster.proxies)
        read_on = reading(spark, endpoint, tmp_path)
        with AdminClient(sending) as admin:
            admin.send_call(topic_calls.create_topic("moving", "normal", 2, brokers=["broker-0"]))
        wait_for_brokers(endpoint, "moving", {"broker-0"})
        send_bodies(sending, "moving", numbers(50), together=5)
        assert read_on() == numbers(50)

        with AdminClient(sending) as admin:
            admin.send_call(topics.update_topic("moving", add_brokers=["broker-1"]))
        wait_for_brokers(endpoint, "moving", {"broker-0", "broker-1"})
        wait_for_brokers(sending, "moving", {"broker-0", "broker-1"})
        send_bodies(sending, "moving", numbers(50, 100), together=5)
        assert read_on() == numbers(100)

        # The rest of what broker-0 has waits for its return; what broker-1 has does not wait.
        send_bodies(sending, "moving", numbers(100, 150), together=5)
        cluster.brokers[0].kill9()
        found = read_on()
        assert len(found) == len(set(found))
        assert set(numbers(100)) < set(found) < set(numbers(150))
        cluster.brokers[0].start()
        wait_for_brokers(endpoint, "moving", {"broker-0", "broker-1"})
        assert read_on() == numbers(150)
