"""Calling a push consumer's listener, watched by the hooks."""

import logging
from collections.abc import Awaitable, Callable

from ternmq.calling import UserFunction
from ternmq.hooks import ConsumeResult, Consuming, HookChain
from ternmq.message_view import MessageView

logger = logging.getLogger(__name__)

Listener = Callable[[MessageView], Awaitable[ConsumeResult | None] | ConsumeResult | None]


class ListenerCalls:
    """Runs one listener: coroutine functions on the event loop, plain functions in threads."""

    def __init__(self, listener: Listener, *, concurrency: int, hooks: HookChain, client_id: str, group: str) -> None:
        self._listener = UserFunction(listener, threads=concurrency, name="ternmq-listener")
        self._hooks = hooks
        self._client_id = client_id
        self._group = group

    async def consume(self, view: MessageView) -> ConsumeResult:
        """FAILURE if the listener says so, raises, or returns something that is no `ConsumeResult`."""
        consuming = Consuming(self._client_id, self._group, view)
        tokens = self._hooks.consume_started(consuming)
        result, error = ConsumeResult.FAILURE, None
        try:
            result = _checked_result(await self._listener(view))
        except Exception as raised:
            logger.exception("the listener failed on %r", view)
            error = raised
        finally:
            self._hooks.consume_finished(tokens, consuming, result, error)
        return result

    def close(self) -> None:
        """Threads end after the call that they are in; nobody waits for a listener that hangs."""
        self._listener.close()


def _checked_result(result: object) -> ConsumeResult:
    if result is None:
        return ConsumeResult.SUCCESS
    if isinstance(result, ConsumeResult):
        return result
    raise TypeError(f"a listener returns nothing or a ConsumeResult, not {result!r}")
