"""Requests for damaged bytes of the log between both ends of a follower's stream.

One request at a time waits for its answer at either end; a second one gets nothing. An end of another version that
does not know the request never answers, and counts as away.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from ternmq_broker.log_upkeep import SourceAway
from ternmq_broker.server.replication import wire
from ternmq_broker.server.replication.wire import GivenLog, WantedLog
from ternmq_common.shard import form
from ternmq_rpc.grpc_http2.messages import StreamBroken

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_broker.store.message_store import MessageStore

ANSWER_S = 3.0


class LogAsking:
    """One end of one stream, from its first frame to `close`."""

    def __init__(
        self, write: "Callable[[bytes], None]", store: "Callable[[], MessageStore]", *, answer_s: float = ANSWER_S
    ) -> None:
        """`store` returns the store to read for the other end: another one after it was opened again."""
        self._write = write
        self._store = store
        self._answer_s = answer_s
        self._turn = asyncio.Lock()
        self._asked: tuple[WantedLog, asyncio.Future[bytes]] | None = None
        self._giving: asyncio.Task[None] | None = None
        self._is_closed = False

    async def ask(self, position: int, size: int) -> bytes:
        """Read bytes of the other end's log, at least the beginning of the range; SourceAway also if it gives none."""
        async with self._turn:
            if self._is_closed:
                raise SourceAway
            wanted = WantedLog(position, size)
            answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            self._asked = wanted, answer
            try:
                self._write(form.frame([wire.LOG_WANTED.piece(wanted)]))
                async with asyncio.timeout(self._answer_s):
                    data = await answer
            except (TimeoutError, StreamBroken) as error:
                raise SourceAway from error
            finally:
                self._asked = None
        if not data:
            raise SourceAway
        return data

    def take(self, piece: "form.Piece") -> bool:
        """Handle a piece about such requests; False if it is about something else. NoFrame."""
        if piece.what == wire.LOG_WANTED.what:
            self._give(wire.LOG_WANTED.of(piece))
        elif piece.what == wire.LOG_GIVEN.what:
            self._given(wire.LOG_GIVEN.of(piece))
        else:
            return False
        return True

    def _given(self, given: GivenLog) -> None:
        if self._asked is None:
            return  # it came too late
        wanted, answer = self._asked
        if given.position == wanted.position and len(given.data) <= wanted.size and not answer.done():
            answer.set_result(given.data)

    def _give(self, wanted: WantedLog) -> None:
        if self._giving is not None and not self._giving.done():
            self._say(wanted, b"")
        else:
            self._giving = asyncio.create_task(self._read(wanted), name="log for another replica")

    async def _read(self, wanted: WantedLog) -> None:
        self._say(wanted, await asyncio.to_thread(partial(self._store().repair.given, wanted.position, wanted.size)))

    def _say(self, wanted: WantedLog, data: bytes) -> None:
        if not self._is_closed:
            try:
                self._write(form.frame([wire.LOG_GIVEN.piece(GivenLog(wanted.position, data))]))
            except StreamBroken:
                self._is_closed = True  # the reader of the stream gets it too

    def close(self) -> None:
        """Fail the request that waits: the stream has ended."""
        self._is_closed = True
        if self._giving is not None:
            self._giving.cancel()
        if self._asked is not None and not self._asked[1].done():
            self._asked[1].set_exception(SourceAway())
