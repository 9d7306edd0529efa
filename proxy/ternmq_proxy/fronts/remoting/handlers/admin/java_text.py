"""What Java does with texts."""

_BITS, _SIGN = 0xFFFFFFFF, 1 << 31


def java_hash(text: str) -> int:
    """Return the hash of a text as Java's `String.hashCode`: 32 bits, with a sign."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & _BITS
    return value - (value & _SIGN) * 2
