"""A stream of messages for its user, at either end."""

import asyncio
from typing import TYPE_CHECKING, Any

from ternmq_rpc.grpc_http2.messages import PREFIX_BYTES, GrpcStatus, StreamBroken
from ternmq_rpc.grpc_http2.wire_stream import WireStream

if TYPE_CHECKING:
    from ternmq_rpc.grpc_stream.connection import Http2Connection


class MessageStream(WireStream):
    """A stream of messages: read by one task, written by any, in the order of the calls.

    Whole messages that were received before the stream broke can still be read; after that everything raises
    StreamBroken.
    """

    __slots__ = ("_broken", "_connection", "_messages", "_reader", "_shut", "_writers")

    def __init__(
        self, connection: "Http2Connection[Any, Any]", number: int, out_window: int, *, message_max: int
    ) -> None:
        super().__init__(number, out_window, message_max=message_max)
        self._connection = connection
        self._messages = self.incoming.messages
        self._reader: asyncio.Future[None] | None = None
        self._writers: list[asyncio.Future[None]] | None = None
        self._broken: StreamBroken | None = None
        self._shut: str | None = None

    @property
    def peer(self) -> str:
        """The address of the other side."""
        return self._connection.peer

    async def read_message(self) -> bytes | None:
        """Return the next message, without a turn of the loop if it is there; None: the other side has ended in
        order."""
        if not self._messages and not await self._wait_readable():
            return None
        message = self._messages.popleft()
        self._connection.count_read(self, PREFIX_BYTES + len(message))
        return message

    async def read_all(self) -> list[bytes]:
        """Wait for a message and return all that are there; empty: the other side has ended in order."""
        if not self._messages and not await self._wait_readable():
            return []
        messages = list(self._messages)
        self._messages.clear()
        self._connection.count_read(self, PREFIX_BYTES * len(messages) + sum(map(len, messages)))
        return messages

    def write_messages(self, *messages: bytes) -> None:
        """Send messages, or have them wait for their turn; several that are written together are sent together."""
        if self._shut is not None:
            raise self._failure_error()
        if messages:
            self._connection.send_messages(self, messages)

    async def wait_drained(self) -> None:
        """Wait until all that was written has been handed to the kernel."""
        while self._connection.has_unsent(self):
            if self._broken is None:
                waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                if self._writers is None:
                    self._writers = []
                self._writers.append(waiter)
                await waiter
            if self._broken is not None:
                raise self._failure_error()
        if self._broken is not None or (self._shut is not None and not self.is_ended_here):
            raise self._failure_error()

    async def end_stream(self) -> None:
        """End this side in order, after all that was written; a server's status is OK."""
        if self.is_ended_here:
            await self.wait_drained()
            return
        if self._shut is not None:
            raise self._failure_error()
        self._shut = "this side has ended the stream"
        self._send_end()
        await self.wait_drained()

    def abort_stream(self, text: str, *, status: GrpcStatus = GrpcStatus.CANCELLED) -> None:
        """End the stream now, and drop what waits; a server sends status and text. Does nothing if both sides have
        ended the stream."""
        if self._broken is None and not (self.is_ended_here and self.is_ended_there and not self.has_waiting):
            self._messages.clear()
            self._connection.abort_stream(self, status, text)

    @property
    def failure(self) -> StreamBroken | None:
        """Why the stream failed; None if it is open, or has ended in order."""
        return self._broken

    # --- for the connection

    def wake_reader(self) -> None:
        """Wake the reader: messages were received, or the end."""
        reader = self._reader
        if reader is not None and not reader.done():
            reader.set_result(None)

    def refuse_writes(self, why: str) -> None:
        """Refuse further writes, since the other side accepts no more."""
        if self._shut is None:
            self._shut = why
        self.wake_writers()

    def break_off(self, why: str, status: int | None = None) -> None:
        """Mark the stream as failed, and wake all that wait for it."""
        if self.mark_broken(why, status):
            self.report_broken()

    def mark_broken(self, why: str, status: int | None = None) -> bool:
        """Mark the stream as failed without waking anybody (see `report_broken`); return False if it was already."""
        if self._broken is not None:
            return False
        self._broken = StreamBroken(why, status=status, details=self.details, is_refused=self.is_refused)
        self._shut = why
        return True

    def report_broken(self) -> None:
        """Wake all that wait for the stream."""
        self.wake_reader()
        self.wake_writers()

    def wake_writers(self) -> None:
        """Wake the tasks that wait in `wait_drained`."""
        writers, self._writers = self._writers, None
        for writer in writers or ():
            if not writer.done():
                writer.set_result(None)

    # --- inside

    async def _wait_readable(self) -> bool:
        """Wait for a message; False: there will be none."""
        while not self._messages:
            if self._broken is not None:
                raise self._failure_error()
            if self.is_ended_there:
                return False
            assert self._reader is None, "a stream is read by one task"
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        return True

    def _send_end(self) -> None:
        """End this side of the stream."""
        self._connection.end_stream(self)

    def _failure_error(self) -> StreamBroken:
        """Create the error to raise, a new one each time, since a traceback grows with every raise."""
        broken = self._broken
        if broken is not None:
            return StreamBroken(str(broken), status=broken.status, details=broken.details, is_refused=broken.is_refused)
        return StreamBroken(self._shut or "")
