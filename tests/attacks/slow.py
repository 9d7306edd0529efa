"""Connections that are many, or slow.

Overdue   those that were still open `GRACE_S` after their time limit. A call that the server has ended counts as
          closed: the connection is an idle one then.
"""

import contextlib
import math
import select
import socket
import time

from tests.attacks.target import CLIENT_ID, SEND, TOPIC, Target
from tests.support import http2_wire as h2
from tests.support.http2_wire import Frame, Kind

# What the server is told, in milliseconds, and what the attacks reckon with.
TIMEOUT_S = 1.0
# A server may look once a second, and say that it closes before it does.
GRACE_S = 2.5
TIMEOUTS = {
    "TERNMQ_EXPERT_HEADER_TIMEOUT_MS": "1000",
    "TERNMQ_EXPERT_BODY_TIMEOUT_MS": "1000",
    "TERNMQ_EXPERT_CONNECTION_IDLE_MS": "1000",
    "TERNMQ_EXPERT_KEEPALIVE_MS": "1000",
    "TERNMQ_EXPERT_KEEPALIVE_TIMEOUT_MS": "1000",
}
_HELD = 100
_MANY = 450
_DRIP_S = 0.2
_CONNECT_TIMEOUT_S = 2.0
_WAIT = f"GET /api/v1/topics/{TOPIC}/queues/0/messages?offset=0&wait=20s HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()
_LINES = b"GET /api/v1/topics HTTP/1.1\r\nhost: localhost\r\naccept: application/x-ndjson\r\n\r\n"


class Held:
    """Sockets that are kept open, each with the moment at which it began to be half of something."""

    def __init__(
        self, target: Target, address: str, count: int, opening: bytes, drip: bytes = b"", *, limit_s: float = TIMEOUT_S
    ) -> None:
        self._target = target
        host, _, port = address.rpartition(":")
        self._address = (host, int(port))
        self._count, self._opening, self._drip, self._limit_s = count, opening, drip, limit_s
        self._open: dict[socket.socket, tuple[float, h2.FrameParser]] = {}
        self._overdue = set[socket.socket]()

    def hold(self) -> None:
        """Open them, again when they are closed, and say a little now and then, until the attack is over."""
        try:
            while self._target.left_s:
                self._open_missing()
                time.sleep(_DRIP_S)
                for sock in list(self._open):
                    self._attend(sock)
        finally:
            for sock in self._open:
                sock.close()
        self._target.facts["overdue"] = len(self._overdue)

    def _open_missing(self) -> None:
        while len(self._open) < self._count and self._target.left_s:
            sock = socket.socket()
            sock.settimeout(_CONNECT_TIMEOUT_S)
            try:
                sock.connect(self._address)
                sock.sendall(self._opening)
            except OSError:
                sock.close()
                return
            sock.setblocking(False)
            self._open[sock] = (time.monotonic(), h2.FrameParser())
            self._target.count("connections")

    def _attend(self, sock: socket.socket) -> None:
        began, frames = self._open[sock]
        if _ended(sock, frames):
            del self._open[sock]
            sock.close()
            return
        if time.monotonic() - began > self._limit_s + GRACE_S:
            self._overdue.add(sock)
        if self._drip:
            with contextlib.suppress(OSError):  # seen as ended the next time
                sock.send(self._drip)


def _ended(sock: socket.socket, frames: h2.FrameParser) -> bool:
    """Whether the server has closed the connection, or has ended the call on it."""
    try:
        while select.select([sock], [], [], 0)[0]:
            data = sock.recv(1 << 16)
            if not data or any(frame.stream and _ends_call(frame) for frame in frames.feed(data)):
                return True
    except BlockingIOError:
        return False
    except OSError:
        return True
    return False


def _ends_call(frame: Frame) -> bool:
    return frame.kind == Kind.RST_STREAM or (frame.kind == Kind.HEADERS and bool(frame.flags & h2.END_STREAM))


def many_connections(target: Target) -> None:
    """More connections than there are descriptors."""
    Held(target, target.grpc, _MANY, h2.PREFACE + h2.settings({}), limit_s=math.inf).hold()


def half_headers(target: Target) -> None:
    """A header block that does not end."""
    begun = h2.frame(Kind.HEADERS, 0, 1, h2.block(h2.call_fields(SEND, CLIENT_ID)))
    Held(target, target.grpc, _HELD, h2.PREFACE + h2.settings({}) + begun).hold()


def half_bodies(target: Target) -> None:
    """A request that comes byte by byte."""
    head = h2.frame(Kind.HEADERS, h2.END_HEADERS, 1, h2.block(h2.call_fields(SEND, CLIENT_ID)))
    promise = h2.frame(Kind.DATA, 0, 1, b"\0" + h2.u32(1 << 10))
    one_byte = h2.frame(Kind.DATA, 0, 1, b"x")
    Held(target, target.grpc, _HELD, h2.PREFACE + h2.settings({}) + head + promise, one_byte).hold()


def idle_connections(target: Target) -> None:
    """Connections on which nothing happens."""
    Held(target, target.grpc, _HELD, h2.PREFACE + h2.settings({})).hold()


def half_greetings(target: Target) -> None:
    """Connections that do not say that they speak HTTP/2."""
    Held(target, target.grpc, _HELD, h2.PREFACE[:10]).hold()


def long_polls(target: Target) -> None:
    """Waits for messages by the JSON API, as many as there may be connections and more."""
    Held(target, target.http, _HELD, _WAIT, limit_s=math.inf).hold()


def unread_lines(target: Target) -> None:
    """Lists by the JSON API that are asked for again and again, and not read."""
    Held(target, target.http, _HELD, _LINES * 200, limit_s=math.inf).hold()


def slow_http(target: Target) -> None:
    """Requests to the HTTP front that come byte by byte."""
    Held(target, target.http, _HELD, b"GET /health/live HTTP/1.1\r\nHost: test\r\nX-Slow: ", b"x").hold()
