"""Calls the user's `on_connection` when a server is connected, lost, and connected again.

    def on_connection(event: ternmq.ConnectionEvent) -> None:
        gauge.labels(event.endpoint).set(event.state is ternmq.ConnectionState.CONNECTED)

    Producer("127.0.0.1:8081", on_connection=on_connection)

When      at the first handshake with each server, at the first failure after that, and when it answers again. There are
          no events for servers that no route names any more, nor for the client's own `close`
Listener  a plain or a coroutine function on the event loop; `ternmq.blocking` calls a plain one in a thread, where it
          may block. One event at a time, in their order, so that the last one is the current state
Failures  the first exception of a listener is logged, further ones at debug level; none has another effect
"""

import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from ternmq.errors import ClientError
from ternmq_common.event_loop.background_tasks import BackgroundTasks

if TYPE_CHECKING:
    import asyncio

logger = logging.getLogger(__name__)

# A listener that hangs must not make memory grow while a client is connected and lost again: the oldest are dropped.
WAITING_EVENTS_MAX = 1000


class ConnectionState(Enum):
    """Whether a server is connected or lost."""

    CONNECTED = "connected"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class ConnectionEvent:
    """One change. `endpoint` is `host:port`, or several separated by `;`; `error` is why a connection was lost: a
    `TransportError`, or `Unauthorized` if the server answers but does not accept the credentials any more."""

    client_id: str
    endpoint: str
    state: ConnectionState
    error: ClientError | None = None


ConnectionListener: TypeAlias = Callable[[ConnectionEvent], Awaitable[None] | None]


class ConnectionEvents:
    """Calls a client's listener; `spawn` runs the task for it. At most `waiting_max` events wait, the latest ones."""

    def __init__(
        self,
        listener: ConnectionListener | None,
        tasks: BackgroundTasks,
        *,
        waiting_max: int = WAITING_EVENTS_MAX,
    ) -> None:
        if listener is not None and not callable(listener):
            raise TypeError(f"on_connection is a function that gets a ConnectionEvent, which {listener!r} is not")
        self._listener = listener
        self._tasks = tasks
        self._waiting: deque[ConnectionEvent] = deque(maxlen=waiting_max)
        self._calling: asyncio.Task[None] | None = None
        self._has_failed = False

    def add_event(self, event: ConnectionEvent) -> None:
        """Have the listener called soon, but never within the call that noticed the change."""
        if self._listener is None:
            return
        self._waiting.append(event)
        if self._calling is None or self._calling.done():
            self._calling = self._tasks.start(self._call_listener(self._listener))

    async def _call_listener(self, listener: ConnectionListener) -> None:
        while self._waiting:
            event = self._waiting.popleft()
            try:
                result = listener(event)
                if inspect.isawaitable(result):
                    await result
            except Exception:
                level = logging.DEBUG if self._has_failed else logging.ERROR
                self._has_failed = True
                logger.log(level, "%s: on_connection failed", event.client_id, exc_info=True)
