"""Blocking gRPC calls for threads: one connection, plain or with TLS, and the calls of one thread. A call returns all
messages of its answer together. grpc's own channel takes 6 us for each message of a stream, this one takes 1 us.
"""

import socket
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NoReturn

from ternmq_rpc.grpc_http2.client_machine import ClientMachine, Headers
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
# How many calls are open at a time: servers allow a hundred at least.
_TOGETHER_MAX = 100
_ENDS = frozenset((EventKind.ENDED, EventKind.BROKEN))


class _Call:
    """One call: its stream, and what came of it."""

    __slots__ = ("answer", "failure", "stream")

    def __init__(self, stream: WireStream) -> None:
        self.stream = stream
        self.answer: list[bytes] = []
        self.failure: StreamBroken | None = None


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

    def __del__(self) -> None:
        # Nobody tells readers of Spark that they are not needed any more.
        if hasattr(self, "_socket"):
            self._socket.close()

    @property
    def can_call(self) -> bool:
        """Whether another call is possible."""
        return self._machine.can_open and self._socket.fileno() >= 0

    def call_method(
        self, method: str, headers: Iterable[tuple[str, str]], request: bytes, *, timeout_s: float
    ) -> "list[bytes]":
        """Call a method; return all messages of the answer. `headers` are added to those of gRPC."""
        [answer] = self.call_together(method, headers, (request,), timeout_s=timeout_s)
        if isinstance(answer, StreamBroken):
            raise answer
        return answer

    def call_together(
        self, method: str, headers: Iterable[tuple[str, str]], requests: Sequence[bytes], *, timeout_s: float
    ) -> "list[list[bytes] | StreamBroken]":
        """Call a method with each of the requests at the same time; return what `call_method` would return or raise for
        each. If the connection fails, the error is raised."""
        deadline = time.monotonic() + timeout_s
        fields = tuple(headers)
        answers: list[list[bytes] | StreamBroken] = []
        for begin in range(0, len(requests), _TOGETHER_MAX):
            if not self.can_call:
                self._fail_call(f"the connection to {self._peer} takes no more calls")
            calls = [
                _Call(self._open_stream(method, fields, request, timeout_s))
                for request in requests[begin : begin + _TOGETHER_MAX]
            ]
            self._finish_calls(calls, deadline, timeout_s)
            answers += (call.answer if call.failure is None else call.failure for call in calls)
        return answers

    def _open_stream(self, method: str, headers: Headers, request: bytes, timeout_s: float) -> WireStream:
        stream = self._machine.open_stream(method, _create_stream, headers, timeout_s=timeout_s)
        self._machine.send_request(stream, request)
        return stream

    def _finish_calls(self, calls: "list[_Call]", deadline: float, timeout_s: float) -> None:
        """Exchange bytes until all calls have ended. StreamBroken: the connection failed."""
        unfinished = {call.stream.number: call for call in calls}
        try:
            while unfinished:
                self._exchange_bytes(unfinished, deadline)
        except TimeoutError:
            self._fail_call(f"{self._peer} did not answer within {timeout_s:g} s", GrpcStatus.DEADLINE_EXCEEDED)
        except OSError as error:
            # A server that wants another kind of connection, or a client certificate, mostly sends no more than that.
            when = "" if self._has_heard else ": closed before the server sent anything"
            self._fail_call(f"{self._peer}: {error}{when}")

    def _exchange_bytes(self, unfinished: "dict[int, _Call]", deadline: float) -> None:
        """Send what may be sent and receive once; remove the calls that have ended. StreamBroken: the connection
        failed."""
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._socket.settimeout(left_s)
        self._send_output()
        data = self._socket.recv(_READ_BYTES)
        if not data:
            raise ConnectionError("the connection was closed")
        self._has_heard = True
        ended = self._receive_bytes(data, unfinished)
        for call in unfinished.values():
            if messages := call.stream.incoming.messages:
                self._machine.count_read(call.stream, PREFIX_BYTES * len(messages) + sum(map(len, messages)))
                call.answer += messages
                messages.clear()
        for call in ended:
            del unfinished[call.stream.number]
        if self._machine.failure is not None and unfinished:
            self._fail_call(f"{self._peer} is not understood: {self._machine.failure}")

    def _receive_bytes(self, data: bytes, unfinished: "dict[int, _Call]") -> "list[_Call]":
        """Process received bytes; return the calls that have ended. StreamBroken: one ended with the connection."""
        ended: list[_Call] = []
        while True:
            for event, stream, text in self._machine.receive_bytes(data, time.monotonic()):
                call = None if stream is None else unfinished.get(stream.number)
                if call is None or event not in _ENDS:
                    continue
                ended.append(call)
                if event is EventKind.BROKEN:
                    if not call.stream.is_ended_there:
                        self._fail_call(f"{self._peer}: {text}", call.stream.status)
                    call.failure = StreamBroken(text, status=call.stream.status, details=call.stream.details)
            if not self._machine.has_backlog:
                return ended
            data = b""

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
