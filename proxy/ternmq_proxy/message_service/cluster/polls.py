"""Receives that wait for messages of several brokers.

Nobody waits at a broker. A broker that had nothing for a group, or can't say yet what it has, notifies its proxies
once when there may be something; until then it is *quiet*, and asked no more. Polls wait in the proxy, those of a group
and topic in one wait queue. Each poll that gets messages wakes two more, so that a burst soon has everybody at work.
"""

import itertools
from typing import TYPE_CHECKING

from ternmq_common.poll_queues import PollQueues

if TYPE_CHECKING:
    from collections.abc import Iterable

STATES_MAX = 16_384
_Line = tuple[str, str]
"""Group, and the `wait_key` of its receives' orders: a topic, or that with a client."""


class _PollState:
    __slots__ = ("quiet", "told")

    def __init__(self, told: int) -> None:
        self.quiet: set[str] = set()
        self.told = told


class BrokerPolls:
    """What is known of the brokers by the receives, and the receives that wait.

    Invariant: while a receive waits, each broker of its wait queue is quiet, or a receive of it is on its way there.
    What is known of a wait queue may be dropped at any moment: its brokers are asked once more then.
    """

    def __init__(self, states_max: int = STATES_MAX) -> None:
        self._states_max = states_max
        self._pollers = PollQueues()
        self._states: dict[_Line, _PollState] = {}  # those used last are at the end
        # Each notification has a number of its own, so that none is mistaken for one to a state that was dropped.
        self._words = itertools.count()

    @property
    def waiting_count(self) -> int:
        """How many receives wait."""
        return self._pollers.waiting_count

    def close(self) -> None:
        """Nobody waits any more."""
        self._pollers.close()

    def promising_brokers(self, group: str, topic: str, brokers: "Iterable[str]") -> list[str]:
        """Those of the brokers that may have something."""
        state = self._states.get((group, topic))
        return [name for name in brokers if state is None or name not in state.quiet]

    def note_asking(self, group: str, topic: str) -> int:
        """A broker is asked, and will notify when it has something; the number is for `found_nothing`."""
        state = self._states.pop((group, topic), None)
        if state is None:
            state = _PollState(next(self._words))
            if len(self._states) >= self._states_max:
                del self._states[next(iter(self._states))]
        self._states[group, topic] = state
        return state.told

    def note_empty(self, group: str, topic: str, broker: str, number: int) -> None:
        """The broker gave nothing. It is quiet from then on, unless some broker notified since it was asked."""
        state = self._states.get((group, topic))
        if state is not None and state.told == number:
            state.quiet.add(broker)

    def wake_next(self, group: str, topic: str) -> None:
        """A poll ended, and there is somebody whom it has not asked: another poll is to do it."""
        self._pollers.wake_group(group, topic, 1)

    def wake_more(self, group: str, topic: str) -> None:
        """A poll got messages: there may be more for others."""
        self._pollers.wake_group(group, topic, 2)

    def note_ready(self, broker: str, group: str, topic: str) -> None:
        """The broker notified that there may be something."""
        state = self._states.get((group, topic))
        if state is not None:
            state.told = next(self._words)
            state.quiet.discard(broker)
        self._pollers.wake_group(group, topic, 1)

    def note_broker_changed(self, broker: str) -> None:
        """The broker is there anew, or gone: nothing is known of what it has."""
        for state in self._states.values():
            state.told = next(self._words)
            state.quiet.discard(broker)
        self._pollers.wake_all(1)

    def note_topics_moved(self) -> None:
        """Topics may be on other brokers now: those that wait are to look."""
        self._pollers.wake_all(1)

    def next_place(self) -> int:
        """A place in a wait queue, behind all that were given before."""
        return self._pollers.next_place()

    async def wait(self, group: str, topic: str, seconds: float, place: int | None = None) -> bool:
        """Wait until it is worth asking again, at that place, or at the end; False when `seconds` passed first."""
        return await self._pollers.wait_for_messages(group, topic, seconds, place)

    def forget_deleted(self, *, topic: str = "", group: str = "") -> None:
        """The topic or the group is deleted."""
        for key in [key for key in self._states if key[1].partition("\n")[0] == topic or key[0] == group]:
            del self._states[key]
