"""Code that sending pipelines share: the id of a message, and the task that sends it.

Lane        what must keep its order is sent by one task: the messages of a message group. Others are spread.
Id          17 bytes as 34 upper-case hex digits, the form of RocketMQ's, from what the message is a copy of: so a step
            that is done again sends the same ids, and a message never gets two.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pyspark_ternmq.pipelines.connection import PipelineConnection

# The version of the form, in its first byte.
ID_VERSION = "01"
_LANE = "_lane"


def derived_id(kind: str, *parts: "Column") -> "Column":
    """The message id that a pipeline of this kind derives from `parts`."""
    # As JSON, so that no two lists of parts look alike.
    text = f.to_json(f.array(f.lit(kind), *(f.coalesce(part.cast("string"), f.lit("\x00")) for part in parts)))
    return f.concat(f.lit(ID_VERSION), f.upper(f.substring(f.sha2(text, 256), 1, 32)))


def in_lanes(rows: "DataFrame", *, order: "Sequence[str | Column]", tasks: int) -> "DataFrame":
    """The rows in `tasks` partitions, each sorted; a message group is in one of them."""
    alone = f.col("message_id")
    lane = f.coalesce(f.concat(f.lit("group "), f.col("message_group")), alone)
    return rows.withColumn(_LANE, lane).repartition(tasks, _LANE).sortWithinPartitions(*order).drop(_LANE)


def tasks_of(rows: "DataFrame") -> int:
    """Return how many tasks run at once."""
    return max(1, rows.sparkSession.sparkContext.defaultParallelism)


def send(
    rows: "DataFrame",
    connection: "PipelineConnection",
    *,
    topic: str | None = None,
    options: Mapping[str, str] | None = None,
) -> int:
    """Send all rows through the sink, and return when all are stored; how many there were. None: a column has it."""
    counted = Observation()
    writer = rows.observe(counted, f.count(f.lit(1)).alias("rows")).write.format("ternmq").mode("append")
    # Rows say where they were, which is not where they go.
    writer = writer.options(**connection.options(), ignoreSourceColumns="true", **(options or {}))
    if topic is not None:
        writer = writer.option("topic", topic)
    writer.save()
    return int(counted.get["rows"])
