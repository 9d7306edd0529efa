"""What the tests of the sink share: rows to write, and what came of them."""

from itertools import islice
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from ternmq import MessageView
from ternmq.admin import topics as topic_calls
from ternmq.blocking import PullConsumer
from ternmq_command.calls.admin import AdminClient

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def stored_count(endpoint: str, topic: str) -> int:
    with AdminClient(endpoint) as admin:
        return sum(
            queue.max_offset - queue.min_offset for queue in admin.send_call(topic_calls.describe_topic(topic)).queues
        )


def stored(endpoint: str, topic: str) -> list[MessageView]:
    """All messages of a topic; those of a queue in order."""
    with PullConsumer(endpoint, "sink-tests", {topic: "*"}, start_from="earliest", auto_commit=False) as consumer:
        return list(islice(consumer, stored_count(endpoint, topic)))


def save(rows: "DataFrame", endpoint: str, **options: str | int) -> None:
    rows.write.format("ternmq").mode("append").options(endpoint=endpoint, **options).save()


def bodies(views: list[MessageView]) -> list[bytes]:
    return sorted(view.body for view in views)


def numbered(spark: "SparkSession", count: int, *, partitions: int = 2) -> "DataFrame":
    """Rows whose body is their number."""
    return spark.range(0, count, 1, partitions).select(f.col("id").cast("string").cast("binary").alias("body"))
