"""Queue locks of groups that pull: which member may read a queue now, and when the next one may.

`delivery.queue_lock` has the rules; this module connects them with waiting calls. A reader whose call waits at the
end of its queue counts as active.
"""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ternmq_broker.consumption.locks.client_locks import HeldLock
from ternmq_broker.delivery.queue_lock import QueueLock, ReadGrant
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.event_loop.eager import ensure_task
from ternmq_common.shard.model import PulledMessages

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ternmq_common.shard.model import QueueReaderId, QueueRef

# A reader that waits in a call is noted as active so many times within the time after which it would lose its lock.
_SEEN_PER_HOLD: Final = 3


@dataclass(slots=True, eq=False)
class _PullCall:
    """A pull under way; `is_left` when its client has left meanwhile: it must not lock the queue again."""

    is_left: bool = False


@dataclass(slots=True)
class _LockedQueue:
    access: QueueLock
    changed: asyncio.Event


class QueueLocks:
    """The readers of all locked queues of a broker. A restart forgets them: then the first to ask becomes the
    reader."""

    def __init__(self, now_ms: "Callable[[], int]") -> None:
        self._now_ms = now_ms
        self._locked: dict[tuple[str, QueueRef], _LockedQueue] = {}
        self._calls: dict[tuple[str, str], set[_PullCall]] = {}

    async def pull_locked(
        self,
        reader: "QueueReaderId",
        queue: "QueueRef",
        offset: int,
        *,
        committed: int | None,
        poll_s: float,
        read: "Callable[[int, float], Awaitable[PulledMessages]]",
    ) -> PulledMessages:
        """Read messages for the queue's reader; other readers wait for their turn, up to `poll_s` seconds.

        `read` reads from an offset on, or waits up to so many seconds for messages. A new reader begins at the
        committed offset, for any requested offset.
        """
        key = (reader.group, reader.client_id)
        call = _PullCall()
        self._calls.setdefault(key, set()).add(call)
        try:
            return await self._read_or_wait(call, reader, queue, offset, committed, poll_s, read)
        finally:
            self._calls[key].discard(call)
            if not self._calls[key]:
                del self._calls[key]

    async def _read_or_wait(
        self,
        call: "_PullCall",
        reader: "QueueReaderId",
        queue: "QueueRef",
        offset: int,
        committed: int | None,
        poll_s: float,
        read: "Callable[[int, float], Awaitable[PulledMessages]]",
    ) -> PulledMessages:
        loop = asyncio.get_running_loop()
        end = loop.time() + poll_s
        self._lock_queue(reader, queue, offset if committed is None else committed)
        # A call ends without its lock: the lock that it waited for is gone, or another reader's.
        while not call.is_left and (locked := self._locked.get((reader.group, queue))) is not None:
            now_ms = self._now_ms()
            answer = locked.access.request_read(reader.client_id, offset, now_ms)
            left_s = max(0.0, end - loop.time())
            if isinstance(answer, ReadGrant):
                pulled = await read(answer.offset, min(left_s, reader.lock_hold_ms / 1000 / _SEEN_PER_HOLD))
                if self._may_deliver(locked, answer, pulled):
                    if pulled.messages or pulled.next_offset != offset or loop.time() >= end:
                        return pulled
                    continue
            elif left_s:
                await _wait_for_change(locked, min(left_s, max(0, answer.until_ms - now_ms) / 1000))
            if loop.time() >= end:
                break
        return PulledMessages([], offset)

    def _lock_queue(self, reader: "QueueReaderId", queue: "QueueRef", acknowledged: int) -> None:
        locked = self._locked.get((reader.group, queue))
        if locked is None:
            access = QueueLock(acknowledged, reader.lock_hold_ms)
            self._locked[reader.group, queue] = _LockedQueue(access, asyncio.Event())
        else:
            locked.access.set_hold_timeout(reader.lock_hold_ms)

    def _may_deliver(self, locked: _LockedQueue, grant: ReadGrant, pulled: PulledMessages) -> bool:
        if not pulled.messages:
            return True
        return locked.access.confirm_handed_out(grant, pulled.messages[-1].queue_offset + 1, self._now_ms())

    def move_offset(self, reader: "QueueReaderId", queue: "QueueRef", offset: int) -> None:
        """Check that `reader` may move the group's offset; FORBIDDEN if another member has the lock."""
        locked = self._locked.get((reader.group, queue))
        if locked is None:
            return
        if not locked.access.commit_offset(reader.client_id, offset, self._now_ms()):
            raise MessagingError(
                ErrorCode.FORBIDDEN,
                f"queue {queue.queue_id} of {queue.topic!r} belongs to another reader of group {reader.group!r} now; "
                "query the assignment, and read on from the group's offset",
            )
        _notify_change(locked)

    def reset_offset(self, group: str, queue: "QueueRef", offset: int) -> None:
        """Move the group to `offset`, as an operator wants it."""
        locked = self._locked.get((group, queue))
        if locked is not None:
            locked.access.reset_to(offset)
            _notify_change(locked)

    def find_lock(self, group: str, queue: "QueueRef") -> HeldLock | None:
        """Return the lock of the queue, None if no member is its reader."""
        locked = self._locked.get((group, queue))
        if locked is None or locked.access.owner is None:
            return None
        now_ms = self._now_ms()
        since_ms, until_ms = locked.access.owned_ms
        return HeldLock(locked.access.owner, now_ms - since_ms, max(0, until_ms - now_ms))

    def end_polls(self) -> None:
        """End all waiting calls."""
        for calls in self._calls.values():
            for call in calls:
                call.is_left = True
        for locked in self._locked.values():
            _notify_change(locked)

    def release_member(self, group: str, client_id: str) -> None:
        """Release the locks of a member that has left."""
        for call in self._calls.get((group, client_id), ()):
            call.is_left = True
        for (owner, _), locked in self._locked.items():
            if owner == group:
                locked.access.release_client(client_id)
                _notify_change(locked)

    def unlock_queue(self, group: str, queue: "QueueRef") -> None:
        """Drop the lock of a queue that the group does not lock any more."""
        locked = self._locked.pop((group, queue), None)
        if locked is not None:
            _notify_change(locked)

    def forget_group(self, group: str) -> None:
        self._locked = {key: locked for key, locked in self._locked.items() if key[0] != group}


async def _wait_for_change(locked: _LockedQueue, seconds: float) -> None:
    changed = locked.changed
    await ensure_task()
    try:
        async with asyncio.timeout(seconds):
            await changed.wait()
    except TimeoutError:
        return


def _notify_change(locked: _LockedQueue) -> None:
    locked.changed.set()
    locked.changed = asyncio.Event()
