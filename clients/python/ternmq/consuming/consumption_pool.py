"""The cache of a push consumer, and the workers that run its listener.

Lanes       messages that must be processed one after the other share a lane; each other message has a lane of its own
Room        is counted in lanes without the parked ones: so many can't be processed at the same time, and an ordered
            message that fails for hours, with all that wait behind it, doesn't keep others from being received
End         after `stop_starting` nothing more is started; what wasn't is in `unstarted`, for the owner to give back.
            `abandon_lane`
            does that for one lane
Invariants  a lane is in one place: waiting in `_ready`, with one worker, or parked until a time
            `messages` and `stored_bytes` count what was accepted and isn't done, `_lanes_active` all lanes but parked
            ones
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable

from ternmq.messages.message_view import MessageView
from ternmq_common.limits import RECEIVE_BATCH_MAX

logger = logging.getLogger(__name__)
CANCELLED_WITHIN_S = 1.0


class WorkLane:
    """Messages in their order; the first one is next, or being processed."""

    __slots__ = ("is_abandoned", "key", "views")

    def __init__(self, key: Hashable | None, view: MessageView) -> None:
        self.key = key
        self.views = deque([view])
        self.is_abandoned = False


class ConsumptionPool:
    """Processes messages with `concurrency` workers.

    `work` settles one message and returns None, or returns the seconds after which it wants to process it again.
    """

    def __init__(
        self,
        work: Callable[[MessageView], Awaitable[float | None]],
        *,
        concurrency: int,
        lanes_max: int,
        messages_max: int,
        bytes_max: int,
    ) -> None:
        self.messages = 0
        self.stored_bytes = 0
        self.unstarted: list[tuple[MessageView, float]] = []
        """Messages that were not started at the end, in their order, with the seconds that each should stay hidden."""
        self._work = work
        self._lanes_max = lanes_max
        self._lanes_active = 0
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._ready: asyncio.Queue[WorkLane] = asyncio.Queue()
        self._lanes: dict[Hashable, WorkLane] = {}
        self._parked: dict[WorkLane, asyncio.TimerHandle] = {}
        self._running: set[WorkLane] = set()
        self.stopped = False
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._workers = [asyncio.create_task(self._run_worker()) for _ in range(concurrency)]

    async def wait_room(self) -> None:
        """Wait until there is room for another batch: for a whole one, or a quarter of all room.

        Polls for less cost more than they bring; if it waited for more, workers would be idle until the answer is
        there.
        """
        await self._has_room.wait()

    @property
    def free_messages(self) -> int:
        """How many more messages there is room for."""
        return min(self._lanes_max - self._lanes_active, self._messages_max - self.messages)

    def accept_messages(self, views: Iterable[MessageView], lane_of: Callable[[MessageView], Hashable | None]) -> None:
        """Accept messages; `lane_of` returns the lane of an ordered message, and None for others."""
        assert not self.stopped
        for view in views:
            self.messages += 1
            self.stored_bytes += view.stored_bytes
            key = lane_of(view)
            lane = self._lanes.get(key) if key is not None else None
            if lane is not None:
                lane.views.append(view)
                continue
            lane = WorkLane(key, view)
            if key is not None:
                self._lanes[key] = lane
            self._lanes_active += 1
            self._ready.put_nowait(lane)
        self._update_events()

    def abandon_lane(self, key: Hashable) -> list[tuple[MessageView, float]]:
        """Start nothing more of a lane; return what was not started, as in `unstarted`."""
        lane = self._lanes.get(key)
        if lane is None:
            return []
        lane.is_abandoned = True
        if lane in self._running:
            left = self._remove_messages(lane, but=1)
        else:
            del self._lanes[key]
            parked = self._parked.pop(lane, None)
            self._lanes_active -= parked is None
            left = self._remove_messages(lane, parked)  # a lane in `_ready` stays there, empty
        self._update_events()
        return left

    def can_retry(self, key: Hashable | None) -> bool:
        """Return whether the message that is being processed in the lane can be tried again here if it fails."""
        return not self.stopped and (key is None or not self._lanes[key].is_abandoned)

    def advance_clock(self, seconds: float) -> None:
        """Shorten the waits of parked lanes, after a test clock was moved forward."""
        now_s = asyncio.get_running_loop().time()
        parked, self._parked = self._parked, {}
        self._lanes_active += len(parked)
        for lane, handle in sorted(parked.items(), key=lambda entry: entry[1].when()):
            handle.cancel()
            self._park_lane(lane, max(0.0, handle.when() - now_s - seconds))

    def stop_starting(self) -> None:
        """Start nothing more. A message that failed and waits for its next try keeps the rest of its wait."""
        self.stopped = True
        while not self._ready.empty():
            self.unstarted += self._remove_messages(self._ready.get_nowait())
        for lane, handle in self._parked.items():
            self.unstarted += self._remove_messages(lane, handle)
        self._parked.clear()
        for lane in self._running:
            self.unstarted += self._remove_messages(lane, but=1)
        self._update_events()

    async def wait_finished(self, timeout_s: float, on_late: Callable[[int], None]) -> None:
        """Wait for the running work for at most `timeout_s`, then cancel it: its messages are delivered again.
        `on_late` is called with their number first."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._empty.wait()
        except TimeoutError:
            on_late(self.messages)
        for worker in self._workers:
            worker.cancel()
        # Work that ignores its cancellation is abandoned.
        await asyncio.wait(self._workers, timeout=CANCELLED_WITHIN_S)

    @property
    def is_ended(self) -> bool:
        """Whether every worker has ended."""
        return all(worker.done() for worker in self._workers)

    async def _run_worker(self) -> None:
        while True:
            lane = await self._ready.get()
            if not lane.views:
                continue
            self._running.add(lane)
            retry_after_s: float | None = None
            try:
                retry_after_s = await self._work(lane.views[0])
            except Exception:
                logger.exception("a message could not be settled: %r", lane.views[0])
            self._running.discard(lane)
            if retry_after_s is None:
                self._finish_message(lane)
            else:
                self._park_lane(lane, retry_after_s)

    def _finish_message(self, lane: WorkLane) -> None:
        self._uncount_message(lane.views.popleft())
        if lane.views:
            lane.is_abandoned = False  # messages that arrived since are started
            self._ready.put_nowait(lane)
        else:
            self._lanes_active -= 1
            if lane.key is not None:
                del self._lanes[lane.key]
        self._update_events()

    def _remove_messages(
        self, lane: WorkLane, parked: asyncio.TimerHandle | None = None, *, but: int = 0
    ) -> list[tuple[MessageView, float]]:
        """Remove a lane's messages except the first `but`; the first of a parked lane failed and keeps its wait."""
        wait_s = 0.0
        if parked is not None:
            parked.cancel()
            wait_s = max(0.0, parked.when() - asyncio.get_running_loop().time())
        left: list[tuple[MessageView, float]] = []
        for view in list(lane.views)[but:]:
            lane.views.pop()
            self._uncount_message(view)
            left.append((view, wait_s))
            wait_s = 0.0
        return left

    def _uncount_message(self, view: MessageView) -> None:
        self.messages -= 1
        self.stored_bytes -= view.stored_bytes

    def _park_lane(self, lane: WorkLane, seconds: float) -> None:
        """Let a lane wait without a worker: one ordered message that fails for hours must not hold up the others."""

        def unpark() -> None:
            del self._parked[lane]
            self._lanes_active += 1
            self._ready.put_nowait(lane)
            self._update_events()

        self._parked[lane] = asyncio.get_running_loop().call_later(seconds, unpark)
        self._lanes_active -= 1
        self._update_events()

    def _update_events(self) -> None:
        enough = max(1, min(RECEIVE_BATCH_MAX, min(self._lanes_max, self._messages_max) // 4))
        _set_event(self._has_room, self.free_messages >= enough and self.stored_bytes < self._bytes_max)
        _set_event(self._empty, self.messages == 0)


def _set_event(event: asyncio.Event, value: bool) -> None:
    if value:
        event.set()
    else:
        event.clear()
