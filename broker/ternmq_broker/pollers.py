"""Waiting polls: who waits for which topic, and who is woken when something comes.

A message that becomes readable wakes one poll of each group that waits for its topic; a message that becomes ready for
another delivery wakes one poll of its group. A poll that is woken in vain (another took the message, or a filter let
nothing pass) waits on at the end of the line.
"""

import asyncio
from collections import deque

from ternmq_common.errors import MessagingError
from ternmq_protos.v2 import definition_pb2

POLLS_PER_GROUP_AND_TOPIC = 1024
POLLS_IN_ALL = 100_000


class Pollers:
    """The lines of waiting polls, by topic and group."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[str, deque[asyncio.Future[None]]]] = {}
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

    async def wait(self, group: str, topic: str, seconds: float) -> bool:
        """Wait to be woken; False when `seconds` passed first.

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
