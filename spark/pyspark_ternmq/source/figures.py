"""The figures of a stream in Spark's progress; pure.

PySpark 4.3 gives a source in Python neither `metrics` nor a `description` there. It passes on what `reportLatestOffset`
answers, as `latestOffset`, so the figures stand there, beside the topics, under names that no topic can have.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark_ternmq.source.offsets.loss import LossLedger
    from pyspark_ternmq.source.offsets.places import Offsets
    from pyspark_ternmq.source.options import SourceOptions

METRICS, SOURCE = "@metrics", "@source"


def make_report(options: "SourceOptions", ends: "Offsets", planned: "Offsets", losses: "LossLedger") -> dict[str, Any]:
    """The ends of the queues, with what the source is and its figures. `planned` is where the micro-batch ends."""
    return {
        **ends,
        SOURCE: describe_options(options),
        METRICS: {**_offsets_behind(ends, planned), **_lost_messages(losses)},
    }


def describe_options(options: "SourceOptions") -> str:
    """`topics orders, payments; group reports`."""
    group = "" if options.group is None else f"; group {options.group}"
    return f"{options.subscription}{group}"


def _offsets_behind(ends: "Offsets", planned: "Offsets") -> dict[str, float]:
    """How many offsets of each queue the micro-batch leaves to later ones; the names are those of Kafka's source."""
    left = [
        max(0, end - planned.get(topic, {}).get(queue, 0))
        for topic, of_topic in ends.items()
        for queue, end in of_topic.items()
    ]
    if not left:
        return {}
    return {
        "minOffsetsBehindLatest": min(left),
        "maxOffsetsBehindLatest": max(left),
        "avgOffsetsBehindLatest": round(sum(left) / len(left), 1),
    }


def _lost_messages(losses: "LossLedger") -> dict[str, Any]:
    lost = losses.of_batch
    total = sum(sum(of_topic.values()) for of_topic in lost.values())
    return {"lostMessages": total, **({"lostByQueue": lost} if lost else {})}
