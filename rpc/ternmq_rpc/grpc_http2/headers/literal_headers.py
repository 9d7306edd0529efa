"""Encodes header blocks of literal fields only (RFC 7541). They need no table, so nothing of what was sent has to be
remembered for a connection."""

from collections.abc import Iterable
from typing import Final

# Begins the first block after the peer has announced its table size: ours is empty.
NO_TABLE: Final = b"\x20"


def literal_block(headers: Iterable[tuple[str, str]]) -> bytes:
    """Encode headers as a block that is valid on every connection."""
    block = bytearray()
    for name, value in headers:
        block.append(0)
        for text in (name.encode("latin-1"), value.encode("latin-1")):
            block += _encode_length(len(text)) + text
    return bytes(block)


def _encode_length(length: int) -> bytes:
    if length < 0x7F:
        return bytes((length,))
    parts = bytearray((0x7F,))
    length -= 0x7F
    while length >= 0x80:
        parts.append(length & 0x7F | 0x80)
        length >>= 7
    parts.append(length)
    return bytes(parts)
