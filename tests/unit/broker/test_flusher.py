"""Group commit: one sync for all who wait, and no acknowledgement that the disk did not keep."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial

import pytest

from ternmq_broker.sending.flusher import LogFlusher
from ternmq_broker.store.message_store import MessageStore
from ternmq_common.errors import MessagingError
from ternmq_common.server_settings import FlushMode
from ternmq_common.shard.model import NewMessage
from tests.support.memory_disk import MemoryFolders

pytestmark = pytest.mark.plain


class SlowStore(MessageStore):
    """A store whose syncs wait until they are let go, and may fail."""

    def __init__(self) -> None:
        super().__init__(MemoryFolders(), segment_bytes=1 << 20)
        self.go_on = threading.Event()
        self.syncs = 0
        self.error: OSError | None = None
        self.was_synced = threading.Event()
        self._sync_segments = self.log.sync_segments
        self.log.sync_segments = self._sync_slowly  # type: ignore[method-assign]

    def _sync_slowly(self) -> int:
        self.go_on.wait(timeout=30)
        self.syncs += 1
        if self.error is not None:
            raise self.error
        synced = self._sync_segments()
        self.was_synced.set()
        return synced

    def add(self) -> int:
        return self.writer.append_batch("t", 0, [NewMessage(0, b"", b"body", ())], 1).log_end


async def all_began() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def nothing() -> None: ...


async def test_one_sync_covers_everyone_who_came_while_the_last_one_ran() -> None:
    store = SlowStore()
    flusher = LogFlusher(store, FlushMode.SYNC)
    flusher.start()
    first = asyncio.create_task(flusher.wait_until_acknowledged(store.add(), nothing))
    await all_began()
    others = [asyncio.create_task(flusher.wait_until_acknowledged(store.add(), nothing)) for _ in range(50)]
    await all_began()
    assert not first.done()
    assert flusher.readable_end == 0
    store.go_on.set()
    await asyncio.gather(first, *others)
    assert store.syncs <= 2
    assert flusher.readable_end == store.log.log_end
    await flusher.stop()


async def test_what_is_to_follow_happens_even_when_the_sender_left() -> None:
    store = SlowStore()
    flusher = LogFlusher(store, FlushMode.SYNC)
    flusher.start()
    followed = asyncio.Event()
    sender = asyncio.create_task(flusher.wait_until_acknowledged(store.add(), followed.set))
    await all_began()
    sender.cancel()
    store.go_on.set()
    await followed.wait()
    await asyncio.gather(sender, return_exceptions=True)
    await flusher.stop()


async def test_after_a_failed_sync_nothing_is_acknowledged() -> None:
    store = SlowStore()
    flusher = LogFlusher(store, FlushMode.SYNC)
    flusher.start()
    store.error = OSError(5, "Input/output error")
    store.go_on.set()
    waiting = [flusher.wait_until_acknowledged(store.add(), nothing) for _ in range(3)]
    for outcome in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(outcome, MessagingError)
    assert flusher.failure is not None
    with pytest.raises(MessagingError, match="durable"):
        await flusher.wait_until_acknowledged(store.log.log_end, nothing)
    await flusher.stop()


async def test_a_bug_in_what_follows_does_not_hold_up_others() -> None:
    store = SlowStore()
    flusher = LogFlusher(store, FlushMode.SYNC)
    flusher.start()
    bugs: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: bugs.append(context["exception"]))

    def bug() -> None:
        raise ZeroDivisionError

    waiting = [
        asyncio.create_task(flusher.wait_until_acknowledged(store.add(), follow)) for follow in (bug, nothing, nothing)
    ]
    await all_began()
    store.go_on.set()
    await asyncio.gather(*waiting)
    await flusher.stop()
    assert [type(error) for error in bugs] == [ZeroDivisionError]


async def test_in_async_mode_nobody_waits_and_the_sync_follows() -> None:
    store = SlowStore()
    store.go_on.set()
    flusher = LogFlusher(store, FlushMode.ASYNC)
    flusher.start()
    await flusher.wait_until_acknowledged(store.add(), nothing)
    assert flusher.readable_end == store.log.log_end > store.log.synced
    await flusher.stop()
    assert store.log.synced == store.log.log_end


# --- with replicas


def limited(mode: FlushMode) -> tuple[SlowStore, LogFlusher, list[str]]:
    """A flusher that waits for other replicas, who have nothing yet, and what was told."""
    store = SlowStore()
    store.go_on.set()
    flusher = LogFlusher(store, mode)
    assert not flusher.is_limited
    flusher.raise_limit(0)
    flusher.start()
    return store, flusher, []


def tell_of(told: list[str], name: str) -> Callable[[MessagingError | None], None]:
    return lambda error: told.append(name if error is None else f"{name} refused")


@pytest.mark.parametrize("mode", list(FlushMode))
async def test_what_other_replicas_do_not_have_is_neither_acknowledged_nor_readable(mode: FlushMode) -> None:
    store, flusher, told = limited(mode)
    ends = [store.add(), store.add()]
    for number, end in enumerate(ends):
        flusher.when_acknowledged(end, tell_of(told, f"sent {number}"))
        flusher.when_readable(end, partial(told.append, f"read {number}"))
    waiting = asyncio.ensure_future(flusher.wait_until_acknowledged(ends[1], nothing))
    await flusher_synced(flusher, store)
    assert (told, flusher.readable_end) == ([], 0)
    flusher.raise_limit(ends[0])
    assert (told, flusher.readable_end) == (["sent 0", "read 0"], ends[0])
    flusher.raise_limit(ends[1] + 100)
    assert told == ["sent 0", "read 0", "sent 1", "read 1"]
    assert flusher.readable_end == ends[1]
    await waiting
    await flusher.stop()


async def flusher_synced(flusher: LogFlusher, store: SlowStore) -> None:
    done = asyncio.Event()
    flusher.when_acknowledged(store.log.log_end, lambda _error: done.set(), alone=True)
    await done.wait()


async def test_what_waits_for_this_disk_too_is_not_told_before_it() -> None:
    store, flusher, told = limited(FlushMode.SYNC)
    store.go_on.clear()
    flusher.when_acknowledged(store.add(), tell_of(told, "sent"))
    flusher.when_acknowledged(store.log.log_end, tell_of(told, "alone"), alone=True)
    flusher.raise_limit(store.log.log_end)
    assert told == []
    store.go_on.set()
    await flusher_synced(flusher, store)
    assert told == ["sent", "alone"]
    await flusher.stop()


@pytest.mark.parametrize("mode", list(FlushMode))
async def test_a_send_that_waits_for_no_replica_is_answered_and_not_read(mode: FlushMode) -> None:
    store, flusher, told = limited(mode)
    store.add()
    flusher.when_acknowledged(store.log.log_end, tell_of(told, "alone"), alone=True)
    await flusher_synced(flusher, store)
    assert (told, flusher.readable_end) == (["alone"], 0)
    await flusher.stop()


@pytest.mark.parametrize("mode", list(FlushMode))
async def test_durable_means_on_this_disk_and_on_the_replicas(mode: FlushMode) -> None:
    store, flusher, _ = limited(mode)
    waiting = asyncio.ensure_future(flusher.wait_until_durable(store.add()))
    await flusher_synced(flusher, store)
    async with asyncio.timeout(20):
        await asyncio.to_thread(store.was_synced.wait)
    await all_began()
    assert not waiting.done()
    flusher.raise_limit(store.log.log_end)
    await waiting
    await flusher.stop()


@pytest.mark.parametrize("mode", list(FlushMode))
async def test_who_waits_for_replicas_when_the_broker_stops_is_refused(mode: FlushMode) -> None:
    store, flusher, told = limited(mode)
    flusher.when_acknowledged(store.add(), tell_of(told, "sent"))
    await flusher.stop()
    assert told == ["sent refused"]
    assert store.log.synced == store.log.log_end


async def test_a_failed_sync_refuses_who_waits_for_anything() -> None:
    store, flusher, told = limited(FlushMode.SYNC)
    store.error = OSError(5, "Input/output error")
    flusher.when_acknowledged(store.add(), tell_of(told, "sent"))
    flusher.when_acknowledged(store.log.log_end, tell_of(told, "alone"), alone=True)
    with pytest.raises(MessagingError, match="durable"):
        await flusher.wait_until_durable(store.log.log_end)
    assert told == ["sent refused", "alone refused"]
    await flusher.stop()
