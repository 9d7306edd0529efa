"""Calling a push consumer's listener, watched by the hooks."""

import logging
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import NamedTuple

from ternmq.calling import UserFunction
from ternmq.durations import span
from ternmq.hooks import ConsumeResult, Consuming, HookChain
from ternmq.message_view import MessageView
from ternmq_common.limits import INVISIBLE_MAX_MS

logger = logging.getLogger(__name__)

Listener = Callable[[MessageView], Awaitable[ConsumeResult | None] | ConsumeResult | None]

DELAY_MAX = timedelta(milliseconds=INVISIBLE_MAX_MS)
SUSPEND_MIN = timedelta(milliseconds=50)
# Servers count in milliseconds, and take none for "as the group's back-off says".
_AT_ONCE_S = 0.001


class RetryLater(Exception):
    """A listener raises it to have the message again after `delay`, instead of the group's back-off.

    It counts as an attempt, as every failure does, and is not logged as an error. ValueError for a delay below zero or
    above 12 hours. Where order is kept, the followers of the message wait with it.
    """

    def __init__(self, delay: timedelta) -> None:
        if not timedelta(0) <= span("delay", delay) <= DELAY_MAX:
            raise ValueError(f"delay={delay} must be from 0 to 12 hours")
        super().__init__(delay)
        self.delay = delay


class Suspend(Exception):
    """A listener of a `LitePushConsumer` raises it to have no message of the lite topic for `delay`.

    Its message comes first again then. It counts as no attempt, and is not logged as an error. ValueError for a delay
    below 50 ms or above 12 hours. To other listeners it is a failure as any other.
    """

    def __init__(self, delay: timedelta) -> None:
        if not SUSPEND_MIN <= span("delay", delay) <= DELAY_MAX:
            raise ValueError(f"delay={delay} must be from 50 ms to 12 hours")
        super().__init__(delay)
        self.delay = delay


class Consumed(NamedTuple):
    """What became of a message, and if the listener said so, after how many seconds it is wanted again, or for how many
    its lite topic is to rest."""

    result: ConsumeResult
    retry_after_s: float | None = None
    suspend_s: float | None = None


class ListenerCalls:
    """Runs one listener: coroutine functions on the event loop, plain functions in threads. `suspends`: it can."""

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

    async def consume(self, view: MessageView) -> Consumed:
        """FAILURE if the listener says so, raises, or returns something that is no `ConsumeResult`."""
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
                logger.debug("the listener has lite topic %s rest for %s", view.lite_topic, raised.delay)
            else:
                logger.exception("the listener failed on %r", view)
                error = raised
        finally:
            del self._running[id(consuming)]
            self._hooks.consume_finished(tokens, consuming, result, error)
        return Consumed(result, retry_after_s, suspend_s)

    def described(self) -> str | None:
        """Which listener has not come back, from which message, and for how long; None if nothing runs. May be asked in
        any thread."""
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
        """Threads end after the call that they are in; nobody waits for a listener that hangs."""
        self._listener.close()


def _checked_result(result: object) -> ConsumeResult:
    if result is None:
        return ConsumeResult.SUCCESS
    if isinstance(result, ConsumeResult):
        return result
    raise TypeError(f"a listener returns nothing or a ConsumeResult, not {result!r}")
