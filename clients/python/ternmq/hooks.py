"""Hooks by which observers see a client's messages; `ternmq.otel` creates traces from them.

    class Count(ternmq.Hooks):
        def send_finished(self, token, sending, outcomes):
            print(sending.topic, len(outcomes))

    Producer(..., hooks=[Count()])

Hooks are called on the event loop and must not block. An exception in a hook is logged and has no other effect.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, ParamSpec

from ternmq.errors import ClientError
from ternmq.messages.message import Message, SendReceipt
from ternmq.messages.message_view import MessageView

if TYPE_CHECKING:
    from ternmq.connections.endpoints import Endpoints

logger = logging.getLogger(__name__)

P = ParamSpec("P")


class ConsumeResult(Enum):
    """The result of a listener for a message."""

    SUCCESS = "success"
    FAILURE = "failure"


@dataclass(slots=True)
class Sending:
    """One SendMessage request with all its attempts.

    `trace_context` is set by a hook and carried by every message: the text of a W3C `traceparent`. A request of a
    transaction is `transactional` and has one message; the transaction's end is another request. `recovery` is after
    how long the server may ask about it. Delays count from `started_ns` (since 1970), so that all attempts name the
    same time. `endpoints` is the server that was tried last.
    """

    client_id: str
    topic: str
    messages: Sequence[Message]
    message_ids: Sequence[str]
    trace_context: str | None = field(default=None)
    transactional: bool = False
    recovery: timedelta | None = None
    started_ns: int = field(default_factory=time.time_ns)
    endpoints: "Endpoints | None" = None


@dataclass(frozen=True, slots=True)
class Consuming:
    """One call of a push consumer's listener."""

    client_id: str
    group: str
    view: MessageView


class Hooks:
    """Events that can be observed; every method does nothing until it is overridden.

    What a `..._started` method returns is passed to its `..._finished` counterpart as `token`.
    """

    def send_started(self, sending: Sending) -> object:
        """A request is about to be built."""

    def send_finished(self, token: object, sending: Sending, outcomes: Sequence[SendReceipt | ClientError]) -> None:
        """Every message of the request has its outcome."""

    def delivered(self, client_id: str, group: str, views: Sequence[MessageView]) -> None:
        """A consumer received messages."""

    def lite_topic_dropped(self, client_id: str, group: str, lite_topic: str) -> None:
        """A consumer lost its subscription to a lite topic: nothing was sent to it for long, or another client of an
        exclusive group has taken it over."""

    def consume_started(self, consuming: Consuming) -> object:
        """A listener is about to be called; in the context in which it will run."""

    def consume_finished(
        self, token: object, consuming: Consuming, result: ConsumeResult, error: BaseException | None
    ) -> None:
        """The listener returned, or raised `error`; in the context of `consume_started`."""


class HookChain:
    """Calls all hooks, the finishing ones in reverse order, so that they nest."""

    def __init__(self, hooks: Sequence[Hooks]) -> None:
        self._hooks = tuple(hooks)

    def send_started(self, sending: Sending) -> list[object]:
        return [_call_hook(hook.send_started, sending) for hook in self._hooks]

    def send_finished(
        self, tokens: Sequence[object], sending: Sending, outcomes: Sequence[SendReceipt | ClientError]
    ) -> None:
        for hook, token in zip(reversed(self._hooks), reversed(tokens), strict=True):
            _call_hook(hook.send_finished, token, sending, outcomes)

    def delivered(self, client_id: str, group: str, views: Sequence[MessageView]) -> None:
        for hook in self._hooks:
            _call_hook(hook.delivered, client_id, group, views)

    def lite_topic_dropped(self, client_id: str, group: str, lite_topic: str) -> None:
        for hook in self._hooks:
            _call_hook(hook.lite_topic_dropped, client_id, group, lite_topic)

    def consume_started(self, consuming: Consuming) -> list[object]:
        return [_call_hook(hook.consume_started, consuming) for hook in self._hooks]

    def consume_finished(
        self, tokens: Sequence[object], consuming: Consuming, result: ConsumeResult, error: BaseException | None
    ) -> None:
        for hook, token in zip(reversed(self._hooks), reversed(tokens), strict=True):
            _call_hook(hook.consume_finished, token, consuming, result, error)


def _call_hook(call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> object:
    """Call a hook and log its error: an observer that fails must not cost a message."""
    try:
        return call(*args, **kwargs)
    except Exception:
        logger.exception("a hook failed")
        return None
