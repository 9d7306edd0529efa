"""The receive window of a connection: how much the peer may still send, on all streams together."""

from ternmq_rpc.grpc_http2 import frames as h2
from ternmq_rpc.grpc_http2.frames import ErrorCode, Http2Error


class Inflow:
    """The window that the peer was given. Bytes that are given back are announced only when they are worth a frame."""

    __slots__ = ("_left", "_owed", "_worth")

    def __init__(self, window: int) -> None:
        self._left = window
        self._owed = 0
        self._worth = window // 4

    def take(self, size: int) -> None:
        """Count `size` received bytes. Http2Error: more than the window allows."""
        self._left -= size
        if self._left < 0:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "more DATA than the connection's window allows")

    def extend(self, size: int) -> bytes:
        """Make the window larger than the one that was given; return the frame that announces it."""
        self._left += size
        return h2.window_update(0, size)

    def give_back(self, size: int) -> bytes:
        """Allow `size` more bytes; return the frame that announces it, or nothing yet."""
        self._owed += size
        if self._owed <= self._worth:
            return b""
        owed, self._owed = self._owed, 0
        self._left += owed
        return h2.window_update(0, owed)
