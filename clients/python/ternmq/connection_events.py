"""Telling the user when a server is connected, lost, and back.

    def on_connection(event: ternmq.ConnectionEvent) -> None:
        gauge.labels(event.endpoint).set(event.state is ternmq.ConnectionState.CONNECTED)

    Producer("127.0.0.1:8081", on_connection=on_connection)

When      at the first handshake with each server, at the first failure after it was well, and when it answers again;
          a server that the routes name no more isn't spoken of, nor what the client's own `close` ends
Listener  a plain or a coroutine function on the event loop; `ternmq.blocking` calls a plain one in a thread, where it
          may block. One event at a time, in their order, so that the last one is how things are
Failures  the first exception of a listener is logged, further ones are for debugging only; none changes anything else
"""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from ternmq.errors import ClientError

logger = logging.getLogger(__name__)

# A listener that hangs must not make a client grow that is connected and lost again and again: the oldest are dropped.
WAITING_EVENTS_MAX = 1000


class ConnectionState(Enum):
    """What became of the connection to a server."""

    CONNECTED = "connected"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class ConnectionEvent:
    """One change. `endpoint` is `host:port`, or several with `;` between; `error` is why a connection was lost: a
    `TransportError`, or `Unauthorized` where the server is there and does not take the credentials any more."""

    client_id: str
    endpoint: str
    state: ConnectionState
    error: ClientError | None = None


ConnectionListener: TypeAlias = Callable[[ConnectionEvent], Awaitable[None] | None]


class ConnectionEvents:
    """Calls a client's listener; `spawn` runs what waits for it. The latest `waiting_max` events wait."""

    def __init__(
        self,
        listener: ConnectionListener | None,
        spawn: Callable[[Coroutine[None, None, None]], asyncio.Task[None]],
        *,
        waiting_max: int = WAITING_EVENTS_MAX,
    ) -> None:
        if listener is not None and not callable(listener):
            raise TypeError(f"on_connection is a function that gets a ConnectionEvent, which {listener!r} is not")
        self._listener = listener
        self._spawn = spawn
        self._waiting: deque[ConnectionEvent] = deque(maxlen=waiting_max)
        self._telling: asyncio.Task[None] | None = None
        self._has_failed = False

    def tell(self, event: ConnectionEvent) -> None:
        """Have the listener called soon, never from within the call that found the change."""
        if self._listener is None:
            return
        self._waiting.append(event)
        if self._telling is None or self._telling.done():
            self._telling = self._spawn(self._tell_all(self._listener))

    async def _tell_all(self, listener: ConnectionListener) -> None:
        while self._waiting:
            event = self._waiting.popleft()
            try:
                told = listener(event)
                if inspect.isawaitable(told):
                    await told
            except Exception:
                level = logging.DEBUG if self._has_failed else logging.ERROR
                self._has_failed = True
                logger.log(level, "%s: on_connection failed", event.client_id, exc_info=True)
