"""Text lines with checksums, and what can be read of a damaged file of such lines.

Line        crc32 and blake2b of the JSON, 8 hexadecimal digits each; a space; the JSON, a list; a newline
Correction  One damaged byte of a line, its newline included, is corrected: the crc32 tells which value the byte must
            have had, and blake2b confirms it. So an accepted line passes one of its two checks at least
Lost        Everything else between two whole lines. The number and contents of these lines are unknown
Torn tail   What follows the last newline and is no whole line: a write that a power cut interrupted
Version 1   had the crc32 only; its lines are not corrected
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from ternmq_common.binary.checksum import crc32

_DIGITS: Final = 8
_JSON_AT: Final = 2 * _DIGITS + 1
_JSON_AT_V1: Final = _DIGITS + 1
_BEGINNING: Final = re.compile(rb"[0-9a-f]{16} \[")
# The search for the damaged byte takes 0.1 us for each byte of the line.
_CORRECTED_BYTES_MAX: Final = 4 << 20

Fields = list[object]


@dataclass(frozen=True, slots=True)
class FoundLine:
    """A part of the file, `size` bytes from `start` on: a line as it was written, or None where it can't be read.

    For a torn tail `line` is None and `is_torn` true. `is_corrected`: the bytes in the file differ from the line's.
    """

    start: int
    size: int
    line: bytes | None = None
    is_corrected: bool = False
    is_torn: bool = False


def encode_line(fields: Fields) -> bytes:
    content = json.dumps(fields, separators=(",", ":")).encode()
    return _crc_digits(content) + _hash_digits(content) + b" " + content + b"\n"


def is_line(data: bytes) -> bool:
    """Tell whether the bytes are exactly one line of `encode_line`."""
    return data.endswith(b"\n") and b"\n" not in data[:-1] and _is_whole(data[:-1])


def line_identity(line: bytes) -> int:
    """Return a number that tells the line from others, as far as 32 bits do."""
    return int(line[:_DIGITS], 16)


def fields_of(line: bytes) -> Fields | None:
    """Return the fields of a whole line; None if it is no list in JSON, which only a bug or a forger writes."""
    content = line[_JSON_AT:] if _is_whole(line[:-1]) else line[_JSON_AT_V1:]
    try:
        fields = json.loads(content)
    except ValueError:
        return None
    return fields if isinstance(fields, list) else None


def read_lines(data: bytes) -> Iterator[FoundLine]:
    """Yield all parts of the file, from its start to its end."""
    *texts, tail = data.split(b"\n")
    position = 0
    bad: list[bytes] = []
    for text in texts:
        whole = _correct_line(text)
        if whole is None:
            bad.append(text)
            continue
        if bad:
            yield from _salvage_lines(b"\n".join(bad), position)
            position += sum(map(len, bad)) + len(bad)
            bad.clear()
        yield FoundLine(position, len(text) + 1, whole + b"\n", is_corrected=whole != text)
        position += len(text) + 1
    if bad:
        yield from _salvage_lines(b"\n".join(bad), position)
        position += sum(map(len, bad)) + len(bad)
    if tail:
        whole = _correct_line(tail) or _correct_line(tail[:-1])
        if whole is None:
            yield FoundLine(position, len(tail), is_torn=True)
        else:
            yield FoundLine(position, len(tail), whole + b"\n", is_corrected=True)


def _salvage_lines(text: bytes, start: int) -> Iterator[FoundLine]:
    """Yield the lines between which a newline was damaged, or the line in which a byte became a newline; else nothing
    readable.
    """
    whole = _correct_line(text)
    if whole is not None:
        yield FoundLine(start, len(text) + 1, whole + b"\n", is_corrected=True)
        return
    for beginning in _BEGINNING.finditer(text):
        at = beginning.start()
        if at and _is_whole(text[: at - 1]) and _is_whole(text[at:]):
            yield FoundLine(start, at, text[: at - 1] + b"\n", is_corrected=True)
            yield FoundLine(start + at, len(text) - at + 1, text[at:] + b"\n")
            return
    yield FoundLine(start, len(text) + 1)


def _correct_line(text: bytes) -> bytes | None:
    """Return the line as it was written, without its newline; None if that can't be found out."""
    if _is_whole(text) or _is_whole_v1(text):
        return text
    content = text[_JSON_AT:]
    if not content or len(content) > _CORRECTED_BYTES_MAX:
        return None
    crc, confirmation = _crc_digits(content), _hash_digits(content)
    if crc == text[:_DIGITS] or confirmation == text[_DIGITS : 2 * _DIGITS]:
        return crc + confirmation + b" " + content
    try:
        difference = int(text[:_DIGITS], 16) ^ crc32(content)
    except ValueError:
        return None
    for distance, change in _single_bytes(difference, len(content)):
        at = len(content) - 1 - distance
        candidate = content[:at] + bytes([content[at] ^ change]) + content[at + 1 :]
        if _hash_digits(candidate) == text[_DIGITS : 2 * _DIGITS]:
            return text[: 2 * _DIGITS] + b" " + candidate
    return None


def _is_whole(text: bytes) -> bool:
    content = text[_JSON_AT:]
    return (
        text[_DIGITS : 2 * _DIGITS] == _hash_digits(content)
        and text[:_DIGITS] == _crc_digits(content)
        and text[2 * _DIGITS : _JSON_AT] == b" "
    )


def _is_whole_v1(text: bytes) -> bool:
    return text[:_DIGITS] == _crc_digits(text[_JSON_AT_V1:])


def _crc_digits(content: bytes) -> bytes:
    return b"%08x" % crc32(content)


def _hash_digits(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGITS // 2).hexdigest().encode()


def _table_entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0xEDB88320 if byte & 1 else 0)
    return byte


_TABLE: Final = [_table_entry(byte) for byte in range(256)]
_BYTE_OF: Final = {entry: byte for byte, entry in enumerate(_TABLE)}
_BYTE_OF_TOP: Final = {entry >> 24: byte for byte, entry in enumerate(_TABLE)}


def _single_bytes(difference: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield which changes of one byte make the crc32 of `size` bytes differ so: the byte's distance from the end, and
    its bits.

    crc32 is linear: the difference is that of the changed byte alone, followed by zeros. So the zeros are taken back
    one by one, until the entry of a single byte is left.
    """
    for distance in range(size):
        change = _BYTE_OF.get(difference)
        if change:
            yield distance, change
        byte = _BYTE_OF_TOP[difference >> 24]
        difference = (difference ^ _TABLE[byte]) << 8 & 0xFFFFFFFF | byte
