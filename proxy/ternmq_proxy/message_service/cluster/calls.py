"""The calls of one link: who waits for which answer, and what becomes of answers for which nobody waits any more."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from ternmq_common.errors import MessagingError
from ternmq_common.shard.calls import Call
from ternmq_common.shard.form import Piece
from ternmq_protos.v2 import definition_pb2

OnLate = Callable[[Any], None]
"""Called with a result for which nobody waits any more."""

CALLS_MAX = 100_000


class BrokerUnavailable(MessagingError):
    """The broker can't be asked; `maybe_done`: it may have done what it was asked, and not have said so."""

    def __init__(self, text: str, *, maybe_done: bool) -> None:
        super().__init__(definition_pb2.HA_NOT_AVAILABLE, text)
        self.maybe_done = maybe_done


class BrokerRefused(BrokerUnavailable):
    """The broker answered that it can't do now what it was asked: nothing was done. It has waited itself for what it
    lacks, so that it need not be asked again at once."""

    def __init__(self, text: str) -> None:
        super().__init__(text, maybe_done=False)


class LateAnswer(MessagingError):
    """The broker did not answer in time; it may still do what it was asked."""

    def __init__(self, broker: str) -> None:
        super().__init__(definition_pb2.PROXY_TIMEOUT, f"broker {broker} did not answer in time")


class _Waiting(NamedTuple):
    call: Call
    result: "asyncio.Future[Any]"
    deadline_s: float
    on_late: OnLate | None


class Calls:
    """Calls by their numbers.

    Invariant: a result that comes goes to its waiter or to its `on_late`, whichever way the waiter ended.
    """

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._waiting: dict[int, _Waiting] = {}
        self._late: dict[int, tuple[Call, OnLate]] = {}
        self._idle: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        """How many wait for an answer."""
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """So many that the broker must be stuck: it is to be asked no more for now."""
        return len(self._waiting) + len(self._late) >= CALLS_MAX

    def add(self, number: int, call: Call, deadline_s: float, on_late: OnLate | None) -> "asyncio.Future[Any]":
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = _Waiting(call, future, deadline_s, on_late)
        return future

    def abandon(self, number: int, result: "asyncio.Future[Any]", on_late: OnLate | None) -> bool:
        """The waiter is gone; whether the answer is still to come."""
        waiting = self._waiting.pop(number, None)
        if waiting is not None:
            self._is_late(number, waiting)
            self._tell_idle()
            return True
        # It may have come in the same moment, and nobody has seen it.
        if result.done() and not result.cancelled() and result.exception() is None and on_late is not None:
            on_late(result.result())
        return False

    def _is_late(self, number: int, waiting: _Waiting) -> None:
        if waiting.on_late is not None:
            self._late[number] = waiting.call, waiting.on_late

    def answered(self, answer: Piece) -> None:
        """NoFrame if that is no result of the call, which waits on then."""
        waiting = self._waiting.get(answer.number)
        call, on_late = self._late.get(answer.number, (None, None))
        if waiting is not None:
            call, on_late = waiting.call, waiting.on_late
        if call is None:
            return
        result = call.result(answer)
        self._waiting.pop(answer.number, None)
        self._late.pop(answer.number, None)
        if waiting is not None and not waiting.result.done():
            waiting.result.set_result(result)
        elif on_late is not None:
            on_late(result)
        self._tell_idle()

    def failed(self, number: int, error: MessagingError) -> None:
        waiting = self._waiting.pop(number, None)
        self._late.pop(number, None)
        if waiting is not None and not waiting.result.done():
            waiting.result.set_exception(error)
        self._tell_idle()

    def expire(self, now_s: float) -> int:
        """End the waits whose time is over; how many."""
        over = [number for number, waiting in self._waiting.items() if waiting.deadline_s < now_s]
        for number in over:
            waiting = self._waiting.pop(number)
            self._is_late(number, waiting)
            if not waiting.result.done():
                waiting.result.set_exception(LateAnswer(self._broker))
        if over:
            self._tell_idle()
        return len(over)

    def lose(self, text: str, *, sent_up_to: int) -> int:
        """No answer comes any more: end all waits; how many. Numbers up to `sent_up_to` may have been done."""
        waiting, self._waiting = self._waiting, {}
        self._late.clear()
        for number, call in waiting.items():
            if not call.result.done():
                call.result.set_exception(BrokerUnavailable(text, maybe_done=number <= sent_up_to))
        self._tell_idle()
        return len(waiting)

    async def idle(self) -> None:
        """Return when no answer is to come any more; for one who waits."""
        while self._waiting or self._late:
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle

    def _tell_idle(self) -> None:
        if self._idle is not None and not self._idle.done() and not self._waiting and not self._late:
            self._idle.set_result(None)
