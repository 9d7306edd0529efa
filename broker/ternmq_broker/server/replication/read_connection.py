"""One proxy's stream to a follower: pulls of the copy and nothing else, in the frames of `Exchange`.

It has a gRPC method of its own, since a proxy that looks for the leader must not be welcomed here. The follower greets
as SHARD/REPLICA. The proxy reads from the leader what a follower can't answer.
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
    """The state that all these streams share.

    `reads` returns the copy, or raises why it may not be read; `continued` makes what is done within it part of the
    trace that a proxy names.
    """

    name: str
    version: str
    reads: "Callable[[], CopyReads]"
    continued: "Callable[[str], AbstractContextManager[object]]" = lambda _: NOTHING
    filters: FilterCache = field(default_factory=FilterCache)
    counts: MessageCounts = field(default_factory=MessageCounts)

    async def answer_pull(self, piece: "FramePiece") -> "PulledMessages":
        """Answer a pull. MessagingError, NoFrame."""
        if piece.what != _PULL.name:
            raise not_readable_here("it follows, and answers pulls only")
        queue, offset, passing, limit, _, _ = _PULL.decode_arguments(piece)
        chosen = await compile_filter(self.filters, passing)
        with self.continued(piece.traceparent) if piece.traceparent else NOTHING:
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

    def _start_call(self, piece: "FramePiece") -> None:
        task = asyncio.create_task(self._answer_call(piece), name="read of the copy")
        self._tasks[piece.number] = task
        task.add_done_callback(lambda _: self._tasks.pop(piece.number, None))

    async def _answer_call(self, piece: "FramePiece") -> None:
        try:
            async with asyncio.timeout(piece.timeout_ms / 1000 if piece.timeout_ms else None):
                answer = shard_frames.encode_piece(
                    shard_frames.ANSWER, piece.number, await self._service.answer_pull(piece)
                )
        except Exception as error:  # noqa: BLE001 - the outermost of this call; `failure_of` logs
            answer = shard_frames.FAILED.encode_note(failure_of(piece.what, error), piece.number)
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
