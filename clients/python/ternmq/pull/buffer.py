"""The queues that a pull consumer has, and the handing out of what is buffered of them.

Fairness    the queues take turns; each has an equal share of the buffer, so that none keeps others from being pulled
Step        whoever asks for more has handled what he got before; that is what automatic commits go by
Given up    a queue that was taken away while a message of it may still be worked on: it is kept apart until its last
            commit, or until this consumer gets the queue again
Waiting     all of this is synchronous but `some`, so a cancelled caller has taken nothing
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from ternmq.message_view import MessageView
from ternmq.pull.queue import MessageQueue, PullQueue
from ternmq.route import Queue


class PullBuffer:
    """Changes the state of queues.

    Invariants: `_ready` has exactly the queues with buffered messages, next turn first; a name is in one of `queues`
    and `given_up` at most.
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
        """The queues whose progress is this consumer's to tell."""
        return [*self.queues.values(), *self.given_up.values()]

    def holds(self, state: PullQueue) -> bool:
        """Whether the queue is still assigned, and since then without a break."""
        return self.queues.get(state.name) is state

    def find(self, name: MessageQueue) -> PullQueue | None:
        return self.queues.get(name) or self.given_up.get(name)

    # Coming and going.

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
        """Give queues up; what is buffered of them is dropped, their progress is kept until `forget_committed`."""
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
        """Forget a queue and its progress; whether it was assigned."""
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
        """Wake those who wait: there will be nothing more."""
        self._closed = True
        self._some.set()

    # Messages.

    def accept(self, state: PullQueue, views: Sequence[MessageView], next_offset: int) -> None:
        """Take what one pull brought."""
        assert self.holds(state)
        state.accept(views, next_offset)
        if views:
            self._ready.setdefault(state)
        self._notice()

    async def some(self) -> None:
        """Wait until something is buffered, or this is closed."""
        await self._some.wait()

    def take(self, count: int) -> list[MessageView]:
        """Hand out up to `count` messages, the queues in turn; empty when none is buffered."""
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
        """What was handed out is handled; the queues among them that were given up meanwhile."""
        stepped, self._unhandled = self._unhandled, set()
        for state in stepped:
            state.step()
        return [state for state in stepped if state.given_up]

    # Moving about.

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
