"""Whether topics can take the letters that are for them: a sink fails as a whole, and one must not hold up all."""

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from pyspark_ternmq.pipelines.dead_letters.dlq_repair import FAILED, READY
from ternmq import NotFound
from ternmq_common.names import group_of_derived
from ternmq_protos.v2 import definition_pb2 as pb

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pyspark_ternmq.pipelines.administration import PipelineAdministrator


def checked_topics(outcomes: "DataFrame", admin: "PipelineAdministrator") -> "DataFrame":
    """Letters that their topic would refuse are failed, with the reason.

    A letter for a DELAY topic that has no time of delivery gets one that has passed, so it is delivered at once.
    """
    is_ready = f.col("outcome") == READY
    wanted = outcomes.where(is_ready).select("to_topic").distinct().collect()
    types = {row["to_topic"]: _topic_type(admin, row["to_topic"]) for row in wanted}
    timed = [name for name, kind in types.items() if kind == pb.DELAY]
    is_due = is_ready & f.col("to_topic").isin(timed) & f.col("new_message_group").isNull()
    time = f.coalesce("new_delivery_timestamp", f.when(is_due, f.col("store_timestamp")))
    outcomes = outcomes.withColumn("new_delivery_timestamp", time)
    problem = f.when(is_ready, _problem_column(types))
    return outcomes.withColumn("why", f.coalesce("why", problem)).withColumn(
        "outcome", f.when(is_ready & problem.isNotNull(), FAILED).otherwise(f.col("outcome"))
    )


def _topic_type(admin: "PipelineAdministrator", topic: str) -> "pb.MessageType | str":
    """Return the message type of a topic, or the reason why it accepts none."""
    if not topic:
        return "the letter does not say which topic it came from"
    if group_of_derived(topic) is not None:
        return f"topic {topic} is written by the broker alone"
    try:
        return admin.describe_topic(topic).topic.type
    except NotFound as error:
        return error.message


def _problem_column(types: "dict[str, pb.MessageType | str]") -> "Column":
    """Why a letter can't be sent, or null."""
    kind = (
        f.when(f.col("new_message_group").isNotNull(), pb.FIFO)
        .when(f.col("new_delivery_timestamp").isNotNull(), pb.DELAY)
        .otherwise(pb.NORMAL)
    )
    none = f.lit(None).cast("string")

    def of_topic(name: str, takes: "pb.MessageType | str") -> "Column":
        here = f.col("to_topic") == name
        if isinstance(takes, str):
            return f.when(here, takes)
        text = f"topic {name} takes {pb.MessageType.Name(takes).lower()} messages, and this is another kind"
        return f.when(here & (kind != takes), text)

    return reduce(f.coalesce, (of_topic(*one) for one in types.items()), none)
