"""`spark.readStream`: Spark keeps the offsets in its checkpoint; this says how far there is something to read.

Added       queues, and topics that fit a pattern, are read from their beginning.
Away        a queue that is not in the route, as while its broker is away, keeps its offset and is read when it is back.
Made anew   a topic that was deleted and made again has another identity than in the checkpoint (`position.py`). With
            `failOnDataLoss` the query ends with an error, without it the new topic is read from its beginning.
Lost        so it is with a queue of the same topic that ends before the offset of the checkpoint: its broker lost
            messages.
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

from pyspark_ternmq.options import WrongOption
from pyspark_ternmq.source.bounds import beyond
from pyspark_ternmq.source.delay import BatchDelay
from pyspark_ternmq.source.group import GroupProgress
from pyspark_ternmq.source.options import stream_options
from pyspark_ternmq.source.places import Offsets
from pyspark_ternmq.source.planning import partitions_of
from pyspark_ternmq.source.position import Kept, Position
from pyspark_ternmq.source.reading import DataLoss, read
from pyspark_ternmq.source.splitting import RangePartition, limited
from pyspark_ternmq.source.watch import Seen, Watch, missing

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

_log = logging.getLogger(__name__)


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The driver's side keeps a connection; what travels to the executors has none."""

    def __init__(self, options: Mapping[str, str], schema: "StructType") -> None:
        self._options = stream_options(options, schema)
        self._watch = Watch(self._options)
        self._seen = Seen()
        self._target: Seen | None = None
        self._initial: Kept | None = None
        self._is_to_note_initial = False
        least, delay_s = self._options.min_offsets_per_trigger, self._options.max_trigger_delay_ms / 1000
        self._group = None if self._options.group is None else GroupProgress(self._options.group)
        self._delay = None if least is None else BatchDelay(least, delay_s)

    # --- on the driver

    def initialOffset(self) -> Kept:  # noqa: N802 - Spark's names, here and below
        """The same at each question: Spark asks when it looks for an end, and again when it plans up to there."""
        if self._initial is None:
            self._initial = self._first_position().kept()
            self._is_to_note_initial = self._options.start.moves
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most, least = self._options.max_offsets_per_trigger, self._options.min_offsets_per_trigger
        if most is not None:
            return ReadMaxRows(most)
        return ReadAllAvailable() if least is None else ReadMinRows(least)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._watch.look()

    def latestOffset(self, start: Kept, limit: ReadLimit) -> Kept:  # noqa: N802
        """How far the next micro-batch reads; `start` if there is nothing new."""
        if self._is_to_note_initial and start == self._initial:
            self._is_to_note_initial = False
            return start
        at = Position.of(start)
        self._seen = self._watch.look() if self._target is None else self._in_target(at, self._target)
        anew = at.made_anew(self._seen.identities)
        for topic in anew:
            self._lose(f"{_anew(topic)} since this query read it", "it is read from its beginning")
        begin = self._begin(at, anew)
        lost = _queues_that_end_before(begin, self._seen.ends)
        for queue in lost:
            self._lose(f"{queue}: its broker lost messages", "it is read from its beginning")
        if self._group is not None:
            self._group.tell(self._watch.reader, self._seen, at, time.monotonic())
        if not anew and not lost and self._waits(begin, limit):
            return start
        ends = limited(begin, self._seen.ends, limit.max_rows) if isinstance(limit, ReadMaxRows) else self._seen.ends
        moved = at.moved(ends, self._seen.identities)
        return start if moved.offsets == at.offsets and not anew else moved.kept()

    def reportLatestOffset(self) -> Offsets | None:  # noqa: N802
        return self._seen.ends or None

    def partitions(self, start: Kept, end: Kept) -> list[InputPartition]:
        at, to = Position.of(start), Position.of(end)
        anew = at.made_anew(to.identities)
        wanted = self._planned_of_now(to, _wanted(at, to, anew, is_first=start == self._initial))
        queues = self._seen.queues
        if missing(wanted, queues):
            # A batch of before a restart, whose brokers may not all be back yet.
            queues = self._watch.queues_with(wanted)
        unread = {
            topic: {
                name: stop for name, stop in of_topic.items() if topic in anew or not _is_ahead(at, topic, name, stop)
            }
            for topic, of_topic in wanted.items()
        }
        begins = self._watch.begins(queues, unread)
        begin = {
            topic: {name: begins.get(topic, {}).get(name, at.offset(topic, name) or 0) for name in of_topic}
            for topic, of_topic in wanted.items()
        }
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

    def _first_position(self) -> Position:
        start = self._options.start
        start.check_passed(datetime.now(UTC))
        self._seen = self._target or self._watch.look()
        start.check_identities(self._seen.identities)
        offsets = start.offsets(self._watch.reader, self._seen.queues, self._seen.ends)
        if problem := next(beyond(start, self._seen.ends), None):
            raise WrongOption(problem)
        return Position({}).moved(offsets, self._seen.identities)

    def _in_target(self, at: Position, target: Seen) -> Seen:
        """What a query that ends with what there was may read: of a topic that was made anew since then nothing."""
        anew = Position({}, target.identities).made_anew(self._watch.identities())
        for topic in anew:
            self._lose(f"{_anew(topic)} while this query ran", "the next query reads it")
        return Seen(
            {topic: identity for topic, identity in target.identities.items() if topic not in anew},
            target.queues,
            {topic: at.offsets.get(topic, {}) if topic in anew else ends for topic, ends in target.ends.items()},
        )

    def _lose(self, what: str, instead: str) -> None:
        """Say what can't be read, as an error or as a line in the log."""
        if self._options.reading.fail_on_data_loss:
            raise DataLoss(
                f"{what}; what this query had not read of it is gone. To read what is there from its beginning set the "
                "option failOnDataLoss to false, or begin with a new checkpoint"
            )
        _log.warning("%s; %s", what, instead)

    def _begin(self, at: Position, anew: list[str]) -> Offsets:
        """Where each queue goes on."""
        unread = {
            topic: {name: end for name, end in of_topic.items() if topic in anew or at.offset(topic, name) is None}
            for topic, of_topic in self._seen.ends.items()
        }
        begins = self._watch.begins(self._seen.queues, unread)
        return {
            topic: {
                # Retention may have gone on since the end was asked for.
                name: min(begins[topic][name], end) if name in unread[topic] else at.offsets[topic][name]
                for name, end in of_topic.items()
            }
            for topic, of_topic in self._seen.ends.items()
        }

    def _waits(self, begin: Offsets, limit: ReadLimit) -> bool:
        """Whether there is too little for a micro-batch. A query that ends with what there is takes what there is."""
        if self._delay is None or self._target is not None or isinstance(limit, ReadAllAvailable):
            return False
        new = sum(end - begin[topic][name] for topic, ends in self._seen.ends.items() for name, end in ends.items())
        return self._delay.holds_back(new, time.monotonic())

    def _planned_of_now(self, to: Position, wanted: Offsets) -> Offsets:
        """What is wanted of topics that are still those of the plan. Spark repeats a micro-batch after a restart, which
        may have been long; else the identities are those that `latestOffset` has just seen."""
        identities = self._seen.identities
        if any(identities.get(topic) != to.identities.get(topic, "") for topic in wanted):
            identities = self._watch.identities()
        gone = [topic for topic in to.made_anew(identities) if topic in wanted]
        for topic in gone:
            what = f"{_anew(topic)} since the micro-batch was planned that is to be repeated"
            self._lose(what, "it has none of its messages")
        return {topic: of_topic for topic, of_topic in wanted.items() if topic not in gone}


class RefusedReader(DataSourceStreamReader):
    """Says at the first question why there is nothing to read: what goes wrong while a reader is made, PySpark 4.3
    hides behind an error of its own."""

    def __init__(self, refusal: WrongOption) -> None:
        self._refusal = refusal

    def initialOffset(self) -> Kept:  # noqa: N802
        raise self._refusal

    def latestOffset(self, start: Kept, limit: ReadLimit) -> Kept:  # noqa: N802
        raise self._refusal

    def partitions(self, start: Kept, end: Kept) -> list[InputPartition]:
        raise self._refusal

    def read(self, partition: InputPartition) -> "Iterator[RecordBatch]":
        raise self._refusal


def _anew(topic: str) -> str:
    return f"topic {topic} was deleted and made again"


def _queues_that_end_before(begin: Offsets, ends: Offsets) -> list[str]:
    return [
        f"topic {topic}, queue {name} ends at offset {end}, and this query has read up to {begin[topic][name]}"
        for topic, of_topic in ends.items()
        for name, end in of_topic.items()
        if end < begin[topic][name]
    ]


def _wanted(at: Position, to: Position, anew: list[str], *, is_first: bool) -> Offsets:
    """Where the queues end that have something to read.

    The start of the first micro-batch is asked for again when it is repeated, and may lie behind its end then.
    """
    wanted: Offsets = {}
    for topic, of_topic in to.offsets.items():
        for name, stop in of_topic.items():
            start = at.offset(topic, name)
            is_empty = stop == 0 if topic in anew or start is None else stop == start or (is_first and stop < start)
            if not is_empty:
                wanted.setdefault(topic, {})[name] = stop
    return wanted


def _is_ahead(at: Position, topic: str, name: str, stop: int) -> bool:
    """Whether the queue is read on from where it was; else from its beginning."""
    start = at.offset(topic, name)
    return start is not None and start <= stop
