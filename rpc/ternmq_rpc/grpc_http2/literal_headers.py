"""Header blocks of literal fields only (RFC 7541): they mean the same to everybody, so that nothing of what was sent is
remembered for a connection."""

from collections.abc import Iterable

# To begin the first block with after the other side has said how large our table may be: it is empty.
NO_TABLE = b"\x20"


def literal_block(headers: Iterable[tuple[str, str]]) -> bytes:
    """A header block that means the same to everybody."""
    block = bytearray()
    for name, value in headers:
        block.append(0)
        for text in (name.encode("latin-1"), value.encode("latin-1")):
            block += _length(len(text)) + text
    return bytes(block)


def _length(length: int) -> bytes:
    if length < 0x7F:
        return bytes((length,))
    parts = bytearray((0x7F,))
    length -= 0x7F
    while length >= 0x80:
        parts.append(length & 0x7F | 0x80)
        length >>= 7
    parts.append(length)
    return bytes(parts)
