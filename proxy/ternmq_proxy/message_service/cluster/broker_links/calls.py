"""The pending calls of one link: which caller waits for which answer, and what becomes of answers that no caller waits
for."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.event_loop.callbacks import call_back
from ternmq_common.shard.calls import ShardCall
from ternmq_common.shard.shard_frames import FramePiece

LateResultCallback = Callable[[Any], None]
"""A callback for a result that no caller waits for."""
ResultCallback = Callable[[Any, Exception | None], None]
"""A callback that is called once with the result of a call, or with its error."""

CALLS_MAX: Final = 100_000


class BrokerUnavailable(MessagingError):
    """The broker can't be reached. With `maybe_done` it may have done the call before the connection was lost."""

    def __init__(self, text: str, *, maybe_done: bool) -> None:
        super().__init__(ErrorCode.HA_NOT_AVAILABLE, text)
        self.maybe_done = maybe_done


class BrokerRefused(BrokerUnavailable):
    """The broker answered that it can't do the call now, and did nothing. It has waited for what it lacks, so an
    immediate retry is pointless."""

    def __init__(self, text: str) -> None:
        super().__init__(text, maybe_done=False)


class LateAnswer(MessagingError):
    """The broker did not answer in time; it may still do the call."""

    def __init__(self, broker: str) -> None:
        super().__init__(ErrorCode.PROXY_TIMEOUT, f"broker {broker} did not answer in time")


class CallbackWaiter:
    """Passes a result to a callback: a cheaper replacement of a future where no task waits."""

    __slots__ = ("_heard",)

    def __init__(self, heard: ResultCallback) -> None:
        self._heard: ResultCallback | None = heard

    def done(self) -> bool:
        return self._heard is None

    def set_result(self, result: object) -> None:
        self._call_back(result, None)

    def set_exception(self, error: Exception) -> None:
        self._call_back(None, error)

    def _call_back(self, result: object, error: Exception | None) -> None:
        heard, self._heard = self._heard, None
        assert heard is not None
        call_back(heard, result, error)


class _PendingCall(NamedTuple):
    call: ShardCall
    result: "asyncio.Future[Any] | CallbackWaiter"  # done when its waiter is gone
    deadline_s: float
    on_late: LateResultCallback | None


class LinkCalls:
    """Pending calls by their numbers, until they are answered or, without `on_late`, abandoned.

    Invariant: a result goes to its waiter or to its `on_late`, whichever way the waiter ended.
    """

    def __init__(self, broker: str, calls_max: int = CALLS_MAX) -> None:
        self._broker = broker
        self._calls_max = calls_max
        self._pending: dict[int, _PendingCall] = {}
        self._idle: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        """Return how many calls wait for an answer."""
        return sum(not pending.result.done() for pending in self._pending.values())

    @property
    def is_full(self) -> bool:
        """Whether so many calls are pending that the broker must be stuck, and should get no more for now."""
        return len(self._pending) >= self._calls_max

    def add_call(
        self, number: int, call: ShardCall, deadline_s: float, on_late: LateResultCallback | None
    ) -> "asyncio.Future[Any]":
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[number] = _PendingCall(call, future, deadline_s, on_late)
        return future

    def add_callback_call(self, number: int, call: ShardCall, deadline_s: float, heard: ResultCallback) -> None:
        """Add a call whose result goes to `heard`, also when its time is over."""
        self._pending[number] = _PendingCall(call, CallbackWaiter(heard), deadline_s, None)

    def abandon_call(self, number: int, result: "asyncio.Future[Any]", on_late: LateResultCallback | None) -> bool:
        """Give up waiting for a call; return whether the answer is still to come."""
        if number in self._pending:
            if on_late is None:
                self._pop_call(number)
            return True
        # It may have arrived at the same moment, unseen.
        if result.done() and not result.cancelled() and result.exception() is None and on_late is not None:
            on_late(result.result())
        return False

    def finish_call(self, answer: FramePiece) -> None:
        """Finish a call with its answer. Raises NoFrame if the answer is no result of the call, which then keeps
        waiting."""
        pending = self._pending.get(answer.number)
        if pending is None:
            return
        result = pending.call.decode_result(answer)
        self._pop_call(answer.number)
        if not pending.result.done():
            pending.result.set_result(result)
        elif pending.on_late is not None:
            pending.on_late(result)

    def fail_call(self, number: int, error: MessagingError) -> None:
        """Finish a call with an error."""
        pending = self._pop_call(number)
        if pending is not None and not pending.result.done():
            pending.result.set_exception(error)

    def expire_calls(self, now_s: float) -> int:
        """End the calls whose time is over; return how many."""
        over = [each for each in self._pending.items() if each[1].deadline_s < now_s and not each[1].result.done()]
        for number, pending in over:
            if pending.on_late is None:
                self._pop_call(number)
            pending.result.set_exception(LateAnswer(self._broker))
        return len(over)

    def fail_all_calls(self, text: str, *, sent_up_to: int) -> int:
        """End all calls, since no answer can come any more; return how many. Those up to number `sent_up_to` may have
        been done."""
        waiting = [(number, pending) for number, pending in self._pending.items() if not pending.result.done()]
        self._pending.clear()
        for number, pending in waiting:
            pending.result.set_exception(BrokerUnavailable(text, maybe_done=number <= sent_up_to))
        self._notify_idle()
        return len(waiting)

    async def wait_idle(self) -> None:
        """Wait until no answer is pending; for one caller."""
        while self._pending:
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle

    def _pop_call(self, number: int) -> _PendingCall | None:
        pending = self._pending.pop(number, None)
        self._notify_idle()
        return pending

    def _notify_idle(self) -> None:
        if self._idle is not None and not self._idle.done() and not self._pending:
            self._idle.set_result(None)
