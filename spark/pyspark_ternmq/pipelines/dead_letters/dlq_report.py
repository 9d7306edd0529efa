"""The report on dead letters: counts by kind, and the outcome of each.

Folder      `letters/run=...` a row for each letter, `analysis/run=...` the counts. A step that is done again replaces
            what it had written; runs have names that no other run has.
"""

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pyspark.sql import functions as f

from pyspark_ternmq.pipelines.dead_letters.dlq_repair import FAILED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class LetterFailure(NamedTuple):
    """A letter that could not be repaired or sent, and why."""

    broker: str
    queue_id: int
    offset: int
    message_id: str | None
    origin_topic: str | None
    why: str | None


class LetterKind(NamedTuple):
    """The kind by which letters are counted; `hour` is that of becoming a dead letter, in UTC."""

    reason: str | None
    origin_topic: str | None
    tag: str | None
    attempts: int | None
    hour: datetime | None


HOUR_S = 3600
Analysis: TypeAlias = Counter[LetterKind]
# Columns of what is sent; the bodies are in the topics.
_NOT_REPORTED = ("new_body", "new_keys", "new_tag", "new_message_group", "new_properties", "new_delivery_timestamp")


def analysis_of(outcomes: "DataFrame") -> tuple[dict[str | None, int], Analysis]:
    """How many letters of each outcome there are, and of each kind."""
    found = _count_outcomes(outcomes, "outcome").collect()
    counts, analysis = Counter[str | None](), Analysis()
    for row in found:
        counts[row["outcome"]] += row["letters"]
        hour = row["hour"] and row["hour"].astimezone(UTC)
        analysis[LetterKind(row["reason"], row["origin_topic"], row["tag"], row["attempts"], hour)] += row["letters"]
    return dict(counts), analysis


def failures_of(outcomes: "DataFrame", limit: int) -> list[LetterFailure]:
    """The first letters that failed, in the order of their places."""
    if limit <= 0:
        return []
    failed = outcomes.where(f.col("outcome") == FAILED).orderBy("broker", "queue_id", "offset")
    return [LetterFailure(*row) for row in failed.select(*LetterFailure._fields).limit(limit).collect()]


def _count_outcomes(outcomes: "DataFrame", *others: str) -> "DataFrame":
    # By seconds since 1970: hours of the session's zone may be shifted by half of one.
    hour = f.timestamp_seconds(f.floor(f.unix_seconds("store_timestamp") / HOUR_S) * HOUR_S).alias("hour")
    by = [hour if name == "hour" else f.col(name) for name in (*others, *LetterKind._fields)]
    return outcomes.groupBy(*by).agg(f.count(f.lit(1)).alias("letters"))


def write_report(outcomes: "DataFrame", folder: str, run: str) -> None:
    """Both parts of one run or step; an `outcome` of null says that there was nothing to decide."""
    root = folder.rstrip("/")
    outcomes.drop(*_NOT_REPORTED).write.mode("overwrite").parquet(f"{root}/letters/run={run}")
    _count_outcomes(outcomes, "outcome").coalesce(1).write.mode("overwrite").parquet(f"{root}/analysis/run={run}")
