"""The server's side of one Telemetry stream: answers to the client, and commands that nobody asked for.

grpc takes one write at a time and knows no deadline for it; a client that stopped reading would hold up whoever has
something to tell it. So writes stand in line, and a command that is not written in time counts as not sent.
"""

import asyncio
from typing import TYPE_CHECKING

from grpc import aio

if TYPE_CHECKING:
    from ternmq_protos.v2.service_pb2 import TelemetryCommand

PUSH_TIMEOUT_S = 2.0


class TelemetryStream:
    """Writes to one stream until it is closed."""

    def __init__(self, context: "aio.ServicerContext") -> None:
        self._context = context
        self._turn = asyncio.Lock()
        self._late: asyncio.Task[bool] | None = None
        self._closed = False

    async def answer(self, command: "TelemetryCommand") -> None:
        """Send a command in answer to one of the client's; raises what grpc raises."""
        async with self._turn:
            await self._context.write(command)

    async def push(self, command: "TelemetryCommand") -> bool:
        """Send a command; whether it was sent. One that is late is not taken back: the client may still get it."""
        if self._closed or self._late is not None:
            return False
        writing = asyncio.create_task(self._pushed(command))
        done, _ = await asyncio.wait({writing}, timeout=PUSH_TIMEOUT_S)
        if done:
            return writing.result()
        self._late = writing
        writing.add_done_callback(self._in_time_again)
        return False

    def close(self) -> None:
        """Nothing is sent from now on."""
        self._closed = True

    async def _pushed(self, command: "TelemetryCommand") -> bool:
        try:
            async with self._turn:
                if self._closed:
                    return False
                await self._context.write(command)
        except aio.BaseError:  # the stream broke
            return False
        return True

    def _in_time_again(self, _: "asyncio.Task[bool]") -> None:
        self._late = None
