"""What the other side may still send on a connection, all its streams together."""

from ternmq_rpc.grpc_http2 import frames as h2
from ternmq_rpc.grpc_http2.frames import ErrorCode, Http2Error


class Inflow:
    """The window that was given to the other side; what is given back travels when it is worth a frame."""

    __slots__ = ("_left", "_owed", "_worth")

    def __init__(self, window: int) -> None:
        self._left = window
        self._owed = 0
        self._worth = window // 4

    def take(self, size: int) -> None:
        """So much came."""
        self._left -= size
        if self._left < 0:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "more DATA than the connection's window allows")

    def extend(self, size: int) -> bytes:
        """So much more may come than the window that was given; the frame that says so."""
        self._left += size
        return h2.window_update(0, size)

    def give_back(self, size: int) -> bytes:
        """So much more may come; the frame that says so, or nothing yet."""
        self._owed += size
        if self._owed <= self._worth:
            return b""
        owed, self._owed = self._owed, 0
        self._left += owed
        return h2.window_update(0, owed)
