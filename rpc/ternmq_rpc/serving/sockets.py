"""Opens the sockets of servers, and sets the options of connections. Addresses are `HOST:PORT`, or `unix:PATH`, as gRPC
writes a socket in the file system."""

import contextlib
import socket
import sys
from typing import Final

from ternmq_common.errors import StartupError
from ternmq_common.process.private_files import FILE_MODE

UNIX: Final = "unix:"
READ_BYTES: Final = 256 << 10
"""How much of a connection is read at once, at most."""
_IDLE_S, _INTERVAL_S, _COUNT = 10, 5, 3
_BACKLOG = 1024


def format_peer(peer: object) -> str:
    """Format a peer's socket name as `host:port`, with a host of IPv6 in brackets."""
    if not isinstance(peer, tuple):
        return str(peer) or "a process of this machine"
    host = f"[{peer[0]}]" if ":" in peer[0] else peer[0]
    return f"{host}:{peer[1]}"


def bind_socket(host_port: str, *, shared: bool = False) -> socket.socket:
    """Return a socket that listens at the address, for this process only. Raises StartupError if it is not available.

    `shared`: processes of the same user that say so too share it, and each connection goes to one of them. At
    `unix:PATH` the file is for this user alone; the file of a process that died is replaced.
    """
    if host_port.startswith(UNIX):
        return _bind_unix_socket(host_port.removeprefix(UNIX))
    sock = reserve_address(host_port, shared=shared)
    try:
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise _bind_error(host_port, error) from error
    return sock


def explain_bind_error(address: str, error: StartupError, *, protocol: str, option: str) -> StartupError:
    """Return the error that says why an address for the protocol is not available, and what to do; `option` sets the
    address."""
    reason = getattr(error.__cause__, "strerror", error)
    return StartupError(
        f"{protocol} can't listen on {address}: {reason}; stop what listens there, or choose another {option}"
    )


def reserve_address(host_port: str, *, shared: bool = False) -> socket.socket:
    """Return a socket that has the address `HOST:PORT`, and does not listen; see `bind_socket`.

    A process that shares an address first reserves it here without `shared`, which fails while others listen there, and
    then opens it by `share_address`.
    """
    host, _, port = host_port.rpartition(":")
    try:
        family, kind, protocol, _, name = socket.getaddrinfo(
            host.strip("[]") or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _bind_error(host_port, error) from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            share_address(sock)
        sock.bind(name)
    except OSError as error:
        sock.close()
        raise _bind_error(host_port, error) from error
    return sock


def share_address(sock: socket.socket) -> None:
    """Let processes of the same user that do the same use the socket's address too."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)


def actual_address(address: str, sock: socket.socket) -> str:
    """Return the address with the port that the socket has."""
    if address.startswith(UNIX):
        return address
    return f"{address.rpartition(':')[0]}:{sock.getsockname()[1]}"


def _bind_unix_socket(name: str) -> socket.socket:
    from pathlib import Path  # the client's side of this module does not use it, and a command should start fast

    path = Path(name)
    sock = socket.socket(socket.AF_UNIX)
    try:
        path.unlink(missing_ok=True)
        sock.bind(name)
        path.chmod(FILE_MODE)
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise _bind_error(f"{UNIX}{path}", error) from error
    return sock


def _bind_error(address: str, error: OSError) -> StartupError:
    return StartupError(f"{address} can't be listened on: {error.strerror or error}")


def keep_alive(sock: socket.socket | None) -> None:
    """Have the kernel notice that the peer is cut off, also while nothing is sent."""
    if sock is None:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # not a TCP socket
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _IDLE_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _INTERVAL_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _COUNT)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * (_IDLE_S + _INTERVAL_S * _COUNT))
