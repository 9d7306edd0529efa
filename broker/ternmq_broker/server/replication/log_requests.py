"""Requests for damaged bytes of the log between both ends of a follower's stream.

One request at a time waits for its answer at either end; a second one gets nothing. An end of another version that
does not know the request never answers, and counts as away.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from ternmq_broker.server.replication import replica_messages
from ternmq_broker.server.replication.replica_messages import LogReply, LogRequest
from ternmq_broker.upkeep.log_upkeep import SourceAway
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_common.shard import shard_frames
from ternmq_rpc.grpc_http2.messages import StreamBroken

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_broker.store.message_store import MessageStore

ANSWER_S = 3.0


class LogRequests:
    """One end of one stream, from its first frame to `close`."""

    def __init__(
        self, write: "Callable[[bytes], None]", store: "Callable[[], MessageStore]", *, answer_s: float = ANSWER_S
    ) -> None:
        """`store` returns the store to read for the other end: another one after it was opened again."""
        self._write = write
        self._store = store
        self._answer_s = answer_s
        self._turn = asyncio.Lock()
        self._pending_request: tuple[LogRequest, asyncio.Future[bytes]] | None = None
        self._answers = BackgroundTasks()
        self._is_closed = False

    async def request_log(self, position: int, size: int) -> bytes:
        """Read bytes of the other end's log, at least the beginning of the range; SourceAway also if it gives none."""
        async with self._turn:
            if self._is_closed:
                raise SourceAway
            wanted = LogRequest(position, size)
            answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            self._pending_request = wanted, answer
            try:
                self._write(shard_frames.join_pieces([replica_messages.LOG_WANTED.encode_note(wanted)]))
                async with asyncio.timeout(self._answer_s):
                    data = await answer
            except (TimeoutError, StreamBroken) as error:
                raise SourceAway from error
            finally:
                self._pending_request = None
        if not data:
            raise SourceAway
        return data

    def handle_piece(self, piece: "shard_frames.FramePiece") -> bool:
        """Handle a piece about such requests; False if it is about something else. NoFrame."""
        if piece.what == replica_messages.LOG_WANTED.what:
            self._start_answer(replica_messages.LOG_WANTED.decode_note(piece))
        elif piece.what == replica_messages.LOG_GIVEN.what:
            self._resolve_request(replica_messages.LOG_GIVEN.decode_note(piece))
        else:
            return False
        return True

    def _resolve_request(self, given: LogReply) -> None:
        if self._pending_request is None:
            return  # it came too late
        wanted, answer = self._pending_request
        if given.position == wanted.position and len(given.data) <= wanted.size and not answer.done():
            answer.set_result(given.data)

    def _start_answer(self, wanted: LogRequest) -> None:
        if self._answers:
            self._send_answer(wanted, b"")
        else:
            self._answers.start(self._read_and_answer(wanted), name="log for another replica")

    async def _read_and_answer(self, wanted: LogRequest) -> None:
        self._send_answer(
            wanted,
            await asyncio.to_thread(partial(self._store().repair.read_for_replica, wanted.position, wanted.size)),
        )

    def _send_answer(self, wanted: LogRequest, data: bytes) -> None:
        if not self._is_closed:
            try:
                self._write(
                    shard_frames.join_pieces([replica_messages.LOG_GIVEN.encode_note(LogReply(wanted.position, data))])
                )
            except StreamBroken:
                self._is_closed = True  # the reader of the stream gets it too

    def close(self) -> None:
        """Fail the request that waits: the stream has ended."""
        self._is_closed = True
        self._answers.cancel()
        if self._pending_request is not None and not self._pending_request[1].done():
            self._pending_request[1].set_exception(SourceAway())
