"""Waiting polls: who waits for which topic, and who is woken when something comes.

A message that becomes readable wakes one poll of each group that waits for its topic; a message that becomes ready for
another delivery wakes one poll of its group. A poll that is woken in vain (another took the message, or a filter let
nothing pass) waits on at the end of the line. There is one timer for each (group, topic) that has a poll, none else.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from ternmq_common.errors import MessagingError
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from collections.abc import Callable

POLLS_PER_GROUP_AND_TOPIC = 1024
POLLS_IN_ALL = 100_000


class Pollers:
    """The lines of waiting polls, by topic and group."""

    def __init__(self, now_ms: "Callable[[], int]") -> None:
        self._now_ms = now_ms
        self._lines: dict[str, dict[str, deque[asyncio.Future[None]]]] = {}
        self._timers: dict[tuple[str, str], tuple[int, asyncio.TimerHandle]] = {}
        self._count = 0
        self._closed = False

    def close(self) -> None:
        """Nobody waits any more."""
        self._closed = True
        for groups in list(self._lines.values()):
            for line in list(groups.values()):
                for future in line:
                    future.cancel()

    def has_waiting(self, group: str, topic: str) -> bool:
        return group in self._lines.get(topic, ())

    async def wait(self, group: str, topic: str, seconds: float, ready_at_ms: int | None) -> bool:
        """Wait to be woken, at the latest at `ready_at_ms`; False when `seconds` passed first.

        TOO_MANY_REQUESTS when the line is full.
        """
        if self._closed:
            return False
        line = self._lines.get(topic, {}).get(group, deque())
        if len(line) >= POLLS_PER_GROUP_AND_TOPIC or self._count >= POLLS_IN_ALL:
            raise MessagingError(
                definition_pb2.TOO_MANY_REQUESTS,
                f"{len(line)} polls of group {group!r} wait for topic {topic!r} ({self._count} in all); "
                f"{POLLS_PER_GROUP_AND_TOPIC} ({POLLS_IN_ALL} in all) may",
            )
        future = asyncio.get_running_loop().create_future()
        line = self._lines.setdefault(topic, {}).setdefault(group, line)
        line.append(future)
        self._count += 1
        if ready_at_ms is not None:
            self.wake_at(group, topic, ready_at_ms)
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            # Woken in the very turn in which the time ended: it was this poll's turn, and nobody else was woken for it.
            return future.done() and not future.cancelled()
        except asyncio.CancelledError:
            if self._closed and future.cancelled():
                return False
            if future.done() and not future.cancelled():
                self.wake_group(group, topic, 1)  # it was this poll's turn, and nobody is there to take it
            raise
        finally:
            self._count -= 1
            self._leave(group, topic, line, future)
        return True

    def _leave(
        self, group: str, topic: str, line: "deque[asyncio.Future[None]]", future: "asyncio.Future[None]"
    ) -> None:
        if future in line:
            line.remove(future)
        groups = self._lines.get(topic, {})
        if not line and groups.get(group) is line:
            del groups[group]
            if not groups:
                del self._lines[topic]
            timer = self._timers.pop((group, topic), None)
            if timer is not None:
                timer[1].cancel()

    def wake_topic(self, topic: str, messages: int) -> None:
        """That many messages became readable."""
        for group in list(self._lines.get(topic, ())):
            self.wake_group(group, topic, messages)

    def wake_group(self, group: str, topic: str, messages: int) -> None:
        """That many messages became ready for that group."""
        line = self._lines.get(topic, {}).get(group)
        while line and messages:
            future = line.popleft()
            if not future.done():
                future.set_result(None)
                messages -= 1

    def wake_at(self, group: str, topic: str, time_ms: int) -> None:
        """Something becomes ready for the group then; remembered only while the group has a waiting poll."""
        if not self.has_waiting(group, topic):
            return
        key = (group, topic)
        set_before = self._timers.get(key)
        if set_before is not None:
            if set_before[0] <= time_ms:
                return
            set_before[1].cancel()
        delay_s = max(0, time_ms - self._now_ms()) / 1000
        handle = asyncio.get_running_loop().call_later(delay_s, self._timer_ended, key)
        self._timers[key] = (time_ms, handle)

    def _timer_ended(self, key: tuple[str, str]) -> None:
        del self._timers[key]
        self.wake_group(*key, 1)
