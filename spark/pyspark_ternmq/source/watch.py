"""The view that a stream's driver has of its topics: it keeps a connection, and requests them at each trigger."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from pyspark_ternmq.source.offsets.places import Identities, Offsets, QueuesByTopic, offsets_at
from pyspark_ternmq.source.options import SourceOptions
from pyspark_ternmq.source.planning import check_filter
from pyspark_ternmq.source.reading import opened
from pyspark_ternmq.source.topics import queues_of
from ternmq import ClientError, ConnectionFailed, NotFound
from ternmq.pull.offset_reader import OffsetReader

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SeenTopics:
    """The topics at one moment: their identities, the queues in their routes, and the ends of these."""

    identities: Identities = field(default_factory=dict)
    queues: QueuesByTopic = field(default_factory=dict)
    ends: Offsets = field(default_factory=dict)


class TopicWatch:
    """Reads the topics of a stream. Created where Spark plans, connects at the first call; pickled without
    connection."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._reader: OffsetReader | None = None
        self._is_filter_checked = False

    @property
    def reader(self) -> OffsetReader:
        if self._reader is None:
            self._reader = opened(self._options.reading)
        return self._reader

    def read_topics_now(self, *, strict: bool = False) -> SeenTopics:
        """Read identities, queues and ends; identities first, so that a topic that is recreated meanwhile shows the
        next time. All is read again when a broker can't be reached: a broker that is away leaves the route after some
        seconds.

        A topic that isn't there is a `NotFound` where a loss is an error, else it is left out. `strict`: so is a queue
        that is assigned, which may be away else."""
        reader = self.reader.without_patience()

        def read_topics() -> SeenTopics:
            identities = self._read_identities(reader)
            queues = self._options.subscription.find_queues(reader, identities, strict=strict)
            if not self._is_filter_checked:
                check_filter(self._options.reading, reader, queues)
                self._is_filter_checked = True
            return SeenTopics(identities, queues, offsets_at(reader, queues, "latest"))

        try:
            return self.reader.patiently(read_topics)
        except NotFound:
            if self._options.reading.fail_on_data_loss:
                raise
            # Deleted between two of the questions: the first one of a second time leaves it out.
            return self.reader.patiently(read_topics)

    def find_identities(self) -> Identities:
        return self._read_identities(self.reader)

    def _read_identities(self, reader: OffsetReader) -> Identities:
        subscription = self._options.subscription
        if self._options.reading.fail_on_data_loss:
            return subscription.find_identities(reader)
        return subscription.existing_identities(reader)

    def purged_below(self, topics: Iterable[str]) -> dict[str, dict[str, int]]:
        """Below which offset the last purge emptied each queue of these topics, 0 where none did; without the queues of
        which the server tells nothing."""
        reader = self.reader.without_patience()
        found: dict[str, dict[str, int]] = {}
        for topic in topics:
            try:
                found[topic] = {
                    f"{broker}/{queue_id}": below for (broker, queue_id), below in reader.purged_below(topic).items()
                }
            except ClientError as error:
                _log.info("whether topic %s was purged is not known: %s", topic, error)
        return found

    def find_begins(self, queues: QueuesByTopic, wanted: Offsets) -> Offsets:
        """Return the first offsets of the queues in `wanted`."""
        named = {topic: {name: queues[topic][name] for name in of_topic} for topic, of_topic in wanted.items()}
        return offsets_at(self.reader, named, "earliest")

    def queues_with(self, wanted: Offsets) -> QueuesByTopic:
        """The queues of these topics, with those of the offsets among them: a broker that was started with this query
        may not be there yet."""
        reader = self.reader.without_patience()

        def read_queues() -> QueuesByTopic:
            queues = queues_of(reader, wanted)
            if away := find_missing(wanted, queues):
                raise ConnectionFailed(
                    self._options.reading.connection.endpoint, f"not in the route: {', '.join(away)}"
                )
            return queues

        return self.reader.patiently(read_queues)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()


def find_missing(offsets: Offsets, queues: QueuesByTopic) -> list[str]:
    """The queues that have offsets and are not there."""
    return [
        f"topic {topic}, queue {name}"
        for topic, of_topic in offsets.items()
        for name in of_topic
        if name not in queues.get(topic, {})
    ]
