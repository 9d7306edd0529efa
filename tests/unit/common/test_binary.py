"""Numbers and checksums of binary formats: as `struct` and `zlib` have them."""

import struct
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from ternmq_common.binary import numbers
from ternmq_common.binary.checksum import crc32

Write = Callable[[BytesWriter, int], None]
Read = Callable[[bytes, int], int]
FORMS: list[tuple[str, Write, Read]] = [
    ("<H", numbers.write_u16_le, numbers.read_u16_le),
    ("<I", numbers.write_u32_le, numbers.read_u32_le),
    ("<Q", numbers.write_u64_le, numbers.read_u64_le),
    (">H", numbers.write_u16_be, numbers.read_u16_be),
    (">I", numbers.write_u32_be, numbers.read_u32_be),
    (">Q", numbers.write_u64_be, numbers.read_u64_be),
]
each_form = pytest.mark.parametrize(("form", "write", "read"), FORMS, ids=[form for form, *_ in FORMS])


def edges(form: str) -> st.SearchStrategy[int]:
    """Numbers that fit, often those next to a limit."""
    end: int = 1 << 8 * struct.calcsize(form)
    limits = [limit + more for limit in (0, end // 4, end // 2, end) for more in (-1, 0) if 0 <= limit + more < end]
    return st.one_of(st.integers(0, end - 1), st.sampled_from(limits))


@each_form
@given(data=st.data(), before=st.binary(max_size=9))
def test_a_number_is_written_and_read_as_struct_does(
    form: str, write: Write, read: Read, data: st.DataObject, before: bytes
) -> None:
    value = data.draw(edges(form))
    writer = BytesWriter()
    writer.write(before)
    write(writer, value)
    assert writer.getvalue() == before + struct.pack(form, value)
    assert read(writer.getvalue(), len(before)) == value


@each_form
def test_a_number_that_does_not_fit_is_refused(form: str, write: Write, read: Read) -> None:
    size = struct.calcsize(form)
    for value in (-1, 1 << 8 * size, (1 << 8 * size) + 1, 3 << 8 * size, -(1 << 8 * size)):
        with pytest.raises(OverflowError):
            write(BytesWriter(), value)
    for at in (1, 2, size):
        with pytest.raises(IndexError):
            read(bytes(size), at)


@given(before=st.binary(max_size=9), after=st.binary(max_size=9), long=st.integers(0, 2**32 - 1))
def test_numbers_are_replaced_where_they_were(before: bytes, after: bytes, long: int) -> None:
    writer = BytesWriter()
    writer.write(before + bytes(6) + after)
    numbers.replace_u32_be(writer, len(before), long)
    numbers.replace_u16_be(writer, len(before) + 4, long >> 16)
    assert writer.getvalue() == before + struct.pack(">IH", long, long >> 16) + after


@given(first=st.binary(max_size=300), second=st.binary(max_size=300))
def test_a_checksum_is_that_of_zlib(first: bytes, second: bytes) -> None:
    assert crc32(first) == zlib.crc32(first)
    assert crc32(second, crc32(first)) == zlib.crc32(first + second)
    assert crc32(memoryview(first)) == zlib.crc32(first)
