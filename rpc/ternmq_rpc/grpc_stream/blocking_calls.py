"""Blocking gRPC calls for threads: one connection, plain or with TLS, one call at a time. A call returns all messages
of its answer together. grpc's own channel takes 6 us for each message of a stream, this one takes 1 us.
"""

import socket
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NoReturn

from ternmq_rpc.grpc_http2.client_machine import ClientMachine
from ternmq_rpc.grpc_http2.events import EventKind
from ternmq_rpc.grpc_http2.messages import PREFIX_BYTES, GrpcStatus, StreamBroken
from ternmq_rpc.grpc_http2.wire_stream import WireStream
from ternmq_rpc.serving.budgets import ConnectionBudgets
from ternmq_rpc.serving.sockets import keep_alive

if TYPE_CHECKING:
    import ssl

_READ_BYTES = 256 << 10
_WRITE_BYTES = 1 << 20
_BUDGETS = ConnectionBudgets()


class BlockingConnection:
    """A connection of a client that waits for each answer.

    All its calls raise StreamBroken: `status` is that of the server, if it sent one. Without it the connection is of no
    more use, and it is unknown whether the server did anything.

    Invariant: between calls no stream is open.
    """

    def __init__(
        self,
        addresses: Sequence[tuple[str, int]],
        *,
        timeout_s: float,
        tls: "ssl.SSLContext | None" = None,
        server_name: str | None = None,
    ) -> None:
        """Connect to the first of the addresses that answers. With `tls`, its certificate must be for `server_name`, or
        for the host that is connected to."""
        self._peer = ", ".join(f"{host}:{port}" for host, port in addresses)
        self._socket = _open_socket(addresses, timeout_s, tls, server_name)
        self._has_heard = False
        self._machine: ClientMachine[WireStream] = ClientMachine(
            "{}:{}".format(*addresses[0]), _BUDGETS, time.monotonic()
        )
        try:
            self._send_output()
        except OSError as error:
            self._fail_call(f"{self._peer}: {error}", GrpcStatus.UNAVAILABLE)

    def close(self) -> None:
        self._socket.close()

    @property
    def can_call(self) -> bool:
        """Whether another call is possible."""
        return self._machine.can_open and self._socket.fileno() >= 0

    def call_method(
        self, method: str, headers: Iterable[tuple[str, str]], request: bytes, *, timeout_s: float
    ) -> "list[bytes]":
        """Call a method; return all messages of the answer. `headers` are added to those of gRPC."""
        if not self.can_call:
            self._fail_call(f"the connection to {self._peer} takes no more calls")
        deadline = time.monotonic() + timeout_s
        timeout = ("grpc-timeout", f"{max(1, round(timeout_s * 1000))}m")
        stream = self._machine.open_stream(method, _create_stream, (timeout, *headers))
        self._machine.send_messages(stream, (request,))
        self._machine.end_stream(stream)
        answer: list[bytes] = []
        try:
            while not self._exchange_bytes(stream, answer, deadline):
                pass
        except TimeoutError:
            self._fail_call(f"{self._peer} did not answer within {timeout_s:g} s", GrpcStatus.DEADLINE_EXCEEDED)
        except OSError as error:
            # A server that wants another kind of connection, or a client certificate, mostly sends no more than that.
            when = "" if self._has_heard else ": closed before the server sent anything"
            self._fail_call(f"{self._peer}: {error}{when}")
        return answer

    def _exchange_bytes(self, stream: WireStream, answer: list[bytes], deadline: float) -> bool:
        """Send what may be sent and receive once; return whether the call has ended. StreamBroken: it failed."""
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._socket.settimeout(left_s)
        self._send_output()
        data = self._socket.recv(_READ_BYTES)
        if not data:
            raise ConnectionError("the connection was closed")
        self._has_heard = True
        machine = self._machine
        over = False
        while True:
            for event, about, text in machine.receive_bytes(data, time.monotonic()):
                if about is stream:
                    over = self._handle_event(event, stream, text) or over
            data = b""
            if not machine.has_backlog:
                break
        if messages := stream.incoming.messages:
            machine.count_read(stream, PREFIX_BYTES * len(messages) + sum(map(len, messages)))
            answer += messages
            messages.clear()
        if machine.failure is not None and not over:
            self._fail_call(f"{self._peer} is not understood: {machine.failure}")
        return over

    def _handle_event(self, event: EventKind, stream: WireStream, text: str) -> bool:
        """Return whether the event ends the call in order. StreamBroken: it failed."""
        if event is EventKind.BROKEN:
            if not stream.is_ended_there:
                self._fail_call(f"{self._peer}: {text}", stream.status)
            raise StreamBroken(text, status=stream.status)
        return event is EventKind.ENDED

    def _send_output(self) -> None:
        while buffers := self._machine.take_output(_WRITE_BYTES):
            self._socket.sendall(b"".join(buffers))

    def _fail_call(self, why: str, status: int | None = None) -> NoReturn:
        self.close()
        raise StreamBroken(why, status=status) from None


def _create_stream(number: int, out_window: int) -> WireStream:
    return WireStream(number, out_window, message_max=_BUDGETS.message_bytes_max)


def _open_socket(
    addresses: Sequence[tuple[str, int]], timeout_s: float, tls: "ssl.SSLContext | None", server_name: str | None
) -> socket.socket:
    failures = []
    for host, port in addresses:
        try:
            connected = socket.create_connection((host, port), timeout_s)
            keep_alive(connected)
            return connected if tls is None else _start_tls(connected, tls, server_name or host)
        except OSError as error:  # also what a handshake raises
            failures.append(f"{host}:{port}: {error.strerror or error}")
    raise StreamBroken(f"no connection: {'; '.join(failures)}", status=GrpcStatus.UNAVAILABLE)


def _start_tls(connected: socket.socket, tls: "ssl.SSLContext", server_name: str) -> "ssl.SSLSocket":
    try:
        return tls.wrap_socket(connected, server_hostname=server_name)
    except OSError:
        connected.close()
        raise
