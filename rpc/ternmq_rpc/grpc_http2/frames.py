"""The framing of HTTP/2 (RFC 9113), without a network: reads frames from bytes, and encodes frames.

Frame     length u24 | type u8 | flags u8 | stream u32 (31 bits) | payload; big-endian.
Settings  pairs of id u16 | value u32.
DATA without padding is passed on in parts as they arrive, so that a large frame is not collected first; every other
frame whole.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from librt.strings import BytesWriter

from ternmq_common.binary.numbers import read_u32_be, write_u32_be

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
WINDOW_MAX: Final = 2**31 - 1
DEFAULT_WINDOW: Final = 65_535
DEFAULT_FRAME_MAX: Final = 16_384
_FRAME_MAX_LIMIT: Final = 2**24 - 1

DATA: Final = 0
HEADERS: Final = 1
PRIORITY: Final = 2
RST_STREAM: Final = 3
SETTINGS: Final = 4
PUSH_PROMISE: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITIZED: Final = 0x20

HEADER_BYTES: Final = 9
_FLAGS_AT: Final = 4
_STREAM_AT: Final = 5
_U32: Final = struct.Struct(">I")
_SETTING: Final = struct.Struct(">HI")
_GOAWAY: Final = struct.Struct(">II")


class ErrorCode(IntEnum):
    """Error codes of HTTP/2: why a stream or a connection ends."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


class SettingId(IntEnum):
    """The settings of HTTP/2 that are used here."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class Http2Error(Exception):
    """The peer broke a rule of HTTP/2, and the connection can't go on."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        self.code = code
        super().__init__(text)


class FramePart(NamedTuple):
    """A frame, or a part of a DATA frame: the payload is `FrameReader.data[start:stop]`."""

    kind: int
    flags: int
    stream: int
    start: int
    stop: int


class FrameReader:
    """Finds the frames in a stream of bytes that arrives in pieces of any size.

    It keeps less than one frame: the one that has begun and is not whole yet.
    """

    __slots__ = ("_data_flags", "_data_left", "_data_stream", "_frame_max", "_kept", "_rest", "_rest_needs", "data")

    def __init__(self, frame_max: int) -> None:
        self._frame_max = frame_max
        self._rest = bytearray()
        self._rest_needs = 0
        self._kept = 0
        self._data_left = 0
        self._data_flags = self._data_stream = 0
        self.data = b""

    @property
    def begun_frame(self) -> int:
        """The number of the frame that has begun and must be read whole; 0 if none has."""
        return self._kept if self._rest else 0

    def read_frames(self, data: bytes) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield the frames in `data` as plain tuples with the fields of `FramePart`, since there are many; `data` stays
        valid until the next call. Http2Error: a frame is larger than was allowed."""
        if self._rest:
            self._rest += data
            if len(self._rest) < self._rest_needs:
                return
            data = bytes(self._rest)
            self._rest.clear()
        self.data = data
        at, end = 0, len(data)
        if self._data_left:
            at = min(end, self._data_left)
            self._data_left -= at
            yield DATA, 0 if self._data_left else self._data_flags, self._data_stream, 0, at
        while end - at >= HEADER_BYTES:
            size, flags, stream = read_u32_be(data, at), data[at + _FLAGS_AT], read_u32_be(data, at + _STREAM_AT)
            kind = size & 0xFF
            size >>= 8
            start = at + HEADER_BYTES
            stop = start + size
            if size > self._frame_max:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {size} bytes; {self._frame_max} are allowed")
            if stop > end:
                if kind != DATA or flags & PADDED:
                    break
                self._data_left, self._data_flags, self._data_stream = stop - end, flags, stream & WINDOW_MAX
                if end > start:
                    yield DATA, 0, stream & WINDOW_MAX, start, end
                return
            yield kind, flags, stream & WINDOW_MAX, start, stop
            at = stop
        if at < end:
            self._keep_rest(data, at)

    def _keep_rest(self, data: bytes, at: int) -> None:
        self._kept += 1
        self._rest += memoryview(data)[at:]
        self._rest_needs = HEADER_BYTES
        if len(self._rest) >= HEADER_BYTES:
            self._rest_needs += read_u32_be(bytes(self._rest[:HEADER_BYTES]), 0) >> 8


def write_header(writer: BytesWriter, kind: int, size: int, flags: int, stream: int) -> None:
    """Write the header of a frame with a payload of that size."""
    write_u32_be(writer, size << 8 | kind)
    writer.append(flags)
    write_u32_be(writer, stream)


def encode_header(kind: int, size: int, flags: int, stream: int) -> bytes:
    """Return the header of a frame with a payload of that size."""
    writer = BytesWriter()
    write_header(writer, kind, size, flags, stream)
    return writer.getvalue()


def encode_frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    writer = BytesWriter()
    write_header(writer, kind, len(payload), flags, stream)
    writer.write(payload)
    return writer.getvalue()


def settings_frame(values: dict[SettingId, int]) -> bytes:
    return encode_frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(number, value) for number, value in values.items()))


def reset_frame(stream: int, code: ErrorCode) -> bytes:
    return encode_frame(RST_STREAM, 0, stream, _U32.pack(code))


def window_frame(stream: int, increment: int) -> bytes:
    return encode_frame(WINDOW_UPDATE, 0, stream, _U32.pack(increment))


def goaway_frame(last_stream: int, code: ErrorCode, text: str) -> bytes:
    return encode_frame(GOAWAY, 0, 0, _GOAWAY.pack(last_stream, code) + text.encode())


def header_frames(stream: int, block: bytes, frame_max: int, *, end_stream: bool) -> bytes:
    """Encode a header block as one HEADERS frame, and CONTINUATION frames where it does not fit."""
    first, rest = block[:frame_max], block[frame_max:]
    flags = (END_STREAM if end_stream else 0) | (0 if rest else END_HEADERS)
    frames = [encode_frame(HEADERS, flags, stream, first)]
    while rest:
        first, rest = rest[:frame_max], rest[frame_max:]
        frames.append(encode_frame(CONTINUATION, 0 if rest else END_HEADERS, stream, first))
    return b"".join(frames)


def read_settings(payload: bytes) -> list[tuple[int, int]]:
    """Return ids and values in order, checked where RFC 9113, section 6.5.2, has limits for them."""
    if len(payload) % _SETTING.size:
        raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"SETTINGS of {len(payload)} bytes")
    pairs = list(_SETTING.iter_unpack(payload))
    for number, value in pairs:
        if number == SettingId.ENABLE_PUSH and value > 1:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"SETTINGS_ENABLE_PUSH={value}")
        if number == SettingId.INITIAL_WINDOW_SIZE and value > WINDOW_MAX:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, f"SETTINGS_INITIAL_WINDOW_SIZE={value}")
        if number == SettingId.MAX_FRAME_SIZE and not DEFAULT_FRAME_MAX <= value <= _FRAME_MAX_LIMIT:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"SETTINGS_MAX_FRAME_SIZE={value}")
    return pairs


def read_u32(payload: bytes, kind: str) -> int:
    """Return the number that is the whole payload of some frames."""
    if len(payload) != _U32.size:
        raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"{kind} of {len(payload)} bytes")
    return int(_U32.unpack(payload)[0])


def read_goaway(payload: bytes) -> tuple[int, int, str]:
    """Return last stream, error code and text."""
    if len(payload) < _GOAWAY.size:
        raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"GOAWAY of {len(payload)} bytes")
    last, code = _GOAWAY.unpack_from(payload)
    return last & WINDOW_MAX, code, payload[_GOAWAY.size :].decode(errors="replace")


def strip_padding(payload: bytes, flags: int) -> bytes:
    """Return the payload of HEADERS without padding and priority."""
    start, stop = 0, len(payload)
    if flags & PADDED:
        if not payload:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "a padded frame without a length of the padding")
        start, stop = 1, stop - payload[0]
    if flags & PRIORITIZED:
        start += 5
    if start > stop:
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, "padding or priority longer than the frame")
    return payload[start:stop]


def without_padding(data: bytes, start: int, stop: int) -> tuple[int, int]:
    """Return where the contents of a padded DATA frame begin and end."""
    if start == stop:
        raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "a padded frame without a length of the padding")
    padding = data[start]
    if padding >= stop - start:
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, "padding longer than the frame")
    return start + 1, stop - padding


def error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"
