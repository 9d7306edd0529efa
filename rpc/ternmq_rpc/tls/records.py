"""Where the records of TLS end in bytes that come in pieces of any size.

Record   type u8 | version u16 | length u16 | as many bytes; big-endian. What is in one, only OpenSSL knows.
"""

HEADER_BYTES = 5


class Records:
    """Of one direction of a connection, from its first byte on."""

    __slots__ = ("_head", "_left")

    def __init__(self) -> None:
        self._head = b""  # part of a header
        self._left = 0  # of the record whose header was whole

    def walk(self, data: "bytes | memoryview", most: int) -> tuple[int, int]:
        """Go on over `data` until so many records have ended; how many bytes that were, and how many records ended."""
        at, ended, size = 0, 0, len(data)
        if not self._left and not self._head and size >= HEADER_BYTES and data[3] << 8 | data[4] == size - HEADER_BYTES:
            return size, 1  # one that is whole, as most come
        while at < size and ended < most:
            if not self._left:
                head = self._head + bytes(data[at : at + HEADER_BYTES - len(self._head)])
                at += len(head) - len(self._head)
                if len(head) < HEADER_BYTES:
                    self._head = head
                    break
                self._head = b""
                self._left = head[3] << 8 | head[4]
            here = min(self._left, size - at)
            at += here
            self._left -= here
            if not self._left:
                ended += 1
        return at, ended
