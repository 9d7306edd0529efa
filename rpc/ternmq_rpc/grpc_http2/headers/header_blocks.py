"""Collects header blocks that arrive in several frames: HEADERS, and CONTINUATION until the block is whole."""

from ternmq_rpc.grpc_http2 import frames as h2
from ternmq_rpc.grpc_http2.frames import ErrorCode, Http2Error


class HeaderBlocks:
    """The header block of one stream at a time.

    `stream`: the stream whose block has begun and is not whole, 0 if there is none. No other frame may arrive in
    between.
    """

    __slots__ = ("_block", "_bytes_max", "end_stream", "stream")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._block = b""
        self.stream = 0
        self.end_stream = False

    def begin_block(self, stream: int, flags: int, payload: bytes) -> bytes | None:
        """Take a HEADERS frame; return the block if it is whole."""
        self.stream = stream
        self.end_stream = bool(flags & h2.END_STREAM)
        return self._add_fragment(h2.strip_padding(payload, flags), flags)

    def continue_block(self, flags: int, payload: bytes) -> bytes | None:
        """Take a CONTINUATION frame; return the block if it is whole now."""
        if not self.stream:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "CONTINUATION of nothing")
        return self._add_fragment(payload, flags)

    def _add_fragment(self, fragment: bytes, flags: int) -> bytes | None:
        self._block += fragment
        if len(self._block) > self._bytes_max:
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, f"a header block of more than {self._bytes_max} bytes")
        if not flags & h2.END_HEADERS:
            return None
        block, self._block = self._block, b""
        self.stream = 0
        return block
