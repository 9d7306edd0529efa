"""One connection of a client of which nothing good is expected: blocking sockets, and a thread that reads.

Windows   `send_data` keeps to those that the server gives: what breaks them would be refused at once, and be no attack.
          The attacker's own are as large as can be, unless it says otherwise.
Errors    a connection that is lost, or on which the server takes nothing any more, is `Disconnected`.
"""

import contextlib
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from tests.support import http2_wire as h2
from tests.support.http2_wire import Frame, Kind, Setting

_READ_BYTES = 1 << 18
_SEND_TIMEOUT_S = 5.0
_CHUNK_BYTES = 1 << 16


class Disconnected(Exception):
    """The connection is no more, or stands still."""


class Watcher(Protocol):
    """Is told, in the reading thread, of each frame."""

    def __call__(self, frame: Frame, /) -> None: ...


class Connection(ABC):
    """A blocking socket, and a thread that gives what comes to `_heard_bytes`; lost if that raises OSError."""

    def __init__(self, address: str, receive_buffer: int | None) -> None:
        host, _, port = address.rpartition(":")
        self.sock = socket.socket()
        if receive_buffer is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.settimeout(_SEND_TIMEOUT_S)
        self.closed = False
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        try:
            self.sock.connect((host, int(port)))
        except OSError as error:
            self.sock.close()
            raise Disconnected(str(error)) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.closed = True
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        if self._reader.is_alive():
            self._reader.join()
        self.sock.close()

    def send(self, data: bytes) -> None:
        """Send bytes, whatever they are."""
        if self.closed:
            raise Disconnected
        try:
            with self._sending:
                self.sock.sendall(data)
        except OSError as error:
            self.closed = True
            raise Disconnected(str(error)) from error

    def _wait_until(self, holds: Callable[[], bool], timeout_s: float) -> bool:
        """Whether that came to hold of what was heard; Disconnected if it will not any more."""
        with self._changed:
            self._changed.wait_for(lambda: self.closed or holds(), timeout_s)
            if self.closed:
                raise Disconnected
            return holds()

    # --- in the thread that reads

    def _read(self) -> None:
        while not self.closed:
            try:
                data = self.sock.recv(_READ_BYTES)
                if not data:
                    break
                self._heard_bytes(data)
            except TimeoutError:
                continue
            except OSError:
                break
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    @abstractmethod
    def _heard_bytes(self, data: bytes) -> None:
        """Take in what the server has sent."""


class Wire(Connection):
    """A connection after the client's greeting. With `reads=False` nothing of the server's is read, ever."""

    def __init__(
        self,
        address: str,
        *,
        reads: bool = True,
        window: int = h2.WINDOW_MAX,
        acknowledges: bool = True,
        watcher: Watcher | None = None,
        receive_buffer: int | None = None,
    ) -> None:
        super().__init__(address, receive_buffer)
        self.next_stream = 1
        self.ended_streams = 0
        self._window = h2.DEFAULT_WINDOW
        self._initial = h2.DEFAULT_WINDOW
        self._granted = defaultdict[int, int](int)
        self._gone = set[int]()
        self._acknowledges = acknowledges
        self._watcher = watcher
        self._frames = h2.FrameParser()
        greeting = h2.PREFACE + h2.settings({Setting.INITIAL_WINDOW_SIZE: window})
        if window:
            greeting += h2.window_update(0, h2.WINDOW_MAX - h2.DEFAULT_WINDOW)
        self.send(greeting)
        if reads:
            self._reader.start()
        else:
            self._window = self._initial = h2.WINDOW_MAX  # what the server says is not heard

    def reset(self) -> None:
        """End the connection as a peer does that crashes."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.closed = True
        if self._reader.is_alive():
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_RD)
            self._reader.join()
        self.sock.close()

    def headers(
        self, path: str, *more: tuple[str, str], end_stream: bool = False, stream: int | None = None
    ) -> tuple[int, bytes]:
        """A new stream, and the frame that opens it."""
        if stream is None:
            stream, self.next_stream = self.next_stream, self.next_stream + 2
        flags = h2.END_HEADERS | (h2.END_STREAM if end_stream else 0)
        return stream, h2.frame(Kind.HEADERS, flags, stream, h2.block(h2.call_fields(path, *more)))

    def call(self, path: str, request: bytes, *more: tuple[str, str], timeout_s: float = _SEND_TIMEOUT_S) -> int:
        """Send a whole unary call; its stream."""
        stream, head = self.headers(path, *more)
        data = h2.message(request)
        if len(data) <= h2.DEFAULT_FRAME_MAX and self._takes(stream, len(data)):
            self.send(head + h2.frame(Kind.DATA, h2.END_STREAM, stream, data))
        else:
            self.send(head)
            self.send_data(stream, data, end_stream=True, timeout_s=timeout_s)
        return stream

    def send_data(
        self, stream: int, data: bytes, *, end_stream: bool = False, timeout_s: float = _SEND_TIMEOUT_S
    ) -> int:
        """Send as the windows allow; how much could be sent until the time was over, or the server ended the stream."""
        deadline, at = time.monotonic() + timeout_s, 0
        while at < len(data):
            size = self._take_some(stream, min(len(data) - at, _CHUNK_BYTES), deadline)
            if not size:
                return at
            self.send(_data_frames(stream, data[at : at + size], end_stream=end_stream and at + size == len(data)))
            at += size
        return at

    def data(self, stream: int, data: bytes, *, end_stream: bool = False) -> bytes:
        """A frame with that, to be sent together with others; Disconnected if the server gives no window for it."""
        if self._take_some(stream, len(data), time.monotonic() + _SEND_TIMEOUT_S) < len(data):
            self.closed = True
            raise Disconnected("no window")
        return h2.frame(Kind.DATA, h2.END_STREAM if end_stream else 0, stream, data)

    def wait_for_ends(self, count: int, timeout_s: float) -> bool:
        """Whether so many streams have ended since the beginning; Disconnected if none will any more."""
        return self._wait_until(lambda: self.ended_streams >= count, timeout_s)

    def _takes(self, stream: int, most: int) -> bool:
        with self._changed:
            if most > min(self._window, self._initial + self._granted[stream]):
                return False
            self._window -= most
            self._granted[stream] -= most
            return True

    def _take_some(self, stream: int, most: int, deadline: float) -> int:
        with self._changed:
            while not (size := min(most, self._window, self._initial + self._granted[stream])) > 0:
                left = deadline - time.monotonic()
                if self.closed:
                    raise Disconnected
                if left <= 0 or stream in self._gone:
                    return 0
                self._changed.wait(left)
            if stream in self._gone:
                return 0
            self._window -= size
            self._granted[stream] -= size
            return size

    # --- in the thread that reads

    def _heard_bytes(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            self._heard(frame)

    def _heard(self, frame: Frame) -> None:
        if self._watcher is not None:
            self._watcher(frame)
        if frame.kind == Kind.DATA and not frame.flags & h2.END_STREAM:
            return
        if frame.kind == Kind.SETTINGS and not frame.flags & h2.ACK and self._acknowledges:
            with contextlib.suppress(Disconnected):
                self.send(h2.frame(Kind.SETTINGS, h2.ACK, 0))
        with self._changed:
            if frame.kind == Kind.WINDOW_UPDATE:
                if frame.stream:
                    self._granted[frame.stream] += h2.read_u32(frame.payload)
                else:
                    self._window += h2.read_u32(frame.payload)
            elif frame.kind == Kind.SETTINGS:
                self._initial = h2.read_settings(frame.payload).get(Setting.INITIAL_WINDOW_SIZE, self._initial)
            elif frame.stream not in self._gone and _ends_stream(frame):
                self._gone.add(frame.stream)
                self.ended_streams += 1
            self._changed.notify_all()


def _ends_stream(frame: Frame) -> bool:
    return frame.kind == Kind.RST_STREAM or (
        frame.kind in (Kind.DATA, Kind.HEADERS) and bool(frame.flags & h2.END_STREAM)
    )


def _data_frames(stream: int, data: bytes, *, end_stream: bool) -> bytes:
    parts = []
    for at in range(0, len(data), h2.DEFAULT_FRAME_MAX):
        last = at + h2.DEFAULT_FRAME_MAX >= len(data)
        flags = h2.END_STREAM if end_stream and last else 0
        parts.append(h2.frame(Kind.DATA, flags, stream, data[at : at + h2.DEFAULT_FRAME_MAX]))
    return b"".join(parts)
