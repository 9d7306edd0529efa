"""What the tests of streams share: a stream of a topic into files, and what came of it."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ternmq.admin import topics as topic_calls
from ternmq.testing import Stack
from ternmq_command.calls.admin import AdminClient
from tests.support.spark import bodies_of, send_bodies

NewTopic = Callable[..., str]


def stream(spark: SparkSession, endpoint: str, topic: str, **options: str | int) -> DataFrame:
    given: dict[str, str | int] = {"endpoint": endpoint, "startingOffsets": "earliest", **options}
    return spark.readStream.format("ternmq").options(**given).load(topic)


def to_files(frame: DataFrame, folder: Path, *, available_now: bool = True) -> StreamingQuery:
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    return (writer.trigger(availableNow=True) if available_now else writer).start(str(folder / "rows"))


@contextmanager
def running(query: StreamingQuery) -> Iterator[StreamingQuery]:
    try:
        yield query
    finally:
        query.stop()


def finished(query: StreamingQuery) -> list[int]:
    """Wait for the end; how many rows each micro-batch had."""
    assert query.awaitTermination(100)
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def written(spark: SparkSession, folder: Path) -> list[str]:
    return bodies_of(spark.read.parquet(str(folder / "rows")))


def numbers(*bounds: int) -> list[str]:
    return sorted(str(number) for number in range(*bounds))


def made_anew(stack: Stack, topic: str, *bounds: int) -> None:
    """The topic, without what it had, and with messages of these numbers."""
    with AdminClient(stack.endpoint) as admin:
        admin.send_call(topic_calls.delete_topic(topic))
    stack.create_topic(topic, queues=1)
    send_bodies(stack.endpoint, topic, numbers(*bounds))


# --- the checkpoint, as a crash or an older version leaves it


def forget_commit(folder: Path, batch: int = 0) -> None:
    """As if Spark had died between the sink's work and its own note of it."""
    for log in ("checkpoint/commits", "rows/_spark_metadata"):
        (folder / log / str(batch)).unlink()
        (folder / log / f".{batch}.crc").unlink()


def offsets_of(folder: Path, batch: int = 0) -> dict[str, Any]:
    """What the checkpoint says of the only source, at the end of a micro-batch."""
    lines = (folder / "checkpoint/offsets" / str(batch)).read_text().splitlines()
    offsets: dict[str, Any] = json.loads(lines[2])
    return offsets


def rewrite_offsets(folder: Path, batch: int, offsets: dict[str, Any]) -> None:
    path = folder / "checkpoint/offsets" / str(batch)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], json.dumps(offsets), *lines[3:]]))
    (path.parent / f".{batch}.crc").unlink()
