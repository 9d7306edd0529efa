"""Gathers sends that no coroutine waits for: those of a turn of the event loop go to their broker as one call.

Each caller gets its own outcome. Sends that the broker did not begin are repeated separately: at the same broker when
it is back, or at another one.
"""

from typing import TYPE_CHECKING, Final, NamedTuple, cast

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.event_loop.callbacks import call_back
from ternmq_common.event_loop.turn_end import turn_end
from ternmq_common.shard.model import AppendedMessage
from ternmq_proxy.message_service.cluster.background_calls import BackgroundCalls
from ternmq_proxy.message_service.cluster.broker_choice import is_broker_s_failure
from ternmq_proxy.message_service.cluster.broker_links.calls import BrokerUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ternmq_common.shard.model import AppendOutcome, NewMessage, Placed, QueueRef, Stored
    from ternmq_protos.v2 import definition_pb2
    from ternmq_proxy.message_service.cluster.broker_links.links import BrokerLinks
    from ternmq_proxy.message_service.cluster.routes import TopicRoutes

    Append = Callable[[QueueRef, Sequence[NewMessage]], Awaitable[list[AppendedMessage]]]

# Larger calls would delay others at the broker.
_BYTES_MAX: Final = 256 << 10


class _GatheredSend(NamedTuple):
    """A send; `placed` gets to know where its only message is, else `done` the queue offset of the first."""

    queue: "QueueRef"
    messages: "Sequence[NewMessage]"
    done: "Stored | None"
    placed: "Placed | None" = None

    def succeed(self, first: int, log_offset: int, broker: str) -> None:
        """Report where it was stored."""
        if self.placed is not None:
            message_id = self.messages[0].message_id
            call_back(self.placed, AppendedMessage(message_id, first, broker=broker, log_offset=log_offset), None)
        elif self.done is not None:
            call_back(self.done, first, None)

    def fail(self, error: Exception) -> None:
        """Report the error."""
        if self.placed is not None:
            call_back(self.placed, None, error)
        elif self.done is not None:
            call_back(self.done, 0, error)


class GatheredSends:
    """Gathers sends. `alone` makes a single send, wherever that is possible."""

    def __init__(self, links: "BrokerLinks", routes: "TopicRoutes", alone: "Append") -> None:
        self._links = links
        self._routes = routes
        self._alone = alone
        self._came: dict[str, list[_GatheredSend]] = {}
        self._bytes = 0
        self._background_calls = BackgroundCalls()

    def append_nowait(self, queue: "QueueRef", messages: "Sequence[NewMessage]", done: "Stored") -> None:
        """See `MessageService`."""
        self._add_send(_GatheredSend(queue, messages, done))

    def append_one_nowait(self, queue: "QueueRef", message: "NewMessage", placed: "Placed") -> None:
        """See `MessageService`."""
        self._add_send(_GatheredSend(queue, (message,), None, placed))

    def _add_send(self, send: _GatheredSend) -> None:
        if not self._came:
            turn_end().add_work(self._append_all)
        self._came.setdefault(send.queue.broker, []).append(send)
        for message in send.messages:
            self._bytes += len(message.rest)
        if self._bytes > _BYTES_MAX:
            self._append_all()

    def _append_all(self) -> None:
        came, self._came, self._bytes = self._came, {}, 0
        for broker, sends in came.items():
            self._append_gathered(broker, sends)

    def _append_gathered(self, broker: str, sends: list[_GatheredSend]) -> None:
        def take_outcomes(outcomes: "list[AppendOutcome] | None", error: Exception | None) -> None:
            if error is not None or outcomes is None:
                self._fail_sends(broker, sends, error or ValueError(f"broker {broker} has answered nothing"))
            elif len(outcomes) != len(sends):
                self._fail_sends(broker, sends, ValueError(f"broker {broker} has not answered for each send"))
            else:
                for send, outcome in zip(sends, outcomes, strict=True):
                    self._end_send(broker, send, outcome)

        try:
            self._links.require_broker(broker).append_each_nowait(
                [(send.queue, send.messages) for send in sends], take_outcomes
            )
        except Exception as error:  # noqa: BLE001 - the callers get it, and log unexpected errors
            self._fail_sends(broker, sends, error)

    def _fail_sends(self, broker: str, sends: list[_GatheredSend], error: Exception) -> None:
        if is_broker_s_failure(error):
            self._routes.send_failed(broker)
        for send in sends:
            if isinstance(error, BrokerUnavailable) and not error.maybe_done:
                self._send_alone(send)
            else:
                send.fail(error)

    def _end_send(self, broker: str, send: _GatheredSend, outcome: "AppendOutcome") -> None:
        if outcome.code == ErrorCode.OK:
            self._routes.send_worked(broker)
            send.succeed(outcome.first, outcome.log_offset, broker)
        elif outcome.code == ErrorCode.HA_NOT_AVAILABLE:
            self._send_alone(send)
        else:
            error = MessagingError(cast("definition_pb2.Code", outcome.code), outcome.text)
            if is_broker_s_failure(error):
                self._routes.send_failed(broker)
            send.fail(error)

    def _send_alone(self, send: _GatheredSend) -> None:
        def take_outcome(appended: "list[AppendedMessage] | None", error: Exception | None) -> None:
            if appended:
                send.succeed(appended[0].queue_offset, appended[0].log_offset, appended[0].broker)
            else:
                send.fail(error or ValueError(f"broker {send.queue.broker} has answered nothing"))

        self._background_calls.start(self._alone(send.queue, send.messages), take_outcome)
