"""Lines of text that vouch for themselves, and what can be read of them when their file was damaged.

Line        crc32 and blake2b of the JSON, 8 hexadecimal digits each; a space; the JSON, a list; a newline
Mending     one damaged byte of a line, its newline included, is put right: from the crc32 follows which byte it must
            have been, and blake2b confirms it. So whatever is accepted fits one of its two checks at least
Lost        everything else between two whole lines. How many lines that were, and what they said, nobody can tell
Torn tail   what follows the last newline and is no whole line: a write that a power cut interrupted
Version 1   had the crc32 only; there nothing is mended
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from zlib import crc32

_DIGITS = 8
_JSON_AT = 2 * _DIGITS + 1
_JSON_AT_V1 = _DIGITS + 1
_BEGINNING = re.compile(rb"[0-9a-f]{16} \[")
# Looking for the damaged byte takes 0.1 us for each byte of the line.
_MENDED_BYTES_MAX = 4 << 20

Fields = list[object]


@dataclass(frozen=True, slots=True)
class Found:
    """A stretch of the file, `size` bytes from `start` on: a line as it was written, or None where nothing is left.

    Of a torn tail `line` is None and `torn` true. `mended`: the bytes there differ from the line's.
    """

    start: int
    size: int
    line: bytes | None = None
    mended: bool = False
    torn: bool = False


def encode(fields: Fields) -> bytes:
    content = json.dumps(fields, separators=(",", ":")).encode()
    return _crc(content) + _confirmation(content) + b" " + content + b"\n"


def is_line(data: bytes) -> bool:
    """Whether that is one line as `encode` makes it, to its last byte."""
    return data.endswith(b"\n") and b"\n" not in data[:-1] and _is_whole(data[:-1])


def identity(line: bytes) -> int:
    """Tells a line from others, as far as 32 bits do."""
    return int(line[:_DIGITS], 16)


def fields_of(line: bytes) -> Fields | None:
    """What a whole line says; None if that is no list in JSON, which only a bug or a forger writes."""
    content = line[_JSON_AT:] if _is_whole(line[:-1]) else line[_JSON_AT_V1:]
    try:
        fields = json.loads(content)
    except ValueError:
        return None
    return fields if isinstance(fields, list) else None


def read(data: bytes) -> Iterator[Found]:
    """All that the file holds, from its start to its end."""
    *texts, tail = data.split(b"\n")
    position = 0
    bad: list[bytes] = []
    for text in texts:
        whole = _mended(text)
        if whole is None:
            bad.append(text)
            continue
        if bad:
            yield from _salvaged(b"\n".join(bad), position)
            position += sum(map(len, bad)) + len(bad)
            bad.clear()
        yield Found(position, len(text) + 1, whole + b"\n", mended=whole != text)
        position += len(text) + 1
    if bad:
        yield from _salvaged(b"\n".join(bad), position)
        position += sum(map(len, bad)) + len(bad)
    if tail:
        whole = _mended(tail) or _mended(tail[:-1])
        if whole is None:
            yield Found(position, len(tail), torn=True)
        else:
            yield Found(position, len(tail), whole + b"\n", mended=True)


def _salvaged(text: bytes, start: int) -> Iterator[Found]:
    """Lines between which a newline was damaged, or the one in which a byte became a newline; else nothing."""
    whole = _mended(text)
    if whole is not None:
        yield Found(start, len(text) + 1, whole + b"\n", mended=True)
        return
    for beginning in _BEGINNING.finditer(text):
        at = beginning.start()
        if at and _is_whole(text[: at - 1]) and _is_whole(text[at:]):
            yield Found(start, at, text[: at - 1] + b"\n", mended=True)
            yield Found(start + at, len(text) - at + 1, text[at:] + b"\n")
            return
    yield Found(start, len(text) + 1)


def _mended(text: bytes) -> bytes | None:
    """The line without its newline as it was written; None if it can't be told."""
    if _is_whole(text) or _is_whole_v1(text):
        return text
    content = text[_JSON_AT:]
    if not content or len(content) > _MENDED_BYTES_MAX:
        return None
    crc, confirmation = _crc(content), _confirmation(content)
    if crc == text[:_DIGITS] or confirmation == text[_DIGITS : 2 * _DIGITS]:
        return crc + confirmation + b" " + content
    try:
        difference = int(text[:_DIGITS], 16) ^ crc32(content)
    except ValueError:
        return None
    for distance, change in _single_bytes(difference, len(content)):
        at = len(content) - 1 - distance
        candidate = content[:at] + bytes([content[at] ^ change]) + content[at + 1 :]
        if _confirmation(candidate) == text[_DIGITS : 2 * _DIGITS]:
            return text[: 2 * _DIGITS] + b" " + candidate
    return None


def _is_whole(text: bytes) -> bool:
    content = text[_JSON_AT:]
    return (
        text[_DIGITS : 2 * _DIGITS] == _confirmation(content)
        and text[:_DIGITS] == _crc(content)
        and text[2 * _DIGITS : _JSON_AT] == b" "
    )


def _is_whole_v1(text: bytes) -> bool:
    return text[:_DIGITS] == _crc(text[_JSON_AT_V1:])


def _crc(content: bytes) -> bytes:
    return b"%08x" % crc32(content)


def _confirmation(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGITS // 2).hexdigest().encode()


def _table_entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0xEDB88320 if byte & 1 else 0)
    return byte


_TABLE = [_table_entry(byte) for byte in range(256)]
_BYTE_OF = {entry: byte for byte, entry in enumerate(_TABLE)}
_BYTE_OF_TOP = {entry >> 24: byte for byte, entry in enumerate(_TABLE)}


def _single_bytes(difference: int, size: int) -> Iterator[tuple[int, int]]:
    """Which changes of one byte make the crc32 of `size` bytes differ so: its distance from the end, and the bits.

    crc32 is linear: the difference is that of the changed byte alone, followed by zeros. So zeros are taken back, one
    after the other, until what is left is the entry of one byte.
    """
    for distance in range(size):
        change = _BYTE_OF.get(difference)
        if change:
            yield distance, change
        byte = _BYTE_OF_TOP[difference >> 24]
        difference = (difference ^ _TABLE[byte]) << 8 & 0xFFFFFFFF | byte
