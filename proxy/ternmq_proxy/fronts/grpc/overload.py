"""Refuses sends that the server can't keep up with, before they are parsed (`quotas/shedding.py` decides).

Wait        the age of the longest unread request of all connections, or how late the loop runs a timer of a few
            milliseconds, which shows when many connections want a little each.
Refusals    are answered a little later than the last call that is served, and at a limited rate, so that clients
            that retry at once don't take what the others need.
Rest        there is no timer while nothing is sent.
"""

import asyncio
import logging
import time
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from ternmq_common.errors import ErrorCode
from ternmq_common.retry_hint import retry_hint
from ternmq_protos.v2.service_pb2 import SendMessageResponse
from ternmq_proxy.fronts.grpc.activities.status import make_status
from ternmq_proxy.fronts.grpc.measured import code_name
from ternmq_proxy.quotas.shedding import SendShedder
from ternmq_rpc.grpc_stream.served_call import ServedMethod

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_rpc.grpc_stream.served_call import ServedCall
    from ternmq_rpc.serving.budgets import BudgetLedger
    from ternmq_runtime.observability.front_figures import FrontFigures

_log = logging.getLogger(__name__)
# The call that is refused: it makes most work, and its client repeats it.
_NAME: Final = "SendMessage"
_CODE: Final = code_name(ErrorCode.TOO_MANY_REQUESTS)
_PROBE_S: Final = 0.005
_REST_AFTER_S: Final = 1.0
_PAUSE_S: Final = 0.04
_ANSWER_EVERY_S: Final = 0.01
# About a fifth of a core: refusing a small send saves its storing, but most of its cost is elsewhere.
_ANSWERS_PER_S: Final = 4_000
_AGAIN_S: Final = 0.2


class OverloadGuard:
    """Guards one server of calls, whose `ledger` it watches, until `stop`. `target_ms` is the wait from which sends are
    refused."""

    def __init__(
        self,
        target_ms: int,
        ledger: "BudgetLedger",
        figures: "FrontFigures",
        now_s: "Callable[[], float]" = time.monotonic,
    ) -> None:
        """`now_s` is the machine's clock; the loop's own may be a turn late."""
        self._loop = asyncio.get_running_loop()
        self._now_s = now_s
        self.shedder = SendShedder(target_ms / 1000, now_s())
        self._ledger = ledger
        self._figures = figures
        text = f"the server has more to do than it can; {retry_hint(_AGAIN_S)}"
        refusal = make_status(ErrorCode.TOO_MANY_REQUESTS, text)
        self._answer = SendMessageResponse(status=refusal).SerializeToString()
        self._probe_at = 0.0
        self._looked_at = 0.0
        self._sends = 0
        self._rests_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        self._was_shedding = False
        self._refused: list[tuple[float, int, ServedCall]] = []  # a heap by the time of the answer

    def stop(self) -> None:
        """Answer the calls that were refused."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for _, _, call in self._refused:
            call.answer_directly(self._answer)
        self._refused.clear()

    @property
    def is_shedding(self) -> bool:
        """Whether sends may be refused now."""
        return self.shedder.is_shedding

    @property
    def is_watching(self) -> bool:
        """Whether the wait is measured, since there were sends lately."""
        return self._timer is not None

    def guard_method(self, method: ServedMethod) -> ServedMethod:
        """Return the method of sends with the guard before it."""
        begin = method.serve_directly

        def serve_directly(call: "ServedCall", data: bytes) -> bool:
            self._sends += 1
            if self._timer is None:
                self._start_watching()
            if self.shedder.is_shedding and self.shedder.refuses_send(self._waited_s(call)):
                self._refuse_call(call, data)
                return True
            return begin is not None and begin(call, data)

        return ServedMethod(method.serve, method.is_conversation, serve_directly)

    def _waited_s(self, call: "ServedCall") -> float:
        """Return how long a call has waited. A call that is served in this turn was there when the turn began."""
        return self._now_s() - min(call.received_at, self._looked_at)

    def _refuse_call(self, call: "ServedCall", data: bytes) -> None:
        """Answer the call after a pause; it has no task."""
        self._figures.bytes_in += len(data)
        self._figures.record_call(_NAME, _CODE, 0.0)
        if not self._refused:
            self._loop.call_later(_ANSWER_EVERY_S, self._answer_refused)
        answer_at = call.received_at + self.shedder.target_s + _PAUSE_S
        heappush(self._refused, (answer_at, self.shedder.refused, call))

    def _answer_refused(self) -> None:
        """Answer the refused calls that are due, as far as the rate allows."""
        refused, now = self._refused, self._now_s()
        for _ in range(int(_ANSWERS_PER_S * _ANSWER_EVERY_S)):
            if not refused or refused[0][0] > now:
                break
            heappop(refused)[2].answer_directly(self._answer)
        if refused:
            self._loop.call_later(_ANSWER_EVERY_S, self._answer_refused)

    # --- the wait

    def _start_watching(self) -> None:
        """Start to measure the wait."""
        now = self._now_s()
        self.shedder.start_watching(now)
        self._rests_at = now + _REST_AFTER_S
        self._sends = 0
        self._schedule_probe(now)

    def _schedule_probe(self, now: float) -> None:
        self._looked_at = now
        self._probe_at = now + _PROBE_S
        self._timer = None if self._stopped else self._loop.call_later(_PROBE_S, self._probe_wait)

    def _probe_wait(self) -> None:
        now = self._now_s()
        shedder = self.shedder
        shedder.observe_wait(max(now - self._probe_at, self._ledger.longest_behind_s(now)), now)
        if shedder.is_shedding is not self._was_shedding:
            self._was_shedding = shedder.is_shedding
            self._log_state()
        if now >= self._rests_at:
            if not self._sends and not shedder.is_shedding:
                self._timer = None
                return
            self._sends = 0
            self._rests_at = now + _REST_AFTER_S
        self._schedule_probe(now)

    def _log_state(self) -> None:
        if self.is_shedding:
            text = "overload: requests wait more than %g ms; sends that do are refused (overload_delay_ms)"
            _log.warning(text, self.shedder.target_s * 1000)
        else:
            _log.info("overload ended; %d sends were refused since the start", self.shedder.refused)
