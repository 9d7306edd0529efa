"""Searches by key: a few at once, a few more wait, the others are refused; one that nobody wants any more ends."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable

import pytest

from ternmq_broker.inspecting.key_searches import KeySearches
from ternmq_broker.store.log.record import Record
from ternmq_common.errors import MessagingError
from ternmq_common.event_loop.eager import start_eagerly
from ternmq_protos.v2 import definition_pb2

BUSY = definition_pb2.TOO_MANY_REQUESTS


class HeldStore:
    """A store whose searches go on, pausing, until `release`."""

    def __init__(self) -> None:
        self.began: asyncio.Queue[str] = asyncio.Queue()
        self.ended: asyncio.Queue[str] = asyncio.Queue()
        self.release = threading.Event()
        self._loop = asyncio.get_running_loop()

    def find_by_key(self, topic: str, key: str, limit: int, pause: Callable[[], None]) -> list[Record]:
        del topic, limit
        self._loop.call_soon_threadsafe(self.began.put_nowait, key)
        try:
            while not self.release.wait(0.001):
                pause()
        finally:
            self._loop.call_soon_threadsafe(self.ended.put_nowait, key)
        return []


@pytest.fixture
async def store() -> AsyncIterator[HeldStore]:
    held = HeldStore()
    yield held
    held.release.set()


def searches(store: HeldStore, *, waiting_max: int = 2, wait_s: float = 60.0) -> KeySearches:
    return KeySearches(store, at_once=1, waiting_max=waiting_max, wait_s=wait_s)  # type: ignore[arg-type]


async def test_beyond_the_places_and_those_that_wait_a_search_is_refused(store: HeldStore) -> None:
    limited = searches(store)
    running = [asyncio.create_task(limited.find_messages("t", f"k{number}", 1)) for number in range(3)]
    assert await store.began.get() == "k0"
    with pytest.raises(MessagingError, match="2 searches by key wait already") as refused:
        await limited.find_messages("t", "k3", 1)
    assert refused.value.code == BUSY
    assert store.began.empty()
    store.release.set()
    assert await asyncio.gather(*running) == [[], [], []]
    assert await limited.find_messages("t", "k4", 1) == []


async def test_who_waits_for_a_place_waits_a_while_only(store: HeldStore) -> None:
    limited = searches(store, wait_s=0.01)
    running = asyncio.create_task(limited.find_messages("t", "k0", 1))
    await store.began.get()
    with pytest.raises(MessagingError, match=r"no search by key ended for 0\.01 s") as refused:
        await limited.find_messages("t", "k1", 1)
    assert refused.value.code == BUSY
    store.release.set()
    await running


async def test_a_search_that_nobody_wants_any_more_ends_and_leaves_its_place(store: HeldStore) -> None:
    limited = searches(store)
    unwanted = asyncio.create_task(limited.find_messages("t", "k0", 1))
    await store.began.get()
    unwanted.cancel()
    assert await store.ended.get() == "k0"
    following = asyncio.create_task(limited.find_messages("t", "k1", 1))
    assert await store.began.get() == "k1"
    store.release.set()
    assert await following == []


async def test_a_call_that_has_no_task_yet_may_search_and_wait(store: HeldStore) -> None:
    limited = searches(store)
    found: list[list[Record]] = []

    async def search(key: str) -> None:
        found.append(await limited.find_messages("t", key, 1))

    tasks = [start_eagerly(search(key), name="search") for key in ("k0", "k1")]
    assert await store.began.get() == "k0"
    store.release.set()
    await asyncio.gather(*(task for task in tasks if task is not None))
    assert found == [[], []]
