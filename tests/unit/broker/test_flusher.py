"""Group commit: one sync for all who wait, and no acknowledgement that the disk did not keep."""

import asyncio
import threading

import pytest

from ternmq_broker.sending.flusher import Flusher
from ternmq_broker.store.message_store import MessageStore
from ternmq_common.errors import MessagingError
from ternmq_common.model import NewMessage
from ternmq_common.server_settings import FlushMode
from tests.support.memory_disk import MemoryFolders

pytestmark = pytest.mark.plain


class SlowStore(MessageStore):
    """A store whose syncs wait until they are let go, and may fail."""

    def __init__(self) -> None:
        super().__init__(MemoryFolders(), segment_bytes=1 << 20)
        self.go_on = threading.Event()
        self.syncs = 0
        self.error: OSError | None = None

    def sync(self) -> int:
        self.go_on.wait(timeout=30)
        self.syncs += 1
        if self.error is not None:
            raise self.error
        return super().sync()

    def add(self) -> int:
        return self.append("t", 0, [NewMessage(0, b"", b"body", ())], 1).log_end


async def all_began() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def nothing() -> None: ...


async def test_one_sync_covers_everyone_who_came_while_the_last_one_ran() -> None:
    store = SlowStore()
    flusher = Flusher(store, FlushMode.SYNC)
    flusher.start()
    first = asyncio.create_task(flusher.acknowledged(store.add(), nothing))
    await all_began()
    others = [asyncio.create_task(flusher.acknowledged(store.add(), nothing)) for _ in range(50)]
    await all_began()
    assert not first.done()
    assert flusher.readable_end == 0
    store.go_on.set()
    await asyncio.gather(first, *others)
    assert store.syncs <= 2
    assert flusher.readable_end == store.end
    await flusher.stop()


async def test_what_is_to_follow_happens_even_when_the_sender_left() -> None:
    store = SlowStore()
    flusher = Flusher(store, FlushMode.SYNC)
    flusher.start()
    followed = asyncio.Event()
    sender = asyncio.create_task(flusher.acknowledged(store.add(), followed.set))
    await all_began()
    sender.cancel()
    store.go_on.set()
    await followed.wait()
    await asyncio.gather(sender, return_exceptions=True)
    await flusher.stop()


async def test_after_a_failed_sync_nothing_is_acknowledged() -> None:
    store = SlowStore()
    flusher = Flusher(store, FlushMode.SYNC)
    flusher.start()
    store.error = OSError(5, "Input/output error")
    store.go_on.set()
    waiting = [flusher.acknowledged(store.add(), nothing) for _ in range(3)]
    for outcome in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(outcome, MessagingError)
    assert flusher.failure is not None
    with pytest.raises(MessagingError, match="durable"):
        await flusher.acknowledged(store.end, nothing)
    await flusher.stop()


async def test_a_bug_in_what_follows_does_not_hold_up_others() -> None:
    store = SlowStore()
    flusher = Flusher(store, FlushMode.SYNC)
    flusher.start()
    bugs: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: bugs.append(context["exception"]))

    def bug() -> None:
        raise ZeroDivisionError

    waiting = [asyncio.create_task(flusher.acknowledged(store.add(), follow)) for follow in (bug, nothing, nothing)]
    await all_began()
    store.go_on.set()
    await asyncio.gather(*waiting)
    await flusher.stop()
    assert [type(error) for error in bugs] == [ZeroDivisionError]


async def test_in_async_mode_nobody_waits_and_the_sync_follows() -> None:
    store = SlowStore()
    store.go_on.set()
    flusher = Flusher(store, FlushMode.ASYNC)
    flusher.start()
    await flusher.acknowledged(store.add(), nothing)
    assert flusher.readable_end == store.end > store.synced
    await flusher.stop()
    assert store.synced == store.end
