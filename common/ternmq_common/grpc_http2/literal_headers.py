"""Header blocks without a dynamic table (RFC 7541), so that nothing of them is remembered for a connection.

Made     every field literal, never to be indexed: the same bytes for all connections.
Read     only the fields that are asked for. Names and values are looked up by the bytes in which they came, since
         clients say nearly the same again and again; a Huffman code is read once, and not at all where nobody asks.
Limits   a block's own length bounds what its fields can be, for there is no table to refer to.
Rules    every name is held against those of `header_rules`, and every value that is asked for.
"""

from collections.abc import Iterable
from typing import TypeVar

from hpack.exceptions import HPACKError
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

from ternmq_common.grpc_http2.frames import ErrorCode, Http2Error
from ternmq_common.grpc_http2.header_rules import MalformedHeaders, checked_name, checked_value

# To begin the first block with after the other side has said how large our table may be: it is empty.
NO_TABLE = b"\x20"
_STATIC = tuple((name.decode(), value.decode()) for name, value in HeaderTable.STATIC_TABLE)
_OF_HTTP_1 = "transfer-encoding"
# Those that `check_request` looks at.
RULED = frozenset(name for name, _ in _STATIC if name[0] == ":") | {"te", "content-length", _OF_HTTP_1}
# Literal, with its name spelt out: not to be indexed, never to be, or to be.
_SPELT = frozenset((0x00, 0x10, 0x40))
_CACHED_BYTES_MAX = 256
_CACHED_MAX = 8192
_V = TypeVar("_V")
# A length that needs more bytes than these is longer than any block.
_INTEGER_BYTES_MAX = 4


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


class HeaderReader:
    """Reads blocks of any connections that have no dynamic table; values of the names in `passing` differ each time."""

    def __init__(self, wanted: Iterable[str], *, passing: Iterable[str] = ()) -> None:
        self._wanted = frozenset(wanted) | RULED
        self._passing = frozenset(passing)
        self._static = tuple(name if name in self._wanted else None for name, _ in _STATIC)
        self._names: dict[bytes, str | None] = {}
        self._values: dict[bytes, str] = {}

    def read(self, block: bytes) -> dict[str, str]:
        """The wanted fields and those that begin with a colon; the last one of a name counts. Http2Error: this is no
        block; MalformedHeaders: it says what it may not."""
        try:
            return self._read(block)
        except (IndexError, HPACKError) as error:
            raise Http2Error(ErrorCode.COMPRESSION_ERROR, "a header block can't be read") from error

    def _read(self, block: bytes) -> dict[str, str]:
        found: dict[str, str] = {}
        names, values = self._names, self._values
        regular = False
        at, end = 0, len(block)
        while at < end:
            first = block[at]
            if first in _SPELT and (length := block[at + 1] & 0x7F) < 0x7F:
                # The usual field, of which all was seen before: without a call.
                middle = at + 2 + length
                coded = block[at + 1 : middle]
                name = names[coded] if coded in names else self._name(block[at + 1 : _past(block, at + 1)])
                at = _past(block, middle) if block[middle] & 0x7F == 0x7F else middle + 1 + (block[middle] & 0x7F)
                if at > end:
                    raise IndexError(at)
                if name is None:
                    regular = True
                    continue
                coded = block[middle:at]
                value = values[coded] if coded in values else self._value(name, coded)
            elif first & 0xE0 == 0x20:
                at = _no_table(block, at)
                continue
            else:
                name, value, at = self._indexed(block, at) if first & 0x80 else self._literal(block, at, first)
                if name is None:
                    regular = True
                    continue
            if name[0] != ":":
                regular = True
            elif regular or name in found:
                raise MalformedHeaders(f"the field {name} is there twice, or after others")
            found[name] = value
        if _OF_HTTP_1 in found:  # by its number, the one such name in the table that everybody has
            raise MalformedHeaders(f"no field may be called {_OF_HTTP_1}")
        return found

    def _indexed(self, block: bytes, at: int) -> tuple[str | None, str, int]:
        """A field of the static table (no name if nobody wants it), and where it ends."""
        index, at = _integer(block, at, 0x7F)
        if not index:
            raise IndexError(index)
        return self._static[index - 1], _STATIC[index - 1][1], at

    def _literal(self, block: bytes, at: int, first: int) -> tuple[str | None, str, int]:
        """A field that is spelt out, its name perhaps not (no name if nobody wants it), and where it ends."""
        index, at = _integer(block, at, 0x3F if first & 0x40 else 0x0F)
        if index:
            name = self._static[index - 1]
        else:
            begin, at = at, _past(block, at)
            name = self._name(block[begin:at])
        begin, at = at, _past(block, at)
        return name, "" if name is None else self._value(name, block[begin:at]), at

    def _name(self, coded: bytes) -> str | None:
        try:
            return self._names[coded]
        except KeyError:
            name = checked_name(_text(coded))
            wanted = name if name in self._wanted else None
            _remember(self._names, coded, wanted)
            return wanted

    def _value(self, name: str, coded: bytes) -> str:
        value = self._values.get(coded)
        if value is None:
            value = checked_value(name, _text(coded))
            if name not in self._passing:
                _remember(self._values, coded, value)
        return value


def _no_table(block: bytes, at: int) -> int:
    """Where a new size of the table ends, which must be none."""
    size, at = _integer(block, at, 0x1F)
    if size:
        raise Http2Error(ErrorCode.COMPRESSION_ERROR, f"a table of {size} bytes, and none is allowed")
    return at


def _remember(cache: dict[bytes, _V], coded: bytes, text: _V) -> None:
    if len(coded) <= _CACHED_BYTES_MAX:
        if len(cache) >= _CACHED_MAX:
            cache.clear()
        cache[coded] = text


def _integer(block: bytes, at: int, mask: int) -> tuple[int, int]:
    """The number that begins there in the bits of the mask, and where it ends."""
    number = block[at] & mask
    at += 1
    if number < mask:
        return number, at
    for shift in range(0, 7 * _INTEGER_BYTES_MAX, 7):
        part = block[at]
        at += 1
        number += (part & 0x7F) << shift
        if part < 0x80:
            return number, at
    raise IndexError(at)


def _past(block: bytes, at: int) -> int:
    """Where the string that begins there ends."""
    length, at = _integer(block, at, 0x7F)
    at += length
    if at > len(block):
        raise IndexError(at)
    return at


def _text(coded: bytes) -> str:
    _, begin = _integer(coded, 0, 0x7F)
    text = coded[begin:]
    return (decode_huffman(text) if coded[0] & 0x80 else text).decode("latin-1")
