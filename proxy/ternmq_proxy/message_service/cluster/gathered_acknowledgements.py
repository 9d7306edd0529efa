"""Gathers acknowledgements that no coroutine waits for: those of a turn of the event loop go to their broker as one
call for each group and topic.

Each caller gets the outcomes of its own messages. A broker acknowledges each message separately, so no message can
spoil the others of the call; an error of the call is reported to all callers.

A call that belongs to a trace is sent alone, since the broker's work is recorded in that trace.
"""

from contextvars import Context
from typing import TYPE_CHECKING, Final, NamedTuple

from ternmq_common.event_loop.callbacks import call_back
from ternmq_common.event_loop.turn_end import turn_end
from ternmq_common.shard.calls import CALLS
from ternmq_runtime.observability.tracing import current_traceparent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_common.shard.model import Acknowledged, SettleOutcome
    from ternmq_common.shard.receipt_handle import ReceiptHandle
    from ternmq_proxy.message_service.cluster.repeats import RepeatedCalls

# Larger calls would delay others at the broker.
_HANDLES_MAX: Final = 256
_ACKNOWLEDGE: Final = CALLS["acknowledge"]


class _SettlePlace(NamedTuple):
    broker: str
    group: str
    topic: str


class _GatheredHandles:
    """The acknowledgements for one place in this turn: handles, and the callbacks in order with the number of their
    handles."""

    __slots__ = ("callbacks", "handles")

    def __init__(self) -> None:
        self.handles: list[ReceiptHandle] = []
        self.callbacks: list[tuple[int, Acknowledged]] = []


class GatheredAcknowledgements:
    """Gathers acknowledgements. `repeats` calls the brokers, and repeats calls while one is away. A call with
    `handles_max` handles does not wait for more."""

    def __init__(self, repeats: "RepeatedCalls", handles_max: int = _HANDLES_MAX) -> None:
        self._handles_max = handles_max
        self._repeats = repeats
        self._came: dict[_SettlePlace, _GatheredHandles] = {}
        # The end of a turn runs in the context of its first call.
        self._no_trace = Context()

    def acknowledge_nowait(
        self, broker: str, group: str, topic: str, handles: "Sequence[ReceiptHandle]", done: "Acknowledged"
    ) -> None:
        """Acknowledge at the broker that issued the handles."""
        if current_traceparent():
            self._repeats.ask_nowait(broker, _ACKNOWLEDGE, (group, topic, handles), done)
            return
        if not self._came:
            turn_end().add_work(self._acknowledge_all)
        place = _SettlePlace(broker, group, topic)
        gathered = self._came.get(place)
        if gathered is None:
            gathered = self._came[place] = _GatheredHandles()
        gathered.handles.extend(handles)
        gathered.callbacks.append((len(handles), done))
        if len(gathered.handles) >= self._handles_max:
            del self._came[place]
            self._acknowledge_place(place, gathered)

    def _acknowledge_all(self) -> None:
        came, self._came = self._came, {}
        for place, gathered in came.items():
            self._no_trace.run(self._acknowledge_place, place, gathered)

    def _acknowledge_place(self, place: _SettlePlace, gathered: _GatheredHandles) -> None:
        def take_outcomes(outcomes: "list[SettleOutcome] | None", error: Exception | None) -> None:
            if error is None and len(outcomes or ()) != len(gathered.handles):
                error = ValueError(f"broker {place.broker} has not answered for each message")
            first = 0
            for count, done in gathered.callbacks:
                own = None if error is not None or outcomes is None else outcomes[first : first + count]
                call_back(done, own, error)
                first += count

        self._repeats.ask_nowait(
            place.broker, _ACKNOWLEDGE, (place.group, place.topic, gathered.handles), take_outcomes
        )
