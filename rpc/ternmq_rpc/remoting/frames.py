"""The frames of the remoting protocol: finds them in a stream of bytes, and joins the parts of one that is sent.

Frame     length u32 | serialization u8 | header length u24 | header | body; big-endian.
          `length` counts all that follows it. A frame without a body and one with an empty body are the same bytes.
"""

from typing import Final

from librt.strings import BytesWriter

from ternmq_common.binary.numbers import COPIED_BYTES_MAX, read_u32_be, write_u32_be

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
# 32,767 bytes of properties take six times as many as JSON escapes, and the other fields are short.
HEADER_BYTES_MAX: Final = 512 * 1024
JSON: Final = 0
BINARY: Final = 1

_PREFIX_BYTES: Final = 8
_LENGTH_BYTES: Final = 4
_HEADER_LENGTH_MASK: Final = 0xFF_FFFF


class RemotingError(Exception):
    """The peer broke a rule of the protocol, and the connection can't go on."""


class FrameReader:
    """Finds the frames in a stream of bytes that arrives in pieces of any size.

    It keeps less than one frame: the one that has begun and is not whole yet.
    """

    __slots__ = ("_frame_bytes", "_frame_max", "_rest")

    def __init__(self, frame_max: int = FRAME_BYTES_MAX) -> None:
        self._frame_max = frame_max
        self._rest = bytearray()
        self._frame_bytes = 0  # of the frame that has begun, with its length field; 0: not known yet

    @property
    def kept_bytes(self) -> int:
        """How many bytes of a frame that is not whole yet are kept."""
        return len(self._rest)

    @property
    def missing_bytes(self) -> int:
        """How many bytes the frame that has begun lacks; 0 if none has, or its length is not known yet."""
        return max(0, self._frame_bytes - len(self._rest))

    def read_frames(self, data: bytes) -> list[tuple[int, bytes, bytes]]:
        """Return serialization, header and body of each frame that `data` completes.

        RemotingError: a frame is larger than allowed, or its header does not fit into it.
        """
        frames: list[tuple[int, bytes, bytes]] = []
        at, end = 0, len(data)
        if self._rest:
            at = self._complete_frame(data, frames)
            if self._rest:
                return frames
        while end - at >= _PREFIX_BYTES:
            length, form = read_u32_be(data, at), read_u32_be(data, at + _LENGTH_BYTES)
            body_start = at + _PREFIX_BYTES + self._check_lengths(length, form & _HEADER_LENGTH_MASK)
            stop = at + _LENGTH_BYTES + length
            if stop > end:
                self._frame_bytes = stop - at
                break
            frames.append((form >> 24, data[at + _PREFIX_BYTES : body_start], data[body_start:stop]))
            at = stop
        if at < end:
            self._rest += memoryview(data)[at:]
        return frames

    def _complete_frame(self, data: bytes, frames: list[tuple[int, bytes, bytes]]) -> int:
        """Add to the frame that has begun; if it is whole then, it goes to `frames`. Return how much was taken.

        Bytes of a large frame are copied twice, for any size of its pieces.
        """
        rest, taken = self._rest, 0
        if not self._frame_bytes:
            taken = _PREFIX_BYTES - len(rest)
            rest += data[:taken]
            if len(rest) < _PREFIX_BYTES:
                return len(data)
            begin = bytes(rest)
            length, form = read_u32_be(begin, 0), read_u32_be(begin, _LENGTH_BYTES)
            self._check_lengths(length, form & _HEADER_LENGTH_MASK)
            self._frame_bytes = _LENGTH_BYTES + length
        missing = self._frame_bytes - len(rest)
        rest += memoryview(data)[taken : taken + missing]
        if len(rest) == self._frame_bytes:
            form = read_u32_be(bytes(rest[:_PREFIX_BYTES]), _LENGTH_BYTES)
            whole, body_start = memoryview(rest), _PREFIX_BYTES + (form & _HEADER_LENGTH_MASK)
            frames.append((form >> 24, bytes(whole[_PREFIX_BYTES:body_start]), bytes(whole[body_start:])))
            self._rest = bytearray()
            self._frame_bytes = 0
        return taken + missing

    def _check_lengths(self, length: int, header_length: int) -> int:
        if length > self._frame_max:
            raise RemotingError(f"a frame of {length} bytes; {self._frame_max} are allowed")
        if header_length > HEADER_BYTES_MAX:
            raise RemotingError(f"a header of {header_length} bytes; {HEADER_BYTES_MAX} are allowed")
        if header_length + _LENGTH_BYTES > length:
            raise RemotingError(f"a header of {header_length} bytes in a frame of {length}")
        return header_length


def join_frame(serialization: int, header: bytes, body: bytes = b"") -> bytes:
    """Return the bytes of a frame."""
    header_length = len(header)
    writer = BytesWriter()
    write_u32_be(writer, _LENGTH_BYTES + header_length + len(body))
    write_u32_be(writer, serialization << 24 | header_length)
    writer.write(header)
    if len(body) > COPIED_BYTES_MAX:
        return b"".join((writer.getvalue(), body))
    writer.write(body)
    return writer.getvalue()
