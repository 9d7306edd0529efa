"""Calls of a thread that waits for each answer: one connection without TLS, one call at a time, all messages of an
answer together. grpc's own channel takes 6 us for each message of a stream, this takes one.
"""

import socket
import time
from collections.abc import Iterable, Sequence
from typing import NoReturn

import hpack

from ternmq_common.grpc_stream import http2_frames as h2
from ternmq_common.grpc_stream.connection import CONNECTION_WINDOW, FRAME_MAX, HEADER_BYTES_MAX, MESSAGE_MAX, greeting
from ternmq_common.grpc_stream.header_blocks import HeaderBlocks
from ternmq_common.grpc_stream.http2_frames import DEFAULT_FRAME_MAX, DEFAULT_WINDOW, PREFACE, ErrorCode, Http2Error
from ternmq_common.grpc_stream.literal_headers import literal_block
from ternmq_common.grpc_stream.messages import (
    PREFIX,
    MessageReader,
    MessageRefused,
    Status,
    StreamBroken,
    status_text,
)
from ternmq_common.grpc_stream.sockets import keep_alive
from ternmq_common.grpc_stream.stream import STREAM_WINDOW

_READ_BYTES = 256 << 10
_LAST_STREAM = h2.WINDOW_MAX - 2


class BlockingConnection:
    """StreamBroken from any of its calls: its `status` is that of the server, if it told one; else the connection is
    of no more use, and whether the server did anything is unknown.

    Invariants: between calls no stream is open; `_window` is what the server still takes on the connection.
    """

    def __init__(self, addresses: Sequence[tuple[str, int]], *, timeout_s: float) -> None:
        """Connect to the first of the addresses that answers."""
        self._peer = ", ".join(f"{host}:{port}" for host, port in addresses)
        self._socket = _connected(addresses, timeout_s)
        keep_alive(self._socket)
        self._authority = "{}:{}".format(*addresses[0])
        self._frames = h2.FrameReader(FRAME_MAX)
        self._blocks = HeaderBlocks(HEADER_BYTES_MAX)
        self._decoder = hpack.Decoder(max_header_list_size=HEADER_BYTES_MAX)
        self._stream = -1
        self._window = self._stream_window = self._first_window = DEFAULT_WINDOW
        self._unread = self._stream_unread = 0
        self._answer = MessageReader(MESSAGE_MAX)
        self._last = False
        self._headers: dict[str, str] | None = None
        self._trailers: dict[str, str] | None = None
        self._send(PREFACE + greeting({h2.Setting.ENABLE_PUSH: 0}))

    def close(self) -> None:
        self._socket.close()

    @property
    def usable(self) -> bool:
        """Whether another call can be made."""
        return not self._last and self._socket.fileno() >= 0

    def call(
        self, method: str, headers: Iterable[tuple[str, str]], request: bytes, *, timeout_s: float
    ) -> "list[bytes]":
        """All messages of the answer; `headers` are what the caller adds."""
        deadline = time.monotonic() + timeout_s
        self._begin()
        try:
            self._ask(method, headers, request, deadline, timeout_s)
            while self._trailers is None:
                self._read(deadline)
        except TimeoutError:
            self._give_up(f"{self._peer} did not answer within {timeout_s:g} s", Status.DEADLINE_EXCEEDED)
        except (OSError, Http2Error, MessageRefused) as error:
            self._give_up(f"{self._peer}: {error}")
        return self._answered(self._trailers)

    def _begin(self) -> None:
        if self._stream >= _LAST_STREAM:
            self._give_up("the connection has no more numbers for streams")
        self._stream += 2
        self._stream_window = self._first_window
        self._stream_unread = 0
        self._answer = MessageReader(MESSAGE_MAX)
        self._headers = self._trailers = None

    def _ask(
        self, method: str, headers: Iterable[tuple[str, str]], request: bytes, deadline: float, timeout_s: float
    ) -> None:
        block = literal_block(
            (
                (":method", "POST"),
                (":scheme", "http"),
                (":path", method),
                (":authority", self._authority),
                ("te", "trailers"),
                ("content-type", "application/grpc"),
                ("user-agent", "ternmq"),
                ("grpc-timeout", f"{max(1, round(timeout_s * 1000))}m"),
                *headers,
            )
        )
        message = PREFIX.pack(0, len(request)) + request
        if len(message) > DEFAULT_FRAME_MAX:
            raise OSError(f"a request of {len(request)} bytes; at most {DEFAULT_FRAME_MAX} go in one frame")
        head = h2.header_frames(self._stream, block, DEFAULT_FRAME_MAX, end_stream=False)
        while min(self._window, self._stream_window) < len(message):
            self._read(deadline)
        self._window -= len(message)
        self._socket.settimeout(max(0.001, deadline - time.monotonic()))
        self._send(head + h2.frame(h2.DATA, h2.END_STREAM, self._stream, message))

    def _read(self, deadline: float) -> None:
        """Take what comes next."""
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._socket.settimeout(left_s)
        data = self._socket.recv(_READ_BYTES)
        if not data:
            raise ConnectionError("the connection was closed")
        for kind, flags, number, start, stop in self._frames.feed(data):
            if kind == h2.DATA:
                self._data(flags, number, start, stop)
            else:
                self._frame(kind, flags, number, self._frames.data[start:stop])
        self._give_back()

    def _data(self, flags: int, number: int, start: int, stop: int) -> None:
        self._unread += stop - start
        if number != self._stream:
            return  # of a call that has ended
        self._stream_unread += stop - start
        if flags & h2.PADDED:
            start, stop = h2.without_padding(self._frames.data, start, stop)
        self._answer.feed(self._frames.data, start, stop)
        if flags & h2.END_STREAM:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "the answer ended without a status")

    def _give_back(self) -> None:
        """Let the server send as much as was read."""
        updates = b""
        if self._unread > CONNECTION_WINDOW // 4:
            updates += h2.window_update(0, self._unread)
            self._unread = 0
        if self._stream_unread > STREAM_WINDOW // 2 and self._trailers is None:
            updates += h2.window_update(self._stream, self._stream_unread)
            self._stream_unread = 0
        if updates:
            self._send(updates)

    def _frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if self._blocks.stream and (kind != h2.CONTINUATION or number != self._blocks.stream):
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a header block was not continued")
        if kind == h2.HEADERS:
            self._header_block(number, self._blocks.begin(number, flags, payload))
        elif kind == h2.CONTINUATION:
            self._header_block(number, self._blocks.go_on(flags, payload))
        elif kind in (h2.SETTINGS, h2.PING):
            if not flags & h2.ACK:
                self._settings(payload) if kind == h2.SETTINGS else self._send(h2.frame(kind, h2.ACK, 0, payload))
        elif kind == h2.WINDOW_UPDATE:
            self._room(number, h2.read_u32(payload, "WINDOW_UPDATE") & h2.WINDOW_MAX)
        elif kind == h2.RST_STREAM and number == self._stream:
            raise ConnectionError(f"the call was broken off: {h2.error_name(h2.read_u32(payload, 'RST_STREAM'))}")
        elif kind == h2.GOAWAY:
            last, code, text = h2.read_goaway(payload)
            self._last = True
            if last < self._stream:
                raise ConnectionError(f"the server ends the connection: {h2.error_name(code)} {text}".rstrip())

    def _room(self, number: int, increment: int) -> None:
        if not number:
            self._window += increment
        elif number == self._stream:
            self._stream_window += increment

    def _settings(self, payload: bytes) -> None:
        for setting, value in h2.read_settings(payload):
            if setting == h2.Setting.INITIAL_WINDOW_SIZE:
                self._stream_window += value - self._first_window
                self._first_window = value
        self._send(h2.frame(h2.SETTINGS, h2.ACK, 0))

    def _header_block(self, number: int, block: bytes | None) -> None:
        if block is None:
            return
        try:
            pairs = self._decoder.decode(block, raw=True)
        except hpack.HPACKError as error:
            raise Http2Error(ErrorCode.COMPRESSION_ERROR, f"a header block can't be read: {error}") from error
        if number != self._stream:
            return
        headers = {bytes(name).decode("latin-1"): bytes(value).decode("latin-1") for name, value in pairs}
        if self._blocks.end_stream:
            self._trailers = headers
        if self._headers is None and not headers.get(":status", "").startswith("1"):
            self._headers = headers
            if headers.get(":status") != "200" or not headers.get("content-type", "").startswith("application/grpc"):
                raise ConnectionError(f"it does not speak gRPC: HTTP status {headers.get(':status', 'missing')}")

    def _answered(self, trailers: "dict[str, str] | None") -> "list[bytes]":
        assert trailers is not None
        status = trailers.get("grpc-status", str(int(Status.UNKNOWN)))
        if status != "0":
            text = status_text(status, trailers.get("grpc-message", ""))
            raise StreamBroken(text, status=int(status) if status.isdecimal() else None)
        if self._answer.partial:
            self._give_up("the answer ended within a message", Status.INTERNAL)
        return list(self._answer.messages)

    def _send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def _give_up(self, why: str, status: Status | None = None) -> NoReturn:
        self.close()
        raise StreamBroken(why, status=status) from None


def _connected(addresses: Sequence[tuple[str, int]], timeout_s: float) -> socket.socket:
    failures = []
    for host, port in addresses:
        try:
            return socket.create_connection((host, port), timeout_s)
        except OSError as error:
            failures.append(f"{host}:{port}: {error.strerror or error}")
    raise StreamBroken(f"no connection: {'; '.join(failures)}", status=Status.UNAVAILABLE)
