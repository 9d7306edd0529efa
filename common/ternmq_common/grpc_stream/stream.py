"""One stream of messages, as its user sees it, at either end."""

import asyncio
from typing import TYPE_CHECKING

from ternmq_common.grpc_stream.messages import PREFIX_BYTES, MessageReader, Status, StreamBroken

if TYPE_CHECKING:
    from ternmq_common.grpc_stream.connection import Connection
    from ternmq_common.grpc_stream.outflow import StreamOutflow

# What the other side may send before it is read; a message that is larger passes all the same.
STREAM_WINDOW = 16 << 20


class Stream:
    """Read by one task; written by any, in the order of the calls.

    What has come whole before the stream broke can still be read; after that everything raises StreamBroken.

    Credit   bytes of messages are given back to the other side's window when they are read. Those of an unfinished
             message at the head of the line are given back as they come (`_early`), else one that is larger than the
             window would never end.
    """

    __slots__ = (
        "_broken",
        "_connection",
        "_early",
        "_incoming",
        "_messages",
        "_owed",
        "_reader",
        "_shut",
        "_writers",
        "ended_here",
        "ended_there",
        "out",
        "peer",
        "window",
    )

    def __init__(self, connection: "Connection", out: "StreamOutflow", *, message_max: int) -> None:
        self.peer = connection.peer
        self._connection = connection
        self._incoming = MessageReader(message_max)
        self._messages = self._incoming.messages
        self._reader: asyncio.Future[None] | None = None
        self._writers: list[asyncio.Future[None]] = []
        self._early = 0
        self._owed = 0
        self._broken: StreamBroken | None = None
        self._shut: str | None = None
        self.out = out
        self.window = STREAM_WINDOW
        self.ended_here = False
        self.ended_there = False

    async def read(self) -> bytes | None:
        """The next message, without a turn of the loop if it is there; None: the other side has ended in order."""
        if not self._messages and not await self._readable():
            return None
        message = self._messages.popleft()
        self._took(PREFIX_BYTES + len(message))
        return message

    async def read_all(self) -> list[bytes]:
        """All messages that are there, of which the first is waited for; empty: the other side has ended in order."""
        if not self._messages and not await self._readable():
            return []
        messages = list(self._messages)
        self._messages.clear()
        self._took(PREFIX_BYTES * len(messages) + sum(map(len, messages)))
        return messages

    def write(self, *messages: bytes) -> None:
        """Send messages, or have them wait for their turn; several that are written together travel together."""
        if self._shut is not None:
            raise self._why()
        if messages:
            self._connection.send(self.out, messages)

    async def drained(self) -> None:
        """Return when all that was written has been handed to the kernel."""
        while self._connection.holds(self):
            if self._broken is None:
                waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._writers.append(waiter)
                await waiter
            if self._broken is not None:
                raise self._why()
        if self._shut is not None and not self.ended_here:
            raise self._why()

    async def end(self) -> None:
        """End this side in order: nothing more is written, what was is delivered. A server's status is OK."""
        if self.ended_here:
            await self.drained()
            return
        if self._shut is not None:
            raise self._why()
        self.ended_here = True
        self._shut = "this side has ended the stream"
        self._connection.end(self)
        await self.drained()

    def abort(self, text: str, *, status: Status = Status.CANCELLED) -> None:
        """End the stream at once, whatever waits; a server tells the other side status and text. Nothing happens to a
        stream that has ended at both sides."""
        if self._broken is None and not (self.ended_here and self.ended_there and not self.out.waits):
            self._messages.clear()
            self._connection.abort(self, status, text)

    @property
    def broken(self) -> StreamBroken | None:
        """Why the stream is no more; None for one that is there, or has ended in order."""
        return self._broken

    # --- for the connection

    def receive(self, data: bytes, start: int, stop: int) -> None:
        """Take contents of a DATA frame. MessageRefused: what it holds can't be taken."""
        self._incoming.feed(data, start, stop)
        if self._messages:
            reader = self._reader
            if reader is not None and not reader.done():
                reader.set_result(None)
        else:
            self._took(0)

    def skip(self, size: int) -> None:
        """Bytes that nobody reads, as padding is, are given back at once."""
        self._owed += size

    def end_there(self) -> None:
        """The other side has ended in order."""
        self.ended_there = True
        self._wake_reader()

    def shut(self, why: str) -> None:
        """Nothing more can be written, for the other side wants no more."""
        if self._shut is None:
            self._shut = why
        self.wake_writers()

    def break_off(self, why: str, status: int | None = None) -> None:
        """The stream is no more."""
        if self._broken is None:
            self._broken = StreamBroken(why, status=status)
            self._shut = why
            self._wake_reader()
            self.wake_writers()

    def wake_writers(self) -> None:
        """Have those who wait in `drained` look again."""
        writers, self._writers = self._writers, []
        for writer in writers:
            if not writer.done():
                writer.set_result(None)

    @property
    def unfinished(self) -> bool:
        """Whether a message has begun and not come whole."""
        return self._incoming.partial > 0

    @property
    def under_way(self) -> tuple[int, int]:
        """How many bytes of a message that is not whole yet have come, and how many wait to be sent: the other side is
        there while these change, though it may take long until a message is whole."""
        return self._incoming.partial, self.out.bytes

    # --- inside

    async def _readable(self) -> bool:
        """Wait for a message; False: none comes any more."""
        while not self._messages:
            if self._broken is not None:
                raise self._why()
            if self.ended_there:
                return False
            assert self._reader is None, "a stream is read by one task"
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        return True

    def _took(self, size: int) -> None:
        """So many bytes of messages were read, or none and there is none to read."""
        if self._early and size:
            size -= self._early
            self._early = 0
        if not self._messages:
            size += self._incoming.partial - self._early
            self._early = self._incoming.partial
        self._owed += size
        if self._owed > STREAM_WINDOW // 2:
            owed, self._owed = self._owed, 0
            self._connection.credit(self, owed)

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _why(self) -> StreamBroken:
        """A new one each time, for a traceback grows with every raise."""
        if self._broken is not None:
            return StreamBroken(str(self._broken), status=self._broken.status)
        return StreamBroken(self._shut or "")
