"""The plan of a replay: the slices of its rows, and their files or the version of their table.

Kept        in the checkpoint, so that a run that goes on reads the same rows and cuts them alike
Changed     a plan whose files are not what they were is refused, with what to do instead
"""

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

from pyspark_ternmq.pipelines.journal import JournalError, StepJournal
from pyspark_ternmq.pipelines.replaying.replay_source import (
    TIME_US,
    WrongRows,
    all_rows,
    can_be_sent,
    filter_times,
    format_of,
    has_place,
    without_doubles,
)
from pyspark_ternmq.pipelines.replaying.slices import TimeSlice, by_rows, by_time
from pyspark_ternmq.pipelines.snapshots.opening import SourceChanged, SourceSnapshots
from pyspark_ternmq.pipelines.snapshots.snapshot import KeptSnapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from pyspark_ternmq.pipelines.replaying.replay import ReplayOptions
    from pyspark_ternmq.pipelines.snapshots.snapshot import SourceSnapshot

# A plan is kept in memory and in one file.
STEPS_MAX = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(slots=True)
class ReplayPlan:
    """The slices, and the files that their rows are in; kept as JSON."""

    replay_id: str
    file_format: str
    skipped: int
    doubles: int
    all_have_places: bool
    sources: list[KeptSnapshot]
    slices: list[TimeSlice] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {
            "replay_id": self.replay_id,
            "file_format": self.file_format,
            "skipped": self.skipped,
            "doubles": self.doubles,
            "all_have_places": self.all_have_places,
            "sources": [one.as_json() for one in self.sources],
            "slices": [[one.start_us, one.end_us, one.rows] for one in self.slices],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "ReplayPlan":
        sources = [KeptSnapshot.from_json(one) for one in value["sources"]]
        return cls(**{**value, "sources": sources, "slices": [TimeSlice(*one) for one in value["slices"]]})


def read_plan(kept: dict[str, Any], journal: StepJournal) -> ReplayPlan:
    """The plan of a checkpoint. JournalError for one of a release that noted no files."""
    if "sources" not in kept:
        what = f"{journal.name} was begun by a release that did not note the files of a replay"
        raise JournalError(f"{what}; {_describe_remedy(kept, journal)}")
    return ReplayPlan.from_json(kept)


def reopen_snapshots(snapshots: SourceSnapshots, plan: ReplayPlan, journal: StepJournal) -> "list[SourceSnapshot]":
    """The files of a plan. JournalError if they are not what they were."""
    try:
        return snapshots.take_again(plan.sources)
    except SourceChanged as error:
        raise JournalError(
            f"this replay can't go on, for what it was planned from has changed: {error}; "
            f"{_describe_remedy(plan.as_json(), journal)}"
        ) from None


def _describe_remedy(kept: dict[str, Any], journal: StepJournal) -> str:
    """Describe what the user can do about a plan that can't be continued."""
    text = "replay what is there now with a new checkpoint"
    done = journal.done
    if 0 < done < len(kept["slices"]):
        start = _EPOCH + kept["slices"][done][0] * _MICROSECOND
        text += f", and since {start.isoformat().replace('+00:00', 'Z')} if what was sent is not to be sent again"
    return text


def make_plan(spark: "SparkSession", options: "ReplayOptions", snapshots: "Sequence[SourceSnapshot]") -> ReplayPlan:
    """Count the rows that can be sent, and cut them into slices."""
    file_format = options.file_format or format_of(options.paths)
    everything = filter_times(
        all_rows(spark, snapshots, file_format, options.order), to_micros(options.since), to_micros(options.until)
    )
    sendable = f.coalesce(can_be_sent(), f.lit(False))
    without_place = sendable & ~has_place()
    found = everything.agg(f.count_if(~sendable), f.count_if(sendable), f.count_if(without_place)).first()
    assert found is not None, "sums have one row"
    skipped, wanted, unplaced = found
    rows = everything.where(can_be_sent())
    bounds = without_doubles(rows).agg(f.min(TIME_US), f.max(TIME_US), f.count(f.lit(1))).first()
    assert bounds is not None, "sums have one row"
    first_us, last_us, count = bounds
    plan = ReplayPlan(
        replay_id=str(uuid.uuid4()),
        file_format=file_format,
        skipped=skipped,
        doubles=wanted - count,
        all_have_places=unplaced == 0,
        sources=[one.to_kept() for one in snapshots],
    )
    if count:
        plan.slices = _cut_slices(rows, TimeSlice(first_us, last_us + 1, count), options)
    return plan


def _cut_slices(rows: "DataFrame", whole: TimeSlice, options: "ReplayOptions") -> list[TimeSlice]:
    def count_rows(start_us: int, end_us: int, width_us: int) -> list[tuple[int, int]]:
        # Of integers: a floating point number can't tell microseconds of centuries apart.
        bucket = f.expr(f"({TIME_US} - {start_us}) DIV {width_us}")
        # Doubles have one time. They are looked for among rows of the span alone.
        found = (
            without_doubles(rows.where(f.col(TIME_US).between(start_us, end_us - 1))).groupBy(bucket).count().collect()
        )
        return [(row[0], row[1]) for row in found]

    if options.speed is None:
        return by_rows(whole, options.step_rows, count_rows)
    width_us = max(1, round(options.tick / _MICROSECOND * options.speed))
    steps = (whole.end_us - whole.start_us) // width_us + 1
    if steps > STEPS_MAX:
        raise WrongRows(
            f"{steps:,} ticks of {options.tick} are more than {STEPS_MAX:,}: replay a part with since and until, or "
            "choose a longer tick"
        )
    return by_time(whole, width_us, count_rows)


def sendable_rows(
    spark: "SparkSession", options: "ReplayOptions", file_format: str, snapshots: "Sequence[SourceSnapshot]"
) -> "DataFrame":
    return all_rows(spark, snapshots, file_format, options.order).where(can_be_sent())


def to_micros(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // _MICROSECOND
