"""HTTP/2 and gRPC as a test writes them, byte by byte (RFC 9113, RFC 7541), without a line of the product.

Frame    length u24 | type u8 | flags u8 | stream u32; big-endian.
Message  compressed u8 | length u32 | body.
"""

import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
WINDOW_MAX = 2**31 - 1
DEFAULT_WINDOW = 65_535
DEFAULT_FRAME_MAX = 16_384
HEADER_BYTES = 9
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITIZED = 0x20

_HEADER = struct.Struct(">IBI")
_U32 = struct.Struct(">I")
_SETTING = struct.Struct(">HI")
_MESSAGE = struct.Struct(">BI")


class Kind(IntEnum):
    """Types of frames."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


class Setting(IntEnum):
    """Those settings that tests speak of."""

    HEADER_TABLE_SIZE = 1
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5


class Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    payload: bytes


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return _HEADER.pack(len(payload) << 8 | kind, flags, stream) + payload


def read_header(data: bytes) -> tuple[int, int, int, int]:
    """Length of the payload, type, flags and stream of the frame that begins there."""
    size, flags, stream = _HEADER.unpack_from(data)
    return size >> 8, size & 0xFF, flags, stream


def settings(values: dict[Setting, int]) -> bytes:
    return frame(Kind.SETTINGS, 0, 0, b"".join(_SETTING.pack(*pair) for pair in values.items()))


def read_settings(payload: bytes) -> dict[int, int]:
    return dict(_SETTING.iter_unpack(payload))


def u32(number: int) -> bytes:
    return _U32.pack(number)


def read_u32(payload: bytes) -> int:
    return int.from_bytes(payload[:4], "big")


def window_update(stream: int, increment: int) -> bytes:
    return frame(Kind.WINDOW_UPDATE, 0, stream, u32(increment))


def rst_stream(stream: int, code: int = 8) -> bytes:
    return frame(Kind.RST_STREAM, 0, stream, u32(code))


def message(body: bytes) -> bytes:
    """A message of gRPC."""
    return _MESSAGE.pack(0, len(body)) + body


def block(fields: Iterable[tuple[str, str]]) -> bytes:
    """A header block of literals that are not indexed."""
    parts = []
    for name, value in fields:
        parts.append(b"\x00" + _string(name.encode("latin-1")) + _string(value.encode("latin-1")))
    return b"".join(parts)


def _string(text: bytes) -> bytes:
    return integer(len(text), bits=7) + text


def integer(number: int, *, bits: int, pattern: int = 0) -> bytes:
    """A number of HPACK, after a pattern in the bits above it."""
    most = (1 << bits) - 1
    if number < most:
        return bytes((pattern | number,))
    parts = bytearray((pattern | most,))
    number -= most
    while number >= 0x80:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def call_fields(path: str, *more: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """The header fields of a gRPC call."""
    return (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "test"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        *more,
    )


class FrameParser:
    """Bytes in, whole frames out."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        self._rest += data
        at = 0
        while len(self._rest) - at >= HEADER_BYTES:
            size, flags, stream = _HEADER.unpack_from(self._rest, at)
            end = at + HEADER_BYTES + (size >> 8)
            if end > len(self._rest):
                break
            yield Frame(size & 0xFF, flags, stream & WINDOW_MAX, bytes(self._rest[at + HEADER_BYTES : end]))
            at = end
        del self._rest[:at]

    @property
    def unfinished(self) -> bool:
        """Whether a frame has begun and not come whole."""
        return bool(self._rest)
