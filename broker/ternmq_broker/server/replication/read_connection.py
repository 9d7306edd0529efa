"""One proxy's stream to a follower: pulls of the copy and nothing else, in the frames of `Exchange`.

It has a gRPC method of its own, since a proxy that looks for the leader must not be welcomed here. The follower greets
as SHARD/REPLICA. What it can't answer, the proxy reads from the leader.
"""

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ternmq_broker.server.call_methods import compile_filter, failure_of
from ternmq_broker.server.proxy_connection import ANSWERS_BYTES_MAX, greet_proxy
from ternmq_broker.server.replication.copy_reads import not_readable_here
from ternmq_common.filters.filter_cache import FilterCache
from ternmq_common.shard import shard_frames
from ternmq_common.shard.calls import CALLS
from ternmq_common.shard.outbox import FrameOutbox
from ternmq_common.shard.shard_frames import PeerGreeting
from ternmq_runtime.observability.figures import MessageCounts
from ternmq_runtime.observability.tracing import NOTHING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractContextManager

    from ternmq_broker.server.replication.copy_reads import CopyReads
    from ternmq_common.shard.model import PulledMessages
    from ternmq_common.shard.shard_frames import FramePiece

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
    filters: FilterCache = field(default_factory=FilterCache)
    counts: MessageCounts = field(default_factory=MessageCounts)

    async def answer_pull(self, asked: "FramePiece") -> "PulledMessages":
        """Answer a pull. MessagingError, NoFrame."""
        if asked.what != _PULL.name:
            raise not_readable_here("it follows, and answers pulls only")
        queue, offset, passing, limit, _, _ = _PULL.decode_arguments(asked)
        chosen = await compile_filter(self.filters, passing)
        with self.continued(asked.traceparent) if asked.traceparent else NOTHING:
            pulled = await self.reads().pull_messages(queue, offset, chosen, limit)
        self.counts.delivered.add_count(queue.topic, len(pulled.messages))
        return pulled


class ReadConnection:
    """Serves one stream until it ends; a `Connection`, as `ProxyConnection` is."""

    def __init__(self, service: ReadService, write: "Callable[[bytes], Awaitable[object]]") -> None:
        self._service = service
        self._write = write
        self._outbox: FrameOutbox[None] = FrameOutbox()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self.name = ""
        self.frames = 0

    async def write_forever(self) -> None:
        """Write what is queued; ends when it is cancelled, or when `write` raises."""
        while True:
            await self._write((await self._outbox.take_batch()).frame)

    async def serve_frame(self, data: bytes) -> None:
        """Serve one frame. NoFrame: it is invalid."""
        self.frames += 1
        for piece in shard_frames.decode_frame(data):
            if piece.what == shard_frames.HELLO.what:
                self._read_hello(piece)
            elif piece.what == shard_frames.PING.what:
                self._send_piece(shard_frames.PONG.encode_note(None))
            elif piece.what == shard_frames.CANCEL.what:
                if piece.number in self._tasks:
                    self._tasks[piece.number].cancel()
            elif piece.number:
                self._start_call(piece)
        if self._outbox.bytes > ANSWERS_BYTES_MAX:
            # It sends calls faster than it reads answers.
            await self._outbox.wait_until_drained()

    def _read_hello(self, piece: "FramePiece") -> None:
        self.name, welcome = greet_proxy(piece, PeerGreeting(self._service.name, self._service.version))
        self._send_piece(welcome)

    def _start_call(self, asked: "FramePiece") -> None:
        task = asyncio.create_task(self._answer_call(asked), name="read of the copy")
        self._tasks[asked.number] = task
        task.add_done_callback(lambda _: self._tasks.pop(asked.number, None))

    async def _answer_call(self, asked: "FramePiece") -> None:
        try:
            async with asyncio.timeout(asked.timeout_ms / 1000 if asked.timeout_ms else None):
                answer = shard_frames.encode_piece(
                    shard_frames.ANSWER, asked.number, await self._service.answer_pull(asked)
                )
        except Exception as error:  # noqa: BLE001 - the outermost of this call; `failure_of` logs
            answer = shard_frames.FAILED.encode_note(failure_of(asked.what, error), asked.number)
        self._send_piece(answer)

    def _send_piece(self, piece: bytes) -> None:
        self._outbox.add_piece(piece, None)

    async def wait_until_answered(self) -> None:
        """Return when all calls are answered, and the answers are written."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._outbox.wait_until_drained()

    def close(self) -> None:
        """Clean up after the stream has ended."""
        self._outbox.clear()
        for task in self._tasks.values():
            task.cancel()
