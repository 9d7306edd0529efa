"""Reads and writes the unsigned integers of binary formats, little-endian or big-endian.

Compiled, each is a few instructions, where `struct` takes a call, a tuple and an object for each number. Reads raise
IndexError beyond the end, writes OverflowError for a number that the field can't hold.
"""

from typing import Final

from librt.strings import (
    BytesWriter,
    read_i16_be,
    read_i16_le,
    read_i32_be,
    read_i32_le,
    read_i64_be,
    read_i64_le,
    write_i16_be,
    write_i16_le,
    write_i32_be,
    write_i32_le,
    write_i64_be,
    write_i64_le,
)

COPIED_BYTES_MAX: Final = 4096
"""A `BytesWriter` copies what it gets twice: more than so many bytes are joined to what it wrote."""
_U16: Final = 1 << 16
_U32: Final = 1 << 32
_U64: Final = 1 << 64
_SIGN_16: Final = 1 << 15
_SIGN_32: Final = 1 << 31
_SIGN_64: Final = 1 << 63
# Compiled code compares integers up to this one as machine words, and larger ones as objects.
_SHORT_MAX: Final = (1 << 62) - 1


def read_u16_le(data: bytes, at: int) -> int:
    value: int = read_i16_le(data, at)
    return value if value >= 0 else value + _U16


def read_u32_le(data: bytes, at: int) -> int:
    value: int = read_i32_le(data, at)
    return value if value >= 0 else value + _U32


def read_u64_le(data: bytes, at: int) -> int:
    value: int = read_i64_le(data, at)
    return value if value >= 0 else value + _U64


def read_u16_be(data: bytes, at: int) -> int:
    value: int = read_i16_be(data, at)
    return value if value >= 0 else value + _U16


def read_u32_be(data: bytes, at: int) -> int:
    value: int = read_i32_be(data, at)
    return value if value >= 0 else value + _U32


def read_u64_be(data: bytes, at: int) -> int:
    value: int = read_i64_be(data, at)
    return value if value >= 0 else value + _U64


def write_u16_le(writer: BytesWriter, value: int) -> None:
    write_i16_le(writer, _signed(value, _SIGN_16))


def write_u32_le(writer: BytesWriter, value: int) -> None:
    write_i32_le(writer, _signed(value, _SIGN_32))


def write_u64_le(writer: BytesWriter, value: int) -> None:
    if 0 <= value <= _SHORT_MAX:
        write_i64_le(writer, value)
    else:
        write_i64_le(writer, _signed(value, _SIGN_64))


def write_u16_be(writer: BytesWriter, value: int) -> None:
    write_i16_be(writer, _signed(value, _SIGN_16))


def write_u32_be(writer: BytesWriter, value: int) -> None:
    write_i32_be(writer, _signed(value, _SIGN_32))


def write_u64_be(writer: BytesWriter, value: int) -> None:
    if 0 <= value <= _SHORT_MAX:
        write_i64_be(writer, value)
    else:
        write_i64_be(writer, _signed(value, _SIGN_64))


def replace_u32_be(writer: BytesWriter, at: int, value: int) -> None:
    """Replace four bytes that were written before, at that position."""
    writer[at] = value >> 24
    writer[at + 1] = value >> 16 & 0xFF
    writer[at + 2] = value >> 8 & 0xFF
    writer[at + 3] = value & 0xFF


def replace_u16_be(writer: BytesWriter, at: int, value: int) -> None:
    """Replace two bytes that were written before, at that position."""
    writer[at] = value >> 8
    writer[at + 1] = value & 0xFF


def _signed(value: int, sign: int) -> int:
    """Return the signed number that has the same bits, where `sign` is the highest of them."""
    if 0 <= value < sign:
        return value
    if value < 0 or value >= 2 * sign:
        raise OverflowError(f"{value} does not fit into the field")
    return value - 2 * sign
