"""Free ports for servers of tests, which stay free for a server that ends and starts again.

Range    below the ephemeral ports of Linux and macOS, so that no connection of another process and no other server gets
         the port of a server while that server is down.
Block    a process takes its ports in turn out of a block of its own. It owns the block while it holds the UDP socket
         with the number of the block's first port; the kernel lets the block go when the process ends.
"""

import atexit
import socket
from functools import cache
from typing import Self

HOST = "127.0.0.1"
ANY_PORT = f"{HOST}:0"
FIRST_PORT, LAST_PORT = 12_000, 32_000
BLOCK_PORTS = 400


class PortBlock:
    """The ports of this process."""

    def __init__(self, first: int, owner: socket.socket) -> None:
        self._ports = range(first, first + BLOCK_PORTS)
        self._owner = owner
        self._given = 0

    @classmethod
    def claim(cls) -> Self:
        """Take the first block that no other process has; RuntimeError if there is none."""
        for first in range(FIRST_PORT, LAST_PORT, BLOCK_PORTS):
            owner = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            try:
                owner.bind((HOST, first))
            except OSError:
                owner.close()
            else:
                atexit.register(owner.close)
                return cls(first, owner)
        raise RuntimeError(f"all ports from {FIRST_PORT} to {LAST_PORT} belong to other test processes")

    def next_port(self) -> int:
        """The next port on which nobody listens; those given last come last."""
        for _ in self._ports:
            port = self._ports[self._given % BLOCK_PORTS]
            self._given += 1
            if is_free(port):
                return port
        raise RuntimeError(f"nothing is free from {self._ports[0]} to {self._ports[-1]}")


@cache
def own_block() -> PortBlock:
    """The block of this process."""
    return PortBlock.claim()


def is_free(port: int) -> bool:
    """Whether a server could listen on this port at every address."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A port on which nobody listens, and which no other test process gets from here."""
    return own_block().next_port()


def free_address() -> str:
    """`HOST:PORT` with such a port."""
    return f"{HOST}:{free_port()}"
