"""The receive window of a connection: how much the peer may still send, on all streams together."""

from ternmq_rpc.grpc_http2 import frames as h2
from ternmq_rpc.grpc_http2.frames import ErrorCode, Http2Error


class ReceiveWindow:
    """The window that the peer was given. Bytes that are given back are announced only when they are worth a frame."""

    __slots__ = ("_announce_from", "_left", "_owed_bytes")

    def __init__(self, window: int) -> None:
        self._left = window
        self._owed_bytes = 0
        self._announce_from = window // 4

    def count_received(self, size: int) -> None:
        """Count `size` received bytes. Http2Error: more than the window allows."""
        self._left -= size
        if self._left < 0:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "more DATA than the connection's window allows")

    def extend_window(self, size: int) -> bytes:
        """Make the window larger than the one that was given; return the frame that announces it."""
        self._left += size
        return h2.window_frame(0, size)

    def give_back(self, size: int) -> bytes:
        """Allow `size` more bytes; return the frame that announces it, or nothing yet."""
        self._owed_bytes += size
        if self._owed_bytes <= self._announce_from:
            return b""
        owed, self._owed_bytes = self._owed_bytes, 0
        self._left += owed
        return h2.window_frame(0, owed)
