"""Sheds sends that are more than can be done, before they are looked at (`quotas/shedding.py` decides).

Delay       the loop's own lateness: a timer that is due every few milliseconds, and how late it comes.
Refusals    are answered after a pause, all of a time by one timer, so that clients that come again at once do not take
            what the others need.
"""

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from ternmq_common.retry_hint import retry_hint
from ternmq_protos.v2 import definition_pb2
from ternmq_protos.v2.service_pb2 import SendMessageResponse
from ternmq_proxy.activities.status import status
from ternmq_proxy.call import Call
from ternmq_proxy.fronts.measured import code_name
from ternmq_proxy.quotas.shedding import Shedder
from ternmq_rpc.grpc_stream.served_call import ServedMethod

if TYPE_CHECKING:
    from ternmq_rpc.grpc_stream.served_call import ServedCall
    from ternmq_runtime.observability.figures import FrontFigures

_log = logging.getLogger(__name__)
# The call that is refused: it makes work for all, and its client repeats it.
_NAME = "SendMessage"
_CODE = code_name(definition_pb2.TOO_MANY_REQUESTS)
_PROBE_S = 0.005
_PAUSE_S = 0.04
_AGAIN_S = 0.2


def _weighed(call: "ServedCall") -> str:
    """Whom a send is counted for: its user, or, where nobody has to say who he is, its connection, which costs more to
    have than a client's id."""
    note = call.note
    return note.user if isinstance(note, Call) and note.user else call.peer


class Overload:
    """Of one front, from `start` to `stop`. `target_ms` is the delay from which on sends are refused."""

    def __init__(self, target_ms: int, figures: "FrontFigures") -> None:
        self._loop = asyncio.get_running_loop()
        self.shedder = Shedder(target_ms / 1000, self._loop.time())
        self._figures = figures
        text = f"the server has more to do than it can; {retry_hint(_AGAIN_S)}"
        refusal = status(definition_pb2.TOO_MANY_REQUESTS, text)
        self._answer = SendMessageResponse(status=refusal).SerializeToString()
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

    def guarded(self, method: ServedMethod) -> ServedMethod:
        """The same for sends, of which those that are too many are refused."""
        shedder, begin = self.shedder, method.at_once

        def at_once(call: "ServedCall", data: bytes) -> bool:
            if begin is None:
                return False
            caller = _weighed(call)
            if not shedder.enters(caller):
                self._refuse(call, data)
                return True
            call.note_end(partial(shedder.leaves, caller))
            if begin(call, data):
                return True
            call.note_end(None)
            shedder.leaves(caller)  # and enters again, in a task
            return False

        async def serve(call: "ServedCall") -> None:
            caller = _weighed(call)
            if not shedder.enters(caller):
                self._figures.called(_NAME, _CODE, 0.0)
                await asyncio.sleep(_PAUSE_S)
                await call.finish(self._answer)
                return
            try:
                await method.serve(call)
            finally:
                shedder.leaves(caller)

        return ServedMethod(serve, method.talks, at_once)

    def _refuse(self, call: "ServedCall", data: bytes) -> None:
        """Answer the call, which is served without a task, after a pause."""
        self._figures.bytes_in += len(data)
        self._figures.called(_NAME, _CODE, 0.0)
        if not self._pausing:
            self._loop.call_later(_PAUSE_S, self._answer_all)
        self._pausing.append(call)

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
