"""Sends the acknowledgements of a push consumer, many in one request.

While one request is in flight, further acknowledgements gather; the next request takes all of them. So none waits for
others, and a busy consumer sends few and large requests.

A failed acknowledgement is repeated until it succeeds or is refused for good: the listener's work is done, and giving
up would cause it to be done twice.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from ternmq.connections.endpoints import Endpoints
from ternmq.connections.isolated_endpoints import log_level_of
from ternmq.consuming.ack_requests import ACK_ENTRIES_MAX, AckKey, RefusedAck
from ternmq.errors import ClientError
from ternmq.messages.message_view import MessageView
from ternmq_common.event_loop.background_tasks import cancel_tasks

logger = logging.getLogger(__name__)


class AckSender:
    """Gathers and sends acknowledgements, one request at a time for each endpoint and topic."""

    def __init__(
        self,
        send: Callable[[Endpoints, str, Sequence[MessageView]], Awaitable[list[RefusedAck]]],
        *,
        error_pause_s: float,
    ) -> None:
        self._send = send
        self._error_pause_s = error_pause_s
        self._pending: dict[AckKey, deque[MessageView]] = {}
        self._senders: dict[AckKey, asyncio.Task[None]] = {}

    def add_ack(self, view: MessageView) -> None:
        """Acknowledge the message soon."""
        key = AckKey(view.endpoints, view.topic)
        self._pending.setdefault(key, deque()).append(view)
        if key not in self._senders:
            self._senders[key] = asyncio.create_task(self._send_pending(key))

    async def finish_acks(self, timeout_s: float) -> None:
        """Send what is pending, for `timeout_s` at most."""
        tasks = list(self._senders.values())
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)
        await cancel_tasks(tasks)

    async def _send_pending(self, key: AckKey) -> None:
        pending = self._pending[key]
        while pending:
            views = [pending.popleft() for _ in range(min(len(pending), ACK_ENTRIES_MAX))]
            again = await self._send_batch(key, views)
            if again:
                pending.extend(again)
                await asyncio.sleep(self._error_pause_s)
        del self._senders[key]

    async def _send_batch(self, key: AckKey, views: list[MessageView]) -> list[MessageView]:
        """Acknowledge the messages; return those that have to be repeated."""
        try:
            refused = await self._send(key.endpoints, key.topic, views)
        except ClientError as error:
            refused = [(view, error) for view in views]
        except Exception:
            logger.exception("acknowledging failed")
            return views
        if refused:
            first = refused[0][1]
            logger.log(log_level_of(first), "%d acknowledgements failed, the first: %s", len(refused), first)
        return [view for view, refusal in refused if refusal.retryable]
