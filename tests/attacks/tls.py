"""What a port of TLS is offered: handshakes that do not end, or end at once, updates of keys, halves of connections.

The server takes plain text at the same port, and the healthy client comes by it: the same event loop serves both.
"""

import contextlib
import math
import select
import socket
import ssl
import time
from collections.abc import Iterator

from tests.attacks.slow import GRACE_S, TIMEOUT_S, Held
from tests.attacks.target import CLIENT_ID, SEND, Target
from tests.support import http2_wire as h2
from tests.support.http2_wire import Kind
from tests.support.key_updates import connected

_HELD = 100
_MANY = 450
_SOCKET_TIMEOUT_S = 5.0
_UPDATES_AT_ONCE = 500
_HALVES = 20


def _believing() -> ssl.SSLContext:
    """A client that asks for nothing."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


def _hello() -> bytes:
    """A whole ClientHello."""
    going = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        _believing().wrap_bio(ssl.MemoryBIO(), going).do_handshake()
    return going.read()


@contextlib.contextmanager
def _socket(target: Target) -> Iterator[socket.socket]:
    """A connection; that it is lost, or TLS fails, ends the block."""
    host, _, port = target.grpc.rpartition(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), _SOCKET_TIMEOUT_S) as sock:
        target.count("connections")
        yield sock


def unanswered_handshakes(target: Target) -> None:
    """The client says hello, and nothing more."""
    Held(target, target.grpc, _HELD, _hello()).hold()


def many_handshakes(target: Target) -> None:
    """More of these than there are descriptors."""
    Held(target, target.grpc, _MANY, _hello(), limit_s=math.inf).hold()


def slow_handshakes(target: Target) -> None:
    """A hello that comes byte by byte."""
    hello = _hello()
    Held(target, target.grpc, _HELD, hello[:100], hello[100:101]).hold()


def handshakes_in_a_loop(target: Target) -> None:
    """The server signs, and the client has left."""
    hello = _hello()
    while target.left_s:
        with _socket(target) as sock:
            sock.sendall(hello)
            sock.recv(1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")


def handshakes_given_up(target: Target) -> None:
    """The client says hello and closes, as fast as it can."""
    hello = _hello()
    while target.left_s:
        with _socket(target) as sock:
            sock.sendall(hello)


def key_updates(target: Target) -> None:
    """Keys are changed again and again, and the server is asked to change its own."""
    _updates(target, answered=True)


def unanswered_key_updates(target: Target) -> None:
    """Keys are changed again and again, which the server need not answer."""
    _updates(target, answered=False)


def _updates(target: Target, *, answered: bool) -> None:
    greeting = h2.PREFACE + h2.settings({})
    for _ in target.rounds():
        with _socket(target) as sock, connected(sock, opening=greeting) as client:
            target.count("shaken")
            while target.left_s:
                sock.sendall(client.updates(_UPDATES_AT_ONCE, answered=answered))
                target.count("updates", _UPDATES_AT_ONCE)


def half_closes(target: Target) -> None:
    """A call that is not whole, on a connection whose one half is closed: without a word, or with that of TLS."""
    head = h2.frame(Kind.HEADERS, h2.END_HEADERS, 1, h2.block(h2.call_fields(SEND, CLIENT_ID)))
    begun = h2.PREFACE + h2.settings({}) + head + h2.frame(Kind.DATA, 0, 1, b"\0" + h2.u32(1 << 10))
    context = _believing()
    for number in target.rounds():
        with contextlib.ExitStack() as stack:
            halves = [_half(target, context, begun, with_word=number % 2 == 0) for _ in range(_HALVES)]
            for half in halves:
                stack.enter_context(half)
            target.count("overdue", _still_open(halves))


def _half(target: Target, context: ssl.SSLContext, begun: bytes, *, with_word: bool) -> socket.socket:
    host, _, port = target.grpc.rpartition(":")
    raw = socket.create_connection((host, int(port)), _SOCKET_TIMEOUT_S)
    target.count("connections")
    coming, going = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(coming, going)
    while True:
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.do_handshake()
            break
        raw.sendall(going.read())
        coming.write(raw.recv(1 << 16))
    tls.write(begun)
    if with_word:
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.unwrap()
    raw.sendall(going.read())
    if not with_word:
        raw.shutdown(socket.SHUT_WR)
    return raw


def _still_open(halves: list[socket.socket]) -> int:
    """How many the server has not closed in its time."""
    waiting, deadline = set(halves), time.monotonic() + TIMEOUT_S + GRACE_S
    while waiting and (left := deadline - time.monotonic()) > 0:
        for sock in select.select(list(waiting), [], [], left)[0]:
            if _is_closed(sock):
                waiting.discard(sock)
    return len(waiting)


def _is_closed(sock: socket.socket) -> bool:
    try:
        return not sock.recv(1 << 16)
    except OSError:
        return True
