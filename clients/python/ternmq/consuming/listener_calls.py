"""Calls a push consumer's listener, observed by the hooks."""

import logging
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import NamedTuple

from ternmq.hooks import ConsumeResult, Consuming, HookChain
from ternmq.messages.message_view import MessageView
from ternmq.process.user_function import UserFunction
from ternmq.times.durations import check_span
from ternmq_common.limits import INVISIBLE_MAX_MS

logger = logging.getLogger(__name__)

Listener = Callable[[MessageView], Awaitable[ConsumeResult | None] | ConsumeResult | None]

DELAY_MAX = timedelta(milliseconds=INVISIBLE_MAX_MS)
SUSPEND_MIN = timedelta(milliseconds=50)
# Servers count in milliseconds, and 0 would mean the group's backoff.
_AT_ONCE_S = 0.001


class RetryLater(Exception):
    """Raised by a listener to get the message again after `delay`, instead of the group's backoff.

    It counts as an attempt, like every failure, and is not logged as an error. ValueError for a delay below zero or
    above 12 hours. Where order is kept, the followers of the message wait too.
    """

    def __init__(self, delay: timedelta) -> None:
        if not timedelta(0) <= check_span("delay", delay) <= DELAY_MAX:
            raise ValueError(f"delay={delay} must be from 0 to 12 hours")
        super().__init__(delay)
        self.delay = delay


class Suspend(Exception):
    """Raised by a listener of a `LitePushConsumer` to get no message of the lite topic for `delay`.

    Its message is the first one then. It does not count as an attempt, and is not logged as an error. ValueError for a
    delay below 50 ms or above 12 hours. For other listeners it is a failure like any other.
    """

    def __init__(self, delay: timedelta) -> None:
        if not SUSPEND_MIN <= check_span("delay", delay) <= DELAY_MAX:
            raise ValueError(f"delay={delay} must be from 50 ms to 12 hours")
        super().__init__(delay)
        self.delay = delay


class ConsumeOutcome(NamedTuple):
    """The result of a listener, and optionally after how many seconds it wants the message again, or for how many
    the lite topic is suspended."""

    result: ConsumeResult
    retry_after_s: float | None = None
    suspend_s: float | None = None


class ListenerCalls:
    """Runs one listener: coroutine functions on the event loop, plain functions in threads. `suspends`: `Suspend`
    works."""

    def __init__(
        self,
        listener: Listener,
        *,
        concurrency: int,
        hooks: HookChain,
        client_id: str,
        group: str,
        suspends: bool = False,
    ) -> None:
        self._listener = UserFunction(listener, threads=concurrency, name="ternmq-listener")
        self._hooks = hooks
        self._client_id = client_id
        self._group = group
        self._suspends = suspends
        self._running: dict[int, tuple[MessageView, float]] = {}

    async def call_listener(self, view: MessageView) -> ConsumeOutcome:
        """Call the listener; FAILURE if it says so, raises, or returns something other than a `ConsumeResult`."""
        consuming = Consuming(self._client_id, self._group, view)
        tokens = self._hooks.consume_started(consuming)
        self._running[id(consuming)] = view, time.monotonic()
        result, error, retry_after_s, suspend_s = ConsumeResult.FAILURE, None, None, None
        try:
            result = _checked_result(await self._listener(view))
        except RetryLater as later:
            retry_after_s = max(_AT_ONCE_S, later.delay.total_seconds())
            logger.debug("the listener wants %r again after %s", view, later.delay)
        except Exception as raised:
            if self._suspends and isinstance(raised, Suspend):
                suspend_s = raised.delay.total_seconds()
                logger.debug("the listener suspends lite topic %s for %s", view.lite_topic, raised.delay)
            else:
                logger.exception("the listener failed on %r", view)
                error = raised
        finally:
            del self._running[id(consuming)]
            self._hooks.consume_finished(tokens, consuming, result, error)
        return ConsumeOutcome(result, retry_after_s, suspend_s)

    def describe_running(self) -> str | None:
        """Describe which listener has not returned, from which message, and for how long; None if nothing runs. For any
        thread."""
        running = sorted(self._running.copy().values(), key=lambda each: each[1])
        if not running:
            return None
        view, since_s = running[0]
        others = f", and from {len(running) - 1} others" if len(running) > 1 else ""
        return (
            f"listener {self._listener.name} has not come back from {view!r} for "
            f"{time.monotonic() - since_s:.0f} s{others}"
        )

    def close(self) -> None:
        """Stop the threads, each after its current call, without waiting: a listener may hang."""
        self._listener.close()


def _checked_result(result: object) -> ConsumeResult:
    if result is None:
        return ConsumeResult.SUCCESS
    if isinstance(result, ConsumeResult):
        return result
    raise TypeError(f"a listener returns nothing or a ConsumeResult, not {result!r}")
