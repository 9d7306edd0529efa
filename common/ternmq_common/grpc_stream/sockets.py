"""What a connection asks of its socket."""

import contextlib
import socket
import sys

from ternmq_common.errors import StartupError

_IDLE_S, _INTERVAL_S, _COUNT = 10, 5, 3
_BACKLOG = 1024


def address(peer: object) -> str:
    """`host:port` of a peer's name as the socket has it, a host of IPv6 in brackets."""
    if not isinstance(peer, tuple):
        return str(peer)
    host = f"[{peer[0]}]" if ":" in peer[0] else peer[0]
    return f"{host}:{peer[1]}"


def bound(host_port: str) -> socket.socket:
    """A socket that has the address, which nobody else can take then; StartupError if it can't be had."""
    host, _, port = host_port.rpartition(":")
    try:
        family, kind, protocol, _, name = socket.getaddrinfo(
            host.strip("[]") or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
    except OSError as error:
        raise StartupError(f"{host_port} can't be listened on: {error.strerror}") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(name)
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise StartupError(f"{host_port} can't be listened on: {error.strerror}") from error
    return sock


def keep_alive(sock: socket.socket | None) -> None:
    """Have the kernel notice that the other side is cut off, also while nothing is said."""
    if sock is None:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # not a TCP socket
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _IDLE_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _INTERVAL_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _COUNT)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * (_IDLE_S + _INTERVAL_S * _COUNT))
