"""Wait queues of polls, by topic and group, and which poll is woken when messages come; pulls, by message queue.

A message that becomes readable wakes one poll of each group that waits for its topic; a message that becomes ready for
redelivery wakes one poll of its group. A poll that is woken in vain (another one took several messages, or a filter
let nothing pass) may wait on at its place: the one that waits longest is next, and none starves.

Pulls do not compete: the next message of a message queue wakes all pulls that wait at its end, and no others.

Beside polls there are watchers, which are all notified once when there may be messages: proxies, each with wait queues
of its own.
"""

import asyncio
import bisect
import itertools
import math
from collections import deque
from typing import TYPE_CHECKING, Final

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.names import is_lite_queue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Watcher = Callable[[str, str], None]
    """Called with group and topic; must not raise."""
    Line = deque[tuple[int, asyncio.Future[bool]]]
    """The polls that wait, by their places."""

POLLS_PER_GROUP_AND_TOPIC: Final = 1024
POLLS_IN_ALL: Final = 100_000
_SLOT_S: Final = 0.01


class PollQueues:
    """The wait queues of polls, by topic and group, in each of which `line_max` may wait; and the pulls that wait."""

    def __init__(self, line_max: int = POLLS_PER_GROUP_AND_TOPIC) -> None:
        self._line_max = line_max
        self._lines: dict[str, dict[str, Line]] = {}
        self._pulls: dict[tuple[str, int], dict[asyncio.Future[bool], None]] = {}
        self._places = itertools.count()
        self._watchers: dict[str, dict[str, dict[Watcher, None]]] = {}
        self._alarms = _WaitTimers()
        self._count = 0
        self.closed = False
        self.on_lite_messages: Callable[[str, str], None] | None = None
        """Called instead when messages came for a lite topic, of whose clients at most one is woken: with the topic of
        its queue, and the group for which they came, or empty for all."""

    @property
    def waiting_count(self) -> int:
        """How many polls and pulls wait."""
        return self._count

    def close(self) -> None:
        """End all waits, and all later ones."""
        self.closed = True
        for groups in list(self._lines.values()):
            for line in list(groups.values()):
                for _, future in line:
                    if not future.done():
                        future.set_result(False)
        for pulls in self._pulls.values():
            _expire_waits(pulls)

    def has_waiting(self, group: str, topic: str) -> bool:
        return group in self._lines.get(topic, ()) or group in self._watchers.get(topic, ())

    def next_place(self) -> int:
        """A place behind all places given before."""
        return next(self._places)

    async def wait_for_messages(self, group: str, topic: str, seconds: float, place: int | None = None) -> bool:
        """Wait to be woken; False when `seconds` passed first, up to a hundredth of a second later.

        At the end of the wait queue, or at an earlier `place`. TOO_MANY_REQUESTS when the wait queue is full.
        """
        if self.closed:
            return False
        line = self._lines.get(topic, {}).get(group, deque())
        if len(line) >= self._line_max or self._count >= POLLS_IN_ALL:
            raise MessagingError(
                ErrorCode.TOO_MANY_REQUESTS,
                f"{len(line)} polls of group {group!r} wait for topic {topic!r} ({self._count} in all); "
                f"{self._line_max} ({POLLS_IN_ALL} in all) may",
            )
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        line = self._lines.setdefault(topic, {}).setdefault(group, line)
        waiting = (self.next_place() if place is None else place, future)
        bisect.insort(line, waiting)  # places differ, so that futures are not compared
        self._count += 1
        slot = self._alarms.set_timer(future, seconds)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.result():
                self.wake_group(group, topic, 1)  # it was this poll's turn, and its caller is gone
            raise
        finally:
            self._count -= 1
            self._alarms.unset_timer(future, slot)
            self._leave_queue(group, topic, line, waiting)

    async def wait_at_end(self, topic: str, queue_id: int, seconds: float) -> bool:
        """Wait for the next message of that message queue; False when `seconds` passed first, up to a hundredth of a
        second later. TOO_MANY_REQUESTS when too many polls and pulls wait."""
        if self.closed:
            return False
        if self._count >= POLLS_IN_ALL:
            raise MessagingError(ErrorCode.TOO_MANY_REQUESTS, f"{self._count} polls wait; {POLLS_IN_ALL} may")
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._pulls.setdefault((topic, queue_id), {})[future] = None
        self._count += 1
        slot = self._alarms.set_timer(future, seconds)
        try:
            return await future
        finally:
            self._count -= 1
            self._alarms.unset_timer(future, slot)
            pulls = self._pulls.get((topic, queue_id))
            if pulls is not None:
                pulls.pop(future, None)
                if not pulls:
                    del self._pulls[topic, queue_id]

    def _leave_queue(self, group: str, topic: str, line: "Line", waiting: "tuple[int, asyncio.Future[bool]]") -> None:
        if waiting in line:
            line.remove(waiting)
        groups = self._lines.get(topic, {})
        if not line and groups.get(group) is line:
            del groups[group]
            if not groups:
                del self._lines[topic]

    def add_watcher(self, group: str, topic: str, watcher: "Watcher") -> None:
        """Notify the watcher, once, when messages become readable or ready for the group."""
        self._watchers.setdefault(topic, {}).setdefault(group, {})[watcher] = None

    def remove_watcher(self, watcher: "Watcher") -> None:
        """Remove the watcher."""
        for topic, groups in list(self._watchers.items()):
            for group, watchers in list(groups.items()):
                if watchers.pop(watcher, self) is None and not watchers:
                    del groups[group]
            if not groups:
                del self._watchers[topic]

    def forget_deleted(self, *, topic: str = "", group: str = "") -> None:
        """Remove a deleted topic or group. Its watchers are notified, and watch again if they still wait."""
        for watched, groups in list(self._watchers.items()):
            for each in list(groups):
                if watched.partition("\n")[0] == topic or each == group:
                    self._notify_watchers(each, watched)

    def wake_topic(self, topic: str, messages: int) -> None:
        """Wake polls of all groups: that many messages became readable."""
        if self.on_lite_messages is not None and is_lite_queue(topic):
            self.on_lite_messages(topic, "")
            return
        for group in {**self._lines.get(topic, {}), **self._watchers.get(topic, {})}:
            self.wake_group(group, topic, messages)

    @property
    def has_pulls(self) -> bool:
        """Whether any pull waits."""
        return bool(self._pulls)

    def wake_pulls(self, topic: str, queue_id: int) -> None:
        """Wake the pulls that wait at the end of that message queue: a message became readable there."""
        for future in self._pulls.pop((topic, queue_id), ()):
            if not future.done():
                future.set_result(True)

    def wake_queue(self, topic: str, queue_id: int, messages: int) -> None:
        """Wake polls of all groups, and pulls: that many messages became readable in that message queue."""
        self.wake_topic(topic, messages)
        self.wake_pulls(topic, queue_id)

    def wake_group(self, group: str, topic: str, messages: int) -> None:
        """Wake polls of the group: that many messages became ready for it."""
        if self.on_lite_messages is not None and is_lite_queue(topic):
            self.on_lite_messages(topic, group)
            return
        if self._watchers and messages:
            self._notify_watchers(group, topic)
        line = self._lines.get(topic, {}).get(group)
        while line and messages:
            _, future = line.popleft()
            if not future.done():
                future.set_result(True)
                messages -= 1

    def wake_all(self, messages: int) -> None:
        """Wake polls of all topics and groups, and all pulls: messages may have come for any."""
        for topic in {**self._lines, **self._watchers}:
            self.wake_topic(topic, messages)
        for key in list(self._pulls):
            self.wake_pulls(*key)

    def _notify_watchers(self, group: str, topic: str) -> None:
        groups = self._watchers.get(topic)
        watchers = groups.pop(group, None) if groups is not None else None
        if watchers is None:
            return
        if not groups:
            del self._watchers[topic]
        for watcher in watchers:
            watcher(group, topic)


class _WaitTimers:
    """Ends waits whose time is over, those of the same hundredth of a second by one timer: there are thousands of
    polls."""

    def __init__(self) -> None:
        # By slot, in the order of arrival: a dict is an ordered set.
        self._slots: dict[int, dict[asyncio.Future[bool], None]] = {}

    def set_timer(self, future: "asyncio.Future[bool]", seconds: float) -> int:
        """Set the end of a wait; returns the slot, for `unset_timer`."""
        loop = asyncio.get_running_loop()
        if seconds <= 0:
            loop.call_soon(_expire_waits, (future,))
            return -1
        slot = math.ceil((loop.time() + seconds) / _SLOT_S)
        futures = self._slots.get(slot)
        if futures is None:
            futures = self._slots[slot] = {}
            loop.call_at(slot * _SLOT_S, self._expire_slot, slot)
        futures[future] = None
        return slot

    def unset_timer(self, future: "asyncio.Future[bool]", slot: int) -> None:
        futures = self._slots.get(slot)
        if futures is not None:
            futures.pop(future, None)

    def _expire_slot(self, slot: int) -> None:
        _expire_waits(self._slots.pop(slot))


def _expire_waits(futures: "Iterable[asyncio.Future[bool]]") -> None:
    for future in futures:
        if not future.done():
            future.set_result(False)
