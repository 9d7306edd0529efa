"""Sends answers with messages, and gives messages back that a client does not accept.

The call keeps its answer and needs no task from then on. Messages of an answer that did not arrive whole are available
to others at once, also those that were written, since clients discard what they read of a call that did not end well.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from ternmq_common.event_loop.eager import start_eagerly
from ternmq_proxy.fronts.grpc.measured import CUT, CallMeasurement, code_name

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.fronts.grpc.calls import FramedAnswer
    from ternmq_rpc.grpc_stream.served_call import ServedCall
    from ternmq_runtime.observability.front_figures import FrontFigures
    from ternmq_runtime.observability.tracing import ActiveSpan

_log = logging.getLogger(__name__)


class AnswerDeliveries:
    """The deliveries of a front."""

    def __init__(self, figures: "FrontFigures") -> None:
        self.figures = figures
        self._giving_back: set[asyncio.Task[None]] = set()

    def start_delivery(self, served: "ServedCall", call: "Call", measured: CallMeasurement) -> "AnswerDelivery":
        """Begin the delivery of a call, within which its messages are claimed."""
        return AnswerDelivery(self, served, call, measured)

    def give_back(self, answered: "FramedAnswer") -> None:
        """Give the messages of an answer back that did not arrive."""
        task = start_eagerly(self._return_undelivered(answered), name="given back")
        if task is not None:
            self._giving_back.add(task)
            task.add_done_callback(self._giving_back.discard)

    async def _return_undelivered(self, answered: "FramedAnswer") -> None:
        try:
            await answered.return_undelivered()
        except Exception:  # noqa: BLE001 - the outermost of this task, and it logs
            _log.exception(
                "cannot give undelivered messages back; they are delivered again after their invisible duration"
            )

    async def wait_settled(self) -> None:
        """Wait until everything that did not arrive is given back."""
        if self._giving_back:
            await asyncio.wait(self._giving_back)


class AnswerDelivery:
    """One answer, from before its messages are claimed, which happens within the `with` block, until the kernel has
    them.

    `answered` is sent when the block ends well. `span` is set for a traced call that was answered with messages.
    """

    __slots__ = ("_all", "_call", "_measured", "_served", "answered", "span")

    def __init__(
        self, deliveries: AnswerDeliveries, served: "ServedCall", call: "Call", measured: CallMeasurement
    ) -> None:
        self._all = deliveries
        self._served = served
        self._call = call
        self._measured = measured
        self.answered: FramedAnswer | None = None
        self.span: ActiveSpan | None = None

    def __enter__(self) -> None:
        self._measured.is_streaming = True

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None and self.answered is not None:
            self._served.conclude_answer(self.answered.frames, self._finish_delivery)
        else:
            self._finish_delivery(whole=False)

    def _finish_delivery(self, whole: bool) -> None:
        """Finish when the kernel has the whole answer, or never will."""
        answered, room, span = self.answered, self._call.room, self.span
        if room is not None:
            room.leave_room()
        if span is not None:
            if not whole:
                span.mark_failed(CUT)
            span.end_span()
        if answered is not None and whole:
            self._all.figures.bytes_out += sum(map(len, answered.frames))
            self._measured.code = code_name(answered.code)
        elif answered is not None:
            self._all.give_back(answered)
        self._measured.end_call()
