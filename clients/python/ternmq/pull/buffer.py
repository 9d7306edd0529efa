"""The assigned queues of a pull consumer, and the messages that are buffered of them.

Fairness    the queues take turns; each has an equal share of the buffer, so that none keeps others from being pulled
Step        a caller that takes more messages has handled the ones before; automatic commits rely on that
Given up    a queue that was revoked while one of its messages may still be processed: it is kept apart until its last
            commit, or until this consumer gets the queue again
Waiting     everything here is synchronous except `some`, so a cancelled caller has taken nothing
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from ternmq.message_view import MessageView
from ternmq.pull.queue import MessageQueue, PullQueue
from ternmq.route import Queue


class PullBuffer:
    """The state of all queues.

    Invariants: `_ready` has exactly the queues with buffered messages, next turn first; a name is in at most one of
    `queues` and `given_up`.
    """

    def __init__(self, *, messages_max: int, bytes_max: int) -> None:
        self.queues: dict[MessageQueue, PullQueue] = {}
        self.given_up: dict[MessageQueue, PullQueue] = {}
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._ready: OrderedDict[PullQueue, None] = OrderedDict()
        self._unhandled: set[PullQueue] = set()
        self._some = asyncio.Event()
        self._closed = False

    @property
    def known(self) -> list[PullQueue]:
        """The queues whose progress this consumer has to commit."""
        return [*self.queues.values(), *self.given_up.values()]

    def holds(self, state: PullQueue) -> bool:
        """Return whether the queue is still assigned, without a break since then."""
        return self.queues.get(state.name) is state

    def find(self, name: MessageQueue) -> PullQueue | None:
        return self.queues.get(name) or self.given_up.get(name)

    # Assigning and revoking.

    def grant(self, queues: Iterable[Queue]) -> list[PullQueue]:
        """Begin with these queues, whose positions have to be found."""
        states = [PullQueue(queue) for queue in queues]
        for state in states:
            before = self.given_up.pop(state.name, None)
            if before is not None:
                self._unhandled.discard(before)
            self.queues[state.name] = state
        self._share()
        return states

    def revoke(self, names: Iterable[MessageQueue]) -> list[PullQueue]:
        """Give queues up; their buffered messages are dropped, their progress is kept until `forget_committed`."""
        states = [self.queues.pop(name) for name in names]
        for state in states:
            state.drop()
            state.given_up = True
            self.given_up[state.name] = state
            self._ready.pop(state, None)
        self._share()
        self._notice()
        return states

    def lose(self, state: PullQueue) -> bool:
        """Forget a queue and its progress; return whether it was assigned."""
        self._unhandled.discard(state)
        held = self.holds(state)
        if held:
            self.revoke([state.name])
        if self.given_up.get(state.name) is state:
            del self.given_up[state.name]
        return held

    def forget_committed(self) -> None:
        """Forget the queues that were given up and have nothing left to commit."""
        for name, state in list(self.given_up.items()):
            if state.position is None or (state.committed is not None and state.committed >= state.position):
                self._unhandled.discard(state)
                del self.given_up[name]

    def close(self) -> None:
        """Wake all that wait: no more messages will arrive."""
        self._closed = True
        self._some.set()

    # Messages.

    def accept(self, state: PullQueue, views: Sequence[MessageView], next_offset: int) -> None:
        """Accept the messages of one pull."""
        assert self.holds(state)
        state.accept(views, next_offset)
        if views:
            self._ready.setdefault(state)
        self._notice()

    async def some(self) -> None:
        """Wait until something is buffered, or the buffer is closed."""
        await self._some.wait()

    def take(self, count: int) -> list[MessageView]:
        """Take up to `count` messages, from the queues in turn; empty if none is buffered."""
        views: list[MessageView] = []
        while self._ready and len(views) < count:
            state, _ = self._ready.popitem(last=False)
            views += state.take(count - len(views))
            self._unhandled.add(state)
            if state.buffered:
                self._ready[state] = None
        self._notice()
        return views

    def step(self) -> list[PullQueue]:
        """Mark the messages that were taken as handled; return the queues among them that were given up meanwhile."""
        stepped, self._unhandled = self._unhandled, set()
        for state in stepped:
            state.step()
        return [state for state in stepped if state.given_up]

    # Seeking and pausing.

    def seek(self, state: PullQueue, queue_offset: int) -> None:
        state.seek(queue_offset)
        self._unhandled.discard(state)
        self._ready.pop(state, None)
        self._notice()

    def pause(self, state: PullQueue, paused: bool) -> None:
        state.pause(paused)
        if paused:
            self._ready.pop(state, None)
        self._notice()

    def _share(self) -> None:
        count = max(1, len(self.queues))
        for state in self.queues.values():
            state.limit(messages_max=max(1, self._messages_max // count), bytes_max=max(1, self._bytes_max // count))

    def _notice(self) -> None:
        if self._ready or self._closed:
            self._some.set()
        else:
            self._some.clear()
