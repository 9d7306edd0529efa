"""Finds where TLS records end in bytes that arrive in pieces of any size.

Record   type u8 | version u16 | length u16 | as many bytes; big-endian. Only OpenSSL can read the contents.
"""

HEADER_BYTES = 5


class RecordReader:
    """The records of one direction of a connection, from its first byte on."""

    __slots__ = ("_head", "_left")

    def __init__(self) -> None:
        self._head = b""  # the begun header
        self._left = 0  # bytes left of the record whose header is complete

    def skip_records(self, data: "bytes | memoryview", most: int) -> tuple[int, int]:
        """Walk over `data` until `most` records have ended; return how many bytes that were, and how many records."""
        at, ended, size = 0, 0, len(data)
        if not self._left and not self._head and size >= HEADER_BYTES and data[3] << 8 | data[4] == size - HEADER_BYTES:
            return size, 1  # a single complete record, as most are
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
