"""SipHash-2-4 with the key 00 01 .. 0f, by which Java, Go, Node.js and Rust clients choose the queue of a message
group.

Producers in different languages agree on the queue of a group only if all compute the same hash.
"""

_MASK = (1 << 64) - 1
_INITIAL = (
    0x0706050403020100 ^ 0x736F6D6570736575,
    0x0F0E0D0C0B0A0908 ^ 0x646F72616E646F6D,
    0x0706050403020100 ^ 0x6C7967656E657261,
    0x0F0E0D0C0B0A0908 ^ 0x7465646279746573,
)


def hash_siphash24(data: bytes) -> int:
    """Return the hash as an unsigned 64-bit number."""
    v0, v1, v2, v3 = _INITIAL
    # The last word has the rest of the data and, in its top byte, the length.
    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) & 0xFF])
    for start in range(0, len(padded), 8):
        word = int.from_bytes(padded[start : start + 8], "little")
        v0, v1, v2, v3 = _run_rounds(2, v0, v1, v2, v3 ^ word)
        v0 ^= word
    v0, v1, v2, v3 = _run_rounds(4, v0, v1, v2 ^ 0xFF, v3)
    return v0 ^ v1 ^ v2 ^ v3


def _run_rounds(count: int, v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    for _ in range(count):
        v0 = (v0 + v1) & _MASK
        v1 = _rotate_left(v1, 13) ^ v0
        v0 = _rotate_left(v0, 32)
        v2 = (v2 + v3) & _MASK
        v3 = _rotate_left(v3, 16) ^ v2
        v0 = (v0 + v3) & _MASK
        v3 = _rotate_left(v3, 21) ^ v0
        v2 = (v2 + v1) & _MASK
        v1 = _rotate_left(v1, 17) ^ v2
        v2 = _rotate_left(v2, 32)
    return v0, v1, v2, v3


def _rotate_left(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _MASK
