"""The assigned queues of a pull consumer, and the messages that are buffered of them.

Fairness    the queues take turns; each has an equal share of the buffer, so that none keeps others from being pulled
Step        a caller that takes more messages has handled the ones before; automatic commits rely on that
Given up    a queue that was revoked while one of its messages may still be processed: it is kept apart until its last
            commit, or until this consumer gets the queue again
Waiting     everything here is synchronous except `wait_some`, so a cancelled caller has taken nothing
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from ternmq.connections.route import RouteQueue
from ternmq.messages.message_view import MessageView
from ternmq.pull.pull_queue import MessageQueue, PullQueue


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
    def known_queues(self) -> list[PullQueue]:
        """The queues whose progress this consumer has to commit."""
        return [*self.queues.values(), *self.given_up.values()]

    def is_assigned(self, state: PullQueue) -> bool:
        """Return whether the queue is still assigned, without a break since then."""
        return self.queues.get(state.name) is state

    def find_queue(self, name: MessageQueue) -> PullQueue | None:
        return self.queues.get(name) or self.given_up.get(name)

    # Assigning and revoking.

    def grant_queues(self, queues: Iterable[RouteQueue]) -> list[PullQueue]:
        """Begin with these queues, whose positions have to be found."""
        states = [PullQueue(queue) for queue in queues]
        for state in states:
            before = self.given_up.pop(state.name, None)
            if before is not None:
                self._unhandled.discard(before)
            self.queues[state.name] = state
        self._divide_limits()
        return states

    def revoke_queues(self, names: Iterable[MessageQueue]) -> list[PullQueue]:
        """Give queues up; their buffered messages are dropped, their progress is kept until `forget_committed`."""
        states = [self.queues.pop(name) for name in names]
        for state in states:
            state.drop_buffered()
            state.given_up = True
            self.given_up[state.name] = state
            self._ready.pop(state, None)
        self._divide_limits()
        self._update_event()
        return states

    def lose_queue(self, state: PullQueue) -> bool:
        """Forget a queue and its progress; return whether it was assigned."""
        self._unhandled.discard(state)
        held = self.is_assigned(state)
        if held:
            self.revoke_queues([state.name])
        if self.given_up.get(state.name) is state:
            del self.given_up[state.name]
        return held

    def forget_committed(self) -> None:
        """Forget the queues that were given up and have nothing left to commit."""
        for name, state in list(self.given_up.items()):
            if state.next_offset is None or (state.committed is not None and state.committed >= state.next_offset):
                self._unhandled.discard(state)
                del self.given_up[name]

    def close(self) -> None:
        """Wake all that wait: no more messages will arrive."""
        self._closed = True
        self._some.set()

    # Messages.

    def accept_pull(self, state: PullQueue, views: Sequence[MessageView], next_offset: int) -> None:
        """Accept the messages of one pull."""
        assert self.is_assigned(state)
        state.accept_pull(views, next_offset)
        if views:
            self._ready.setdefault(state)
        self._update_event()

    async def wait_some(self) -> None:
        """Wait until something is buffered, or the buffer is closed."""
        await self._some.wait()

    def take_messages(self, count: int) -> list[MessageView]:
        """Take up to `count` messages, from the queues in turn; empty if none is buffered."""
        views: list[MessageView] = []
        while self._ready and len(views) < count:
            state, _ = self._ready.popitem(last=False)
            views += state.take_messages(count - len(views))
            self._unhandled.add(state)
            if state.buffered_messages:
                self._ready[state] = None
        self._update_event()
        return views

    def mark_handled(self) -> list[PullQueue]:
        """Mark the messages that were taken as handled; return the queues among them that were given up meanwhile."""
        stepped, self._unhandled = self._unhandled, set()
        for state in stepped:
            state.mark_handled()
        return [state for state in stepped if state.given_up]

    # Seeking and pausing.

    def seek_queue(self, state: PullQueue, queue_offset: int) -> None:
        state.seek_to(queue_offset)
        self._unhandled.discard(state)
        self._ready.pop(state, None)
        self._update_event()

    def set_paused(self, state: PullQueue, paused: bool) -> None:
        state.set_paused(paused)
        if paused:
            self._ready.pop(state, None)
        self._update_event()

    def _divide_limits(self) -> None:
        count = max(1, len(self.queues))
        for state in self.queues.values():
            state.set_limits(
                messages_max=max(1, self._messages_max // count), bytes_max=max(1, self._bytes_max // count)
            )

    def _update_event(self) -> None:
        if self._ready or self._closed:
            self._some.set()
        else:
            self._some.clear()
