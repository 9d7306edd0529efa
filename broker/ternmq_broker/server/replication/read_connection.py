"""One proxy's stream to a follower: pulls of the copy and nothing else, in the frames of `Exchange`.

It has a gRPC method of its own, since a proxy that looks for the leader must not be welcomed here. The follower greets
as SHARD/REPLICA. What it can't answer, the proxy reads from the leader.
"""

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ternmq_broker.server.answers import compiled, failure_of
from ternmq_broker.server.connection import ANSWERS_BYTES_MAX, greeted
from ternmq_broker.server.replication.copy_reads import not_here
from ternmq_common.filters import Filters
from ternmq_common.outbox import Outbox
from ternmq_common.shard import form
from ternmq_common.shard.calls import CALLS
from ternmq_common.shard.form import Greeting
from ternmq_runtime.observability.figures import MessageCounts
from ternmq_runtime.observability.tracing import NOTHING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractContextManager

    from ternmq_broker.server.replication.copy_reads import CopyReads
    from ternmq_common.model import Pulled
    from ternmq_common.shard.form import Piece

METHOD = "/ternmq.storage.v1.Storage/ReadCopy"
_PULL = CALLS["pull"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadService:
    """What all these streams share.

    `reads` returns the copy, or raises why it may not be read; `continued` makes what is done within it part of the
    trace that a proxy names.
    """

    name: str
    version: str
    reads: "Callable[[], CopyReads]"
    continued: "Callable[[str], AbstractContextManager[object]]" = lambda _: NOTHING
    filters: Filters = field(default_factory=Filters)
    counts: MessageCounts = field(default_factory=MessageCounts)

    async def pull(self, asked: "Piece") -> "Pulled":
        """Answer a pull. MessagingError, NoFrame."""
        if asked.what != _PULL.name:
            raise not_here("it follows, and answers pulls only")
        queue, offset, passing, limit, _, _ = _PULL.arguments(asked)
        chosen = await compiled(self.filters, passing)
        with self.continued(asked.traceparent) if asked.traceparent else NOTHING:
            pulled = await self.reads().pull(queue, offset, chosen, limit)
        self.counts.delivered.add(queue.topic, len(pulled.messages))
        return pulled


class ReadConnection:
    """Serves one stream until it ends; a `Connection`, as `ProxyConnection` is."""

    def __init__(self, service: ReadService, write: "Callable[[bytes], Awaitable[object]]") -> None:
        self._service = service
        self._write = write
        self._outbox: Outbox[None] = Outbox()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self.name = ""
        self.frames = 0

    async def write_forever(self) -> None:
        """Write what is queued; ends when it is cancelled, or when `write` raises."""
        while True:
            await self._write((await self._outbox.take()).frame)

    async def take(self, data: bytes) -> None:
        """Serve one frame. NoFrame: it is invalid."""
        self.frames += 1
        for piece in form.pieces(data):
            if piece.what == form.HELLO.what:
                self._greet(piece)
            elif piece.what == form.PING.what:
                self._say(form.PONG.piece(None))
            elif piece.what == form.CANCEL.what:
                if piece.number in self._tasks:
                    self._tasks[piece.number].cancel()
            elif piece.number:
                self._begin(piece)
        if self._outbox.bytes > ANSWERS_BYTES_MAX:
            # It sends calls faster than it reads answers.
            await self._outbox.drained()

    def _greet(self, piece: "Piece") -> None:
        self.name, welcome = greeted(piece, Greeting(self._service.name, self._service.version))
        self._say(welcome)

    def _begin(self, asked: "Piece") -> None:
        task = asyncio.create_task(self._answer(asked), name="read of the copy")
        self._tasks[asked.number] = task
        task.add_done_callback(lambda _: self._tasks.pop(asked.number, None))

    async def _answer(self, asked: "Piece") -> None:
        try:
            async with asyncio.timeout(asked.timeout_ms / 1000 if asked.timeout_ms else None):
                answer = form.piece(form.ANSWER, asked.number, await self._service.pull(asked))
        except Exception as error:  # noqa: BLE001 - the outermost of this call; `failure_of` logs
            answer = form.FAILED.piece(failure_of(asked.what, error), asked.number)
        self._say(answer)

    def _say(self, piece: bytes) -> None:
        self._outbox.add(piece, None)

    async def finished(self) -> None:
        """Return when all calls are answered, and the answers are written."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._outbox.drained()

    def close(self) -> None:
        """Clean up after the stream has ended."""
        self._outbox.clear()
        for task in self._tasks.values():
            task.cancel()
