"""The layer of gRPC above HTTP/2: messages with a length in front, and a status at the end.

Message   compressed u8 (always 0 here) | length u32 | body; big-endian. Messages and DATA frames are independent: a
          frame may hold several messages, a message may span frames.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

from ternmq_common.binary.numbers import read_u32_be

PREFIX: Final = struct.Struct(">BI")
PREFIX_BYTES: Final = 5
assert PREFIX.size == PREFIX_BYTES
_PLAIN: Final = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")


class GrpcStatus(IntEnum):
    """The status codes of gRPC."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class StreamBroken(Exception):
    """The stream can't be used any more; the text says why. `status` is gRPC's, if the other side sent one, `details`
    its text with it. `is_refused`: the other side has done nothing for it, so that it may be repeated."""

    def __init__(self, text: str, *, status: int | None = None, details: str = "", is_refused: bool = False) -> None:
        self.status = status
        self.details = details
        self.is_refused = is_refused
        super().__init__(text)


class MessageRefused(Exception):
    """A message is not accepted, and the stream can't go on after it."""

    def __init__(self, status: GrpcStatus, text: str) -> None:
        self.status = status
        super().__init__(text)


class WaitingMessages:
    """A queue of messages in the order of their arrival. A deque takes 760 bytes even when empty, and each stream has
    one queue."""

    __slots__ = ("_begin", "_messages")

    def __init__(self) -> None:
        self._messages: list[bytes] = []
        self._begin = 0

    def __len__(self) -> int:
        return len(self._messages) - self._begin

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._messages[self._begin :])

    def append(self, message: bytes) -> None:
        self._messages.append(message)

    @property
    def first_message(self) -> bytes:
        """The oldest message; there must be one."""
        return self._messages[self._begin]

    def popleft(self) -> bytes:
        """Remove and return the oldest message; there must be one."""
        message = self._messages[self._begin]
        self._messages[self._begin] = b""
        self._begin += 1
        if 2 * self._begin >= len(self._messages):  # so that it costs nothing beside what was added
            del self._messages[: self._begin]
            self._begin = 0
        return message

    def clear(self) -> None:
        self._messages.clear()
        self._begin = 0


class MessageReader:
    """Finds the messages in the contents of DATA frames; whole ones wait in `messages`.

    Of an unfinished message it keeps only the received bytes, regardless of the announced length. `partial`: how many
    bytes that is, prefix included.
    """

    __slots__ = ("_length", "_message_max", "_parts", "_prefix", "messages", "partial")

    def __init__(self, message_max: int) -> None:
        self._message_max = message_max
        self._prefix = bytearray()
        self._length = 0
        self._parts: list[bytearray | memoryview] = []
        self.partial = 0
        self.messages = WaitingMessages()

    def read_messages(self, data: bytes, start: int, stop: int) -> None:
        """Read `data[start:stop]`. MessageRefused: compressed or too large; nothing can be read after that."""
        if self.partial:
            start = self._continue_message(data, start, stop)
        while stop - start >= PREFIX_BYTES:
            compressed, length = data[start], read_u32_be(data, start + 1)
            if compressed or length > self._message_max:
                self._refuse_message(compressed, length)
            body = start + PREFIX_BYTES
            start = body + length
            if start > stop:
                self._length = length
                self.partial = PREFIX_BYTES
                self._add_part(data, body, stop)
                return
            self.messages.append(data[body:start])
        if start < stop:
            self._prefix += data[start:stop]
            self.partial = len(self._prefix)

    def _continue_message(self, data: bytes, start: int, stop: int) -> int:
        """Take what belongs to the unfinished message; return where the next one begins."""
        if self.partial < PREFIX_BYTES:
            body = min(stop, start + PREFIX_BYTES - self.partial)
            self._prefix += data[start:body]
            self.partial = len(self._prefix)
            if self.partial < PREFIX_BYTES:
                return stop
            compressed, self._length = PREFIX.unpack(self._prefix)
            if compressed or self._length > self._message_max:
                self._refuse_message(compressed, self._length)
            start = body
        end = min(stop, start + PREFIX_BYTES + self._length - self.partial)
        self._add_part(data, start, end)
        if self.partial == PREFIX_BYTES + self._length:
            self.messages.append(b"".join(self._parts))
            self._parts.clear()
            self._prefix.clear()
            self.partial = 0
        return end

    def _add_part(self, data: bytes, start: int, stop: int) -> None:
        size = stop - start
        self.partial += size
        # A view saves a copy, and keeps all of `data` in memory: small parts are copied, together.
        if size > len(data) // 2 and size > 4096:
            self._parts.append(memoryview(data)[start:stop])
        elif self._parts and isinstance(last := self._parts[-1], bytearray):
            last += data[start:stop]
        else:
            self._parts.append(bytearray(data[start:stop]))

    def _refuse_message(self, compressed: int, length: int) -> None:
        if compressed == 1:
            raise MessageRefused(GrpcStatus.UNIMPLEMENTED, "compressed messages are not understood")
        if compressed:
            raise MessageRefused(GrpcStatus.INTERNAL, f"a message begins with {compressed}, which gRPC does not know")
        raise MessageRefused(
            GrpcStatus.RESOURCE_EXHAUSTED, f"a message of {length} bytes; at most {self._message_max} are taken"
        )


def encode_percent(text: str) -> str:
    """Encode the text for `grpc-message`."""
    from urllib.parse import quote  # only refusals need it, and a command should start fast

    return quote(text, safe=_PLAIN)


def decode_percent(text: str) -> str:
    from urllib.parse import unquote

    return unquote(text, errors="replace")


def status_name(status: int) -> str:
    """Return gRPC's name of a status."""
    try:
        return GrpcStatus(status).name
    except ValueError:
        return f"status {status}"


def status_text(status: str, message: str) -> str:
    """Describe the status that a stream ended with, for an error text."""
    try:
        name = GrpcStatus(int(status)).name.lower().replace("_", " ")
    except ValueError:
        name = f"status {status}"
    return f"{name}: {decode_percent(message)}" if message else name
