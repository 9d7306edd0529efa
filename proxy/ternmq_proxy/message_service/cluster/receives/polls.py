"""Receives that wait for messages of several brokers.

Receives wait in the proxy, and never at a broker. A broker that had no message for a group, or does not know yet,
notifies its proxies once when there may be some; until then it is *quiet*, and is not called. The receives of a group
and topic wait in one wait queue. Each one that gets messages wakes two more, so that a burst soon occupies all of them.
"""

import itertools
from typing import TYPE_CHECKING, Final

from ternmq_common.receiving.poll_queues import PollQueues

if TYPE_CHECKING:
    from collections.abc import Iterable

STATES_MAX: Final = 16_384
_WaitQueueKey = tuple[str, str]
"""Group, and the `wait_key` of its receives' orders: a topic, or a topic and a client."""


class _PollState:
    __slots__ = ("notification", "quiet")

    def __init__(self, notification: int) -> None:
        self.quiet: set[str] = set()
        self.notification = notification


class BrokerPolls:
    """The receives that wait, and which brokers may have messages for them.

    Invariant: while a receive waits, each broker of its wait queue is quiet, or a receive is on its way there. The
    state of a wait queue may be dropped at any moment: its brokers are then called once more.
    """

    def __init__(self, states_max: int = STATES_MAX) -> None:
        self._states_max = states_max
        self._pollers = PollQueues()
        self._states: dict[_WaitQueueKey, _PollState] = {}  # the most recently used are at the end
        # Each notification has its own number, so that none is mistaken for one to a state that was dropped.
        self._words = itertools.count()

    @property
    def waiting_count(self) -> int:
        """How many receives wait."""
        return self._pollers.waiting_count

    def close(self) -> None:
        """End all waits."""
        self._pollers.close()

    def promising_brokers(self, group: str, topic: str, brokers: "Iterable[str]") -> list[str]:
        """Return the brokers that may have messages."""
        state = self._states.get((group, topic))
        return [name for name in brokers if state is None or name not in state.quiet]

    def note_asking(self, group: str, topic: str) -> int:
        """Note that a broker is called, which will notify when it has messages; return a number for `note_empty`."""
        state = self._states.pop((group, topic), None)
        if state is None:
            state = _PollState(next(self._words))
            if len(self._states) >= self._states_max:
                del self._states[next(iter(self._states))]
        self._states[group, topic] = state
        return state.notification

    def note_empty(self, group: str, topic: str, broker: str, number: int) -> None:
        """Note that the broker had nothing. It is quiet from then on, unless some broker notified since it was
        called."""
        state = self._states.get((group, topic))
        if state is not None and state.notification == number:
            state.quiet.add(broker)

    def wake_next(self, group: str, topic: str) -> None:
        """Wake another receive after one ended that has not called all brokers."""
        self._pollers.wake_group(group, topic, 1)

    def wake_more(self, group: str, topic: str) -> None:
        """Wake more receives after one got messages, since there may be more."""
        self._pollers.wake_group(group, topic, 2)

    def note_ready(self, broker: str, group: str, topic: str) -> None:
        """Note that the broker may have messages, and wake a receive."""
        state = self._states.get((group, topic))
        if state is not None:
            state.notification = next(self._words)
            state.quiet.discard(broker)
        self._pollers.wake_group(group, topic, 1)

    def note_broker_changed(self, broker: str) -> None:
        """Forget what the broker has, after it was connected or lost."""
        for state in self._states.values():
            state.notification = next(self._words)
            state.quiet.discard(broker)
        self._pollers.wake_all(1)

    def note_topics_moved(self) -> None:
        """Wake receives to look again, since topics may be on other brokers now."""
        self._pollers.wake_all(1)

    def next_place(self) -> int:
        """Return a place in a wait queue, behind all earlier ones."""
        return self._pollers.next_place()

    async def wait(self, group: str, topic: str, seconds: float, place: int | None = None) -> bool:
        """Wait, at that place or at the end, until asking may succeed; return False when `seconds` passed first."""
        return await self._pollers.wait_for_messages(group, topic, seconds, place)

    def forget_deleted(self, *, topic: str = "", group: str = "") -> None:
        """Forget the state of a topic or group that was deleted."""
        for key in [key for key in self._states if key[1].partition("\n")[0] == topic or key[0] == group]:
            del self._states[key]
