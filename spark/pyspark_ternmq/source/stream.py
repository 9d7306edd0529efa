"""The streaming source of `spark.readStream`: plans micro-batches; Spark keeps the offsets in its checkpoint.

Added       queues, and topics that fit a pattern, are read from their beginning.
Away        a queue that is not in the route, as while its broker is away, keeps its offset and is read when it is back.
Recreated   a topic that was deleted and created again has another identity than in the checkpoint (`position.py`). With
            `failOnDataLoss` the query ends with an error, without it the new topic is read from its beginning.
Deleted     a topic that is gone ends the query with `failOnDataLoss`, without it the others are read on. Its offsets
            stay in the checkpoint: should it be there again, its identity says whether it is the same.
Lost        what retention or a purge took below a queue's first offset (`loss.py`), and a queue of the same topic that
            ends before the offset of the checkpoint, as its broker lost messages: an error too, or a line in the log.
Latest      a query that begins with what comes next has a first micro-batch without rows. Spark notes only the ends of
            micro-batches: if the first one had rows and were repeated after a crash, its start would be a later one.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from pyspark_ternmq.logs import log_as_spark
from pyspark_ternmq.options import WrongOption
from pyspark_ternmq.refusals import in_one_line
from pyspark_ternmq.source.delay import BatchDelay
from pyspark_ternmq.source.figures import make_report
from pyspark_ternmq.source.group import GroupProgress
from pyspark_ternmq.source.offsets.bounds import find_beyond
from pyspark_ternmq.source.offsets.loss import DataLoss, LossLedger, describe_lost, explain_ranges
from pyspark_ternmq.source.offsets.places import Offsets, QueuesByTopic
from pyspark_ternmq.source.offsets.position import Kept, StreamPosition
from pyspark_ternmq.source.offsets.splitting import RangePartition, limit_end
from pyspark_ternmq.source.options import stream_options
from pyspark_ternmq.source.planning import partitions_of
from pyspark_ternmq.source.reading import read
from pyspark_ternmq.source.watch import SeenTopics, TopicWatch, find_missing

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

_log = logging.getLogger(__name__)
_OTHERS = "the other topics are read on"


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The driver's side keeps a connection; what travels to the executors has none."""

    def __init__(self, options: Mapping[str, str], schema: "StructType") -> None:
        self._options = stream_options(options, schema)
        self._watch = TopicWatch(self._options)
        self._seen = SeenTopics()
        self._target: SeenTopics | None = None
        self._initial: Kept | None = None
        self._is_to_note_initial = False
        self._losses = LossLedger()
        self._deleted: frozenset[str] = frozenset()
        self._begun: tuple[Kept, Offsets] | None = None  # where the queues go on, as it was planned from a start
        self._start: Kept = {}  # from which the last trigger planned
        self._planned: Offsets = {}  # where the micro-batch of this trigger ends
        log_as_spark()
        least, delay_s = self._options.min_offsets_per_trigger, self._options.max_trigger_delay_ms / 1000
        self._group = None if self._options.group is None else GroupProgress(self._options.group)
        self._delay = None if least is None else BatchDelay(least, delay_s)

    # --- on the driver

    @in_one_line()
    def initialOffset(self) -> Kept:  # noqa: N802 - Spark's names, here and below
        """The same for each call: Spark calls when it looks for an end, and again when it plans up to that end."""
        if self._initial is None:
            self._initial = self._first_position().to_kept()
            self._is_to_note_initial = self._options.start.is_moving
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most, least = self._options.max_offsets_per_trigger, self._options.min_offsets_per_trigger
        if most is not None:
            return ReadMaxRows(most)
        return ReadAllAvailable() if least is None else ReadMinRows(least)

    @in_one_line()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._watch.read_topics_now()

    @in_one_line()
    def latestOffset(self, start: Kept, limit: ReadLimit) -> Kept:  # noqa: N802
        """How far the next micro-batch reads; `start` if there is nothing new."""
        if self._is_to_note_initial and start == self._initial:
            self._is_to_note_initial = False
            return start
        at = StreamPosition.of(start)
        if start != self._start:  # else what the last trigger found waits for its micro-batch
            self._losses.begin_batch()
        self._start = start
        self._seen = self._watch.read_topics_now() if self._target is None else self._in_target(at, self._target)
        self._options.subscription.check_existing(self._seen.identities, may_be_gone=at.offsets)
        self._report_deleted(at)
        recreated = at.recreated_topics(self._seen.identities)
        for topic in recreated:
            self._report_loss(f"{_recreated_text(topic)} since this query read it", "it is read from its beginning")
        begin = self._begin_offsets(at, recreated, self._seen.queues, self._seen.ends)
        self._begun = start, begin
        lost = _queues_that_end_before(begin, self._seen.ends)
        for queue in lost:
            self._report_loss(f"{queue}: its broker lost messages", "it is read from its beginning")
        if self._group is not None:
            self._group.commit_progress(self._watch.reader, self._seen, at, time.monotonic())
        self._planned = at.offsets
        if not recreated and not lost and self._should_wait(begin, limit):
            return start
        ends = limit_end(begin, self._seen.ends, limit.max_rows) if isinstance(limit, ReadMaxRows) else self._seen.ends
        moved = at.moved_to(ends, self._seen.identities)
        self._planned = moved.offsets
        return start if moved.offsets == at.offsets and not recreated else moved.to_kept()

    def reportLatestOffset(self) -> Kept | None:  # noqa: N802
        if not self._seen.ends:
            return None
        return make_report(self._options, self._seen.ends, self._planned, self._losses)

    @in_one_line()
    def partitions(self, start: Kept, end: Kept) -> list[InputPartition]:
        at, to = StreamPosition.of(start), StreamPosition.of(end)
        recreated = at.recreated_topics(to.identities)
        wanted = self._planned_of_now(to, _wanted_ends(at, to, recreated, is_first=start == self._initial))
        queues = self._seen.queues
        if find_missing(wanted, queues):
            # A batch of before a restart, whose brokers may not all be back yet.
            queues = self._watch.queues_with(wanted)
        begin = self._begun[1] if self._begun is not None and self._begun[0] == start else {}
        if any(name not in begin.get(topic, {}) for topic, of_topic in wanted.items() for name in of_topic):
            begin = self._begin_offsets(at, recreated, queues, wanted)
        again = self._watch.find_begins(queues, _queues_behind(begin, wanted))
        begin = {topic: {**begin[topic], **again[topic]} for topic in wanted}
        return list(partitions_of(self._options, queues, begin, wanted))

    def commit(self, end: Kept) -> None:
        """Nothing: Spark calls this when the next micro-batch begins. `latestOffset` comes before, and also where there
        is no next one."""

    def stop(self) -> None:
        self._watch.close()

    # --- on the executors

    def read(self, partition: InputPartition) -> "Iterator[RecordBatch]":
        assert isinstance(partition, RangePartition)
        return read(self._options.reading, partition)

    # --- inside

    def _first_position(self) -> StreamPosition:
        start = self._options.start
        start.check_passed(datetime.now(UTC))
        self._seen = self._target or self._watch.read_topics_now(strict=True)
        self._options.subscription.check_existing(self._seen.identities)
        start.check_identities(self._seen.identities)
        start = start.name_queues(self._seen.queues)
        offsets = start.find_offsets(self._watch.reader, self._seen.queues, self._seen.ends)
        if problem := next(find_beyond(start, self._seen.ends), None):
            raise WrongOption(problem)
        return StreamPosition({}).moved_to(offsets, self._seen.identities)

    def _in_target(self, at: StreamPosition, target: SeenTopics) -> SeenTopics:
        """Return what a query with a fixed end may read: nothing of topics that were deleted since its start, or
        created again."""
        now = self._watch.find_identities()
        recreated = StreamPosition({}, target.identities).recreated_topics(now)
        for topic in recreated:
            self._report_loss(f"{_recreated_text(topic)} while this query ran", "the next query reads it")
        deleted = [topic for topic in target.identities if topic not in now]
        for topic in deleted:
            if topic not in self._deleted:
                self._report_loss(f"topic {topic} was deleted while this query ran", _OTHERS)
        self._deleted |= frozenset(deleted)
        gone = {*recreated, *deleted}
        return SeenTopics(
            {topic: identity for topic, identity in target.identities.items() if topic not in gone},
            target.queues,
            {topic: at.offsets.get(topic, {}) if topic in gone else ends for topic, ends in target.ends.items()},
        )

    def _report_deleted(self, at: StreamPosition) -> None:
        """Log each deletion once. With failOnDataLoss, a missing topic of `subscribe` was an error before this."""
        of_ours = {topic for topic in at.offsets if self._options.subscription.has_topic(topic)}
        deleted = of_ours - (self._seen if self._target is None else self._target).identities.keys()
        for topic in sorted(deleted - self._deleted):
            _log.warning("topic %s was deleted, with what this query had not read of it; %s", topic, _OTHERS)
        self._deleted = frozenset(deleted) if self._target is None else self._deleted | deleted

    def _report_loss(self, what: str, instead: str) -> None:
        """Say what can't be read, as an error or as a line in the log."""
        if self._options.reading.fail_on_data_loss:
            raise DataLoss(
                f"{what}; what this query had not read of it is gone. To read what is there set the option "
                "failOnDataLoss to false, or begin with a new checkpoint"
            )
        _log.warning("%s; %s", what, instead)

    def _begin_offsets(self, at: StreamPosition, recreated: list[str], queues: QueuesByTopic, ends: Offsets) -> Offsets:
        """The offset from which each of the queues with these ends is read; lost messages are skipped."""
        unread = {
            topic: {
                name: end for name, end in of_topic.items() if topic in recreated or _is_unread(at, topic, name, end)
            }
            for topic, of_topic in ends.items()
        }
        firsts = self._watch.find_begins(queues, unread)
        begin: Offsets = {}
        read_before: Offsets = {}
        for topic, of_topic in ends.items():
            begin[topic] = {}
            for name, end in of_topic.items():
                start = None if topic in recreated else at.find_offset(topic, name)
                # Retention may have removed more since the end was requested.
                first = min(firsts[topic].get(name, 0), end)
                begin[topic][name] = first if start is None else max(start, first)
                if start is not None:
                    read_before.setdefault(topic, {})[name] = start
        self._note_losses(read_before, begin)
        return begin

    def _note_losses(self, at: Offsets, begin: Offsets) -> None:
        """Count and say what lies between, or end the query with it."""
        lost = self._losses.find_lost(at, begin)
        if not lost:
            return
        lost = explain_ranges(lost, self._watch.purged_below(dict.fromkeys(each.topic for each in lost)))
        self._losses.count_lost(lost)
        self._report_loss(describe_lost(lost), "it goes on with the first that are there")

    def _should_wait(self, begin: Offsets, limit: ReadLimit) -> bool:
        """Whether there is too little for a micro-batch. A query that ends with what there is takes what there is."""
        if self._delay is None or self._target is not None or isinstance(limit, ReadAllAvailable):
            return False
        new = sum(end - begin[topic][name] for topic, ends in self._seen.ends.items() for name, end in ends.items())
        return self._delay.holds_back(new, time.monotonic())

    def _planned_of_now(self, to: StreamPosition, wanted: Offsets) -> Offsets:
        """Return the wanted queues of topics that are still those of the plan. Spark repeats a micro-batch after a
        restart, which may have been long; else the identities are those that `latestOffset` has just seen."""
        identities = self._seen.identities
        if any(identities.get(topic) != to.identities.get(topic, "") for topic in wanted):
            identities = self._watch.find_identities()
        recreated = to.recreated_topics(identities)
        has = self._options.subscription.has_topic
        gone = [topic for topic in wanted if topic in recreated or (topic not in identities and has(topic))]
        for topic in gone:
            what = _recreated_text(topic) if topic in recreated else f"topic {topic} was deleted"
            self._report_loss(
                f"{what} since the micro-batch was planned that is to be repeated", "it has none of its messages"
            )
        return {topic: of_topic for topic, of_topic in wanted.items() if topic not in gone}


class RefusedReader(DataSourceStreamReader):
    """Raises the error of its creation at the first call: an error while a reader is created, PySpark 4.3
    hides behind an error of its own."""

    def __init__(self, refusal: WrongOption) -> None:
        self._refusal = refusal

    @in_one_line()
    def initialOffset(self) -> Kept:  # noqa: N802
        raise self._refusal

    @in_one_line()
    def latestOffset(self, start: Kept, limit: ReadLimit) -> Kept:  # noqa: N802
        raise self._refusal

    @in_one_line()
    def partitions(self, start: Kept, end: Kept) -> list[InputPartition]:
        raise self._refusal

    def read(self, partition: InputPartition) -> "Iterator[RecordBatch]":
        raise self._refusal


def _recreated_text(topic: str) -> str:
    return f"topic {topic} was deleted and created again"


def _queues_that_end_before(begin: Offsets, ends: Offsets) -> list[str]:
    return [
        f"topic {topic}, queue {name} ends at offset {end}, and this query has read up to {begin[topic][name]}"
        for topic, of_topic in ends.items()
        for name, end in of_topic.items()
        if end < begin[topic][name]
    ]


def _wanted_ends(at: StreamPosition, to: StreamPosition, recreated: list[str], *, is_first: bool) -> Offsets:
    """Return the ends of queues that have something to read.

    The start of the first micro-batch is requested again when it is repeated, and may then be behind its end.
    """
    wanted: Offsets = {}
    for topic, of_topic in to.offsets.items():
        for name, stop in of_topic.items():
            start = at.find_offset(topic, name)
            is_empty = (
                stop == 0 if topic in recreated or start is None else stop == start or (is_first and stop < start)
            )
            if not is_empty:
                wanted.setdefault(topic, {})[name] = stop
    return wanted


def _is_unread(at: StreamPosition, topic: str, name: str, end: int) -> bool:
    """Whether the queue has something that is to be read, as far as a first offset matters for that."""
    start = at.find_offset(topic, name)
    return start is None or start < end


def _queues_behind(begin: Offsets, wanted: Offsets) -> Offsets:
    """The queues that end before where they would go on: these are read from their beginning."""
    return {
        topic: {name: stop for name, stop in of_topic.items() if stop < begin[topic][name]}
        for topic, of_topic in wanted.items()
    }
