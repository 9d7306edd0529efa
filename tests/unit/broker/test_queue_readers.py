"""Readers of queues: the member that pulled last, for a while."""

from ternmq_broker.delivery.offset_resets import READER_S
from ternmq_broker.delivery.queue_readers import QueueReaders
from ternmq_common.shard.model import QueueReader

SILENT_MS = int(READER_S * 1000) + 1


class Readers:
    def __init__(self, queues_max: int = 100) -> None:
        self.now_ms = 1_000_000
        self.readers = QueueReaders(lambda: self.now_ms, queues_max=queues_max)

    def pull(self, client: str, queue_id: int = 0, *, group: str = "g", topic: str = "t") -> None:
        self.readers.note_pull(group, client, topic, queue_id)

    def reader(self, queue_id: int = 0, *, group: str = "g", topic: str = "t") -> str | None:
        found = self.readers.find_reader(group, topic, queue_id)
        return None if found is None else found.client_id


def test_the_reader_is_who_pulled_last_and_has_read_since_its_first_pull() -> None:
    of = Readers()
    of.pull("one")
    of.now_ms += 10
    of.pull("one")
    expected = QueueReader(client_id="one", since_ms=1_000_000, pulled_ms=1_000_010)
    assert of.readers.find_reader("g", "t", 0) == expected
    of.now_ms += 10
    of.pull("two")
    assert of.readers.find_reader("g", "t", 0) == QueueReader(client_id="two", since_ms=1_000_020, pulled_ms=1_000_020)
    assert (of.reader(1), of.reader(group="h")) == (None, None)


def test_a_silent_reader_is_none_and_a_member_that_left_is_none() -> None:
    of = Readers()
    of.pull("one")
    of.pull("two", 1)
    of.readers.release_member("g", "one")
    assert (of.reader(), of.reader(1), of.readers.list_queues("g")) == (None, "two", [("t", 1)])
    of.now_ms += SILENT_MS
    assert (of.reader(1), of.readers.list_queues("g")) == (None, [])


def test_deleted_groups_and_topics_are_forgotten() -> None:
    of = Readers(queues_max=2)
    of.pull("one")
    of.pull("one", topic="u")
    of.readers.forget_topic("t")
    assert (of.reader(), of.reader(topic="u")) == (None, "one")
    of.readers.forget_group("g")
    assert of.reader(topic="u") is None
    of.pull("one", 1)
    of.pull("one", 2)
    assert (of.reader(1), of.reader(2)) == ("one", "one")  # all room is there again


def test_readers_have_a_limit_and_silent_ones_make_room() -> None:
    of = Readers(queues_max=1)
    of.pull("one")
    of.pull("one", 1)
    assert (of.reader(), of.reader(1)) == ("one", None)
    of.now_ms += SILENT_MS
    of.pull("one", 1)
    assert (of.reader(), of.reader(1)) == (None, "one")
