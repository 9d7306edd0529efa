"""Sheds sends that are more than can be done, before they are looked at (`quotas/shedding.py` decides).

Delay       the loop's own lateness: a timer that is due every few milliseconds, and how late it comes.
Refusals    are answered after a pause, all of a time by one timer, so that clients that come again at once do not take
            what the others need.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from ternmq_common.retry_hint import retry_hint
from ternmq_protos.v2 import definition_pb2
from ternmq_protos.v2.service_pb2 import SendMessageResponse
from ternmq_proxy.activities.status import status
from ternmq_proxy.quotas.shedding import Shedder

if TYPE_CHECKING:
    from ternmq_rpc.grpc_stream.served_call import ServedCall

_log = logging.getLogger(__name__)
_PROBE_S = 0.005
_PAUSE_S = 0.04
_AGAIN_S = 0.2


class Overload:
    """Of one front, from `start` to `stop`. `target_ms` is the delay from which on sends are refused."""

    def __init__(self, target_ms: int) -> None:
        self._loop = asyncio.get_running_loop()
        self.shedder = Shedder(target_ms / 1000, self._loop.time())
        text = f"the server has more to do than it can; {retry_hint(_AGAIN_S)}"
        self.status = status(definition_pb2.TOO_MANY_REQUESTS, text)
        self._answer = SendMessageResponse(status=self.status).SerializeToString()
        self._timer: asyncio.TimerHandle | None = None
        self._pausing: list[ServedCall] = []
        self._was_shedding = False

    def start(self) -> None:
        """Begin to look at the delay."""
        self._timer = self._loop.call_at(self._loop.time() + _PROBE_S, self._probe, self._loop.time() + _PROBE_S)

    def stop(self) -> None:
        """Answer what waits."""
        if self._timer is not None:
            self._timer.cancel()
        self._answer_all()

    @property
    def is_shedding(self) -> bool:
        """Whether sends may be refused now."""
        return self.shedder.limit is not None

    def refuse(self, call: "ServedCall") -> None:
        """Answer the call, which is served without a task, after a pause."""
        if not self._pausing:
            self._loop.call_later(_PAUSE_S, self._answer_all)
        self._pausing.append(call)

    async def pause(self) -> None:
        """As long as a call that is refused waits."""
        await asyncio.sleep(_PAUSE_S)

    def _answer_all(self) -> None:
        calls, self._pausing = self._pausing, []
        for call in calls:
            call.answer(self._answer)

    def _probe(self, due: float) -> None:
        now = self._loop.time()
        shedder = self.shedder
        shedder.observe(max(0.0, now - due), now)
        if self.is_shedding is not self._was_shedding:
            self._was_shedding = self.is_shedding
            self._say()
        self._timer = self._loop.call_at(now + _PROBE_S, self._probe, now + _PROBE_S)

    def _say(self) -> None:
        if self.is_shedding:
            _log.warning(
                "overload: requests wait more than %g ms; sends are refused beyond %d at a time (overload_delay_ms)",
                self.shedder.target_s * 1000, self.shedder.limit,
            )  # fmt: skip
        else:
            _log.info("the overload is over; %d sends were refused since the start", self.shedder.refused)
