"""Locks of queues: one client at a time has one, for a minute from when it asked last."""

from ternmq_broker.consumption.locks.client_locks import LOCK_MS, ClientLocks
from ternmq_common.shard.model import QueueRef

QUEUES = [QueueRef("orders", "b", number) for number in range(3)]


class Locks:
    def __init__(self, locks_max: int = 100) -> None:
        self.now_ms = 0
        self.locks = ClientLocks(lambda: self.now_ms, locks_max=locks_max)

    def lock(self, client: str, *numbers: int, group: str = "g") -> list[int]:
        return [each.queue_id for each in self.locks.lock_queues(group, client, [QUEUES[n] for n in numbers])]


def test_a_queue_is_one_client_s_until_it_releases_it() -> None:
    of = Locks()
    assert of.lock("one", 0, 1) == [0, 1]
    assert of.lock("two", 0, 2) == [2]
    assert of.lock("two", 0, group="another") == [0]
    of.locks.unlock_queues("g", "two", [QUEUES[0]])  # it has not that one
    assert of.lock("two", 0) == []
    of.locks.unlock_queues("g", "one", [QUEUES[0]])
    assert of.lock("two", 0) == [0]


def test_a_lock_ends_a_minute_after_its_client_asked_last() -> None:
    of = Locks()
    of.lock("one", 0)
    of.now_ms = LOCK_MS - 1
    assert of.lock("two", 0) == []
    assert of.lock("one", 0) == [0]
    of.now_ms = 2 * LOCK_MS - 2
    assert (of.lock("two", 0), of.locks.has_locks("g")) == ([], True)
    of.now_ms += 1
    assert of.locks.has_locks("g") is False
    assert (of.lock("two", 0), of.lock("one", 0)) == ([0], [])


def test_a_deleted_group_has_no_locks() -> None:
    of = Locks()
    of.lock("one", 0)
    of.locks.forget_group("g")
    assert (of.locks.has_locks("g"), of.lock("two", 0)) == (False, [0])


def test_there_are_not_more_locks_than_allowed() -> None:
    of = Locks(locks_max=2)
    assert of.lock("one", 0, 1, 2) == [0, 1]
    of.now_ms = LOCK_MS
    assert of.lock("two", 2) == [2]
