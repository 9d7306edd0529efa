"""Reads HTTP/2 header blocks (RFC 7541). Each connection has its dynamic table; all share a cache of names and values.

Fields     are looked up by their coded bytes, since clients send nearly the same again and again. Entries of tables are
           shared in this way too: a table is a list of references.
Evictions  happen late, and only to save memory. The size of a coded value is known only after decoding it, so fields
           that are not read are not decoded and count only the size of their names. It does no harm that a table still
           has entries that its client has evicted: clients refer to an entry by how many came after it.
Rules      every name is checked by `header_rules`, and every value that is read. A malformed block is read to its end,
           since the connection and its table go on. The first block of a connection is checked against the whole RFC,
           so that a client with a wrong encoder learns it at once.
Limits     the length of a block limits how many fields it has, the bytes of a table what it holds; the shared cache has
           a limit too.
"""

from collections.abc import Iterable
from typing import Final

from hpack import Decoder
from hpack.exceptions import HPACKError
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable as _HpackTable

from ternmq_rpc.grpc_http2.frames import ErrorCode, Http2Error
from ternmq_rpc.grpc_http2.headers.header_rules import RULED, MalformedHeaders, checked_name, checked_value

# A client may use this before it has received our settings, and official ones don't use more.
TABLE_BYTES_MAX: Final = 4096
_STATIC: Final = tuple((name.decode(), value.decode()) for name, value in _HpackTable.STATIC_TABLE)
_STATIC_LAST: Final = len(_STATIC)
_STATIC_LAST_BYTE: Final = 0x80 + _STATIC_LAST
# The first bytes of a literal field with its name spelled out: without indexing, never indexed, or indexed.
_SPELT: Final = frozenset((0x00, 0x10, 0x40))
_ENTRY_BYTES: Final = 32
# Not a name; in the fields that were read its value says why the block is malformed.
_MALFORMED: Final = "\0"
_CACHED_BYTES_MAX: Final = 256
_CACHED_MAX: Final = 8192
# By so much a table may exceed its limit for a while: an eviction for each entry would cost as much as to read it.
_LATE_BYTES: Final = 512
# A number that needs more bytes than these is longer than any block.
_INTEGER_BYTES_MAX: Final = 4


class _FieldName:
    """A field name. `shared_field`: the one field used for all fields of this name if their values are not read;
    else None, and `values` has the fields that were seen, by their coded bytes. `bytes_min`: the least that an entry of
    it counts."""

    __slots__ = ("bytes_min", "shared_field", "text", "values")

    def __init__(self, text: str, *, wanted: bool = False) -> None:
        self.text = text
        self.bytes_min = _ENTRY_BYTES + len(text)
        self.values: dict[bytes, _HeaderField] = {} if wanted else _NO_VALUES
        self.shared_field: _HeaderField | None = None
        if not wanted:
            try:
                checked_name(text)
                self.shared_field = _HeaderField(None, "", self, self.bytes_min)
            except MalformedHeaders as error:
                self.shared_field = _HeaderField(_MALFORMED, str(error), self, self.bytes_min)


class _HeaderField:
    """One header field. `name` is None if it is not read; `size`: how many bytes it counts in a table. Not a tuple:
    compiled code creates a new one wherever one is kept, and tables share their fields."""

    __slots__ = ("known", "name", "size", "value")

    def __init__(self, name: str | None, value: str, known: _FieldName, size: int) -> None:
        self.name = name
        self.value = value
        self.known = known
        self.size = size


_NO_VALUES: Final[dict[bytes, _HeaderField]] = {}


class HeaderTable:
    """The dynamic table of one connection: `entries`, the newest last. `held_bytes`: how many bytes they count; the
    limit `bytes_max` is chosen by the client."""

    __slots__ = ("bytes_max", "entries", "held_bytes")

    def __init__(self) -> None:
        self.entries: list[_HeaderField] = []
        self.held_bytes = 0
        self.bytes_max = TABLE_BYTES_MAX

    def apply_resizes(self, block: bytes) -> int:
        """Apply the table sizes that a block begins with; return where its fields begin."""
        at = 0
        while at < len(block) and block[at] & 0xE0 == 0x20:
            self.bytes_max, at = _read_integer(block, at, 0x1F)
            if self.bytes_max > TABLE_BYTES_MAX:
                raise Http2Error(ErrorCode.COMPRESSION_ERROR, f"a table of {self.bytes_max} bytes is too large")
            self.evict_entries()
        return at

    def evict_entries(self) -> None:
        """Remove the oldest entries until the others fit."""
        gone = 0
        while self.held_bytes > self.bytes_max:
            self.held_bytes -= self.entries[gone].size
            gone += 1
        del self.entries[:gone]

    def add_large(self, field: _HeaderField, coded: bytes) -> None:
        """Add a field that may be larger than the table; if it is, the table becomes empty."""
        size = field.known.bytes_min
        if size > self.bytes_max or size + len(_decode_text(coded)) > self.bytes_max:
            self.held_bytes = 0
            self.entries.clear()
        else:
            self.entries.append(field)
            self.held_bytes += field.size
            self.evict_entries()


class HeaderReader:
    """Reads header blocks of any connection; `wanted` are the names of the fields that somebody reads. It caches up to
    `cached_max` names, and as many values."""

    def __init__(self, wanted: Iterable[str], cached_max: int = _CACHED_MAX) -> None:
        self._cached_max = cached_max
        self._wanted = {name: _FieldName(name, wanted=True) for name in {*wanted, *RULED}}
        self._names: dict[bytes, _FieldName] = {}
        self._values = 0
        static = [self._static_field(name, value) for name, value in _STATIC]
        # By the byte that refers to the field; the bytes before refer to none.
        self._by_byte = (*[static[0]] * 0x81, *static)

    @staticmethod
    def check_coding(block: bytes) -> None:
        """Http2Error if the first block of a connection is badly coded, even where `read_block` does not look."""
        try:
            Decoder().decode(block, raw=True)
        except HPACKError as error:
            raise Http2Error(ErrorCode.COMPRESSION_ERROR, f"a header block can't be read: {error}") from error

    def read_block(self, block: bytes, table: HeaderTable) -> dict[str, str]:
        """Return the wanted fields and those that begin with a colon; of several with one name the last counts.
        Http2Error: not a header block; MalformedHeaders: its fields are not allowed."""
        try:
            at = table.apply_resizes(block) if block and block[0] & 0xE0 == 0x20 else 0
            found = self._read_fields(block, at, table)
        except (IndexError, HPACKError) as error:
            raise Http2Error(ErrorCode.COMPRESSION_ERROR, "a header block can't be read") from error
        if _MALFORMED in found:
            raise MalformedHeaders(found[_MALFORMED])
        return found

    def _read_fields(  # noqa: C901 - a call for each field would cost as much as all the rest
        self, block: bytes, at: int, table: HeaderTable
    ) -> dict[str, str]:
        found: dict[str, str] = {}
        names, static, entries = self._names, self._by_byte, table.entries
        regular, end = False, len(block)
        bytes_max = table.bytes_max + _LATE_BYTES
        while at != end:
            first = block[at]
            if first > 0x80:
                at += 1
                if first <= _STATIC_LAST_BYTE:
                    field = static[first]
                elif first < 0xFF:
                    field = entries[_STATIC_LAST_BYTE - first]
                else:
                    index, at = _read_integer(block, at - 1, 0x7F)
                    field = entries[_STATIC_LAST - index]
            else:
                # The two usual ways to name a field are read here: by a dynamic entry, and spelt out.
                if first == 0x7F and (more := block[at + 1]) < 0x80:
                    middle = at + 2
                    known = entries[_STATIC_LAST - 0x3F - more].known
                elif first in _SPELT and (length := block[at + 1] & 0x7F) < 0x7F:
                    middle = at + 2 + length
                    known = names.get(block[at + 1 : middle]) or self._decode_name(block[at + 1 : middle])
                else:
                    known, middle = self._read_name(block, at, entries)
                length = block[middle] & 0x7F
                at = middle + 1 + length if length < 0x7F else _string_end(block, middle)
                field = (
                    known.shared_field
                    or known.values.get(block[middle:at])
                    or self._decode_value(known, block[middle:at])
                )
                if first >= 0x40:
                    if known.bytes_min + 2 * (at - middle) > table.bytes_max:
                        table.add_large(field, block[middle:at])
                    else:
                        entries.append(field)
                        table.held_bytes = held = table.held_bytes + field.size
                        if held > bytes_max:
                            table.evict_entries()
            name = field.name
            if name is None:
                regular = True
                continue
            value = field.value
            if name[0] != ":":
                regular = True
            elif regular or name in found:
                name, value = _MALFORMED, f"the field {name} is there twice, or after others"
            found[name] = value
        return found

    def _read_name(self, block: bytes, at: int, entries: list[_HeaderField]) -> tuple[_FieldName, int]:
        """Return the name of a literal field, and where its value begins."""
        first = block[at]
        if first == 0x80 or first & 0xE0 == 0x20:  # no index; a size of the table that stands too late
            raise IndexError(at)
        index, middle = _read_integer(block, at, 0x3F if first & 0x40 else 0x0F)
        if index:
            field = self._by_byte[0x80 + index] if index <= _STATIC_LAST else entries[_STATIC_LAST - index]
            return field.known, middle
        begin, middle = middle, _string_end(block, middle)
        return self._decode_name(block[begin:middle]), middle

    def _static_field(self, name: str, value: str) -> _HeaderField:
        known = self._wanted.get(name) or _FieldName(name)
        return known.shared_field or _HeaderField(name, value, known, known.bytes_min + len(value))

    def _decode_name(self, coded: bytes) -> _FieldName:
        text = _decode_text(coded)
        known = self._wanted.get(text) or _FieldName(text)
        if len(coded) <= _CACHED_BYTES_MAX:
            if len(self._names) >= self._cached_max:
                self._names.clear()
            self._names[coded] = known
        return known

    def _decode_value(self, known: _FieldName, coded: bytes) -> _HeaderField:
        value = _decode_text(coded)
        size = known.bytes_min + len(value)
        try:
            field = _HeaderField(known.text, checked_value(known.text, value), known, size)
        except MalformedHeaders as error:
            field = _HeaderField(_MALFORMED, str(error), known, size)
        if len(coded) <= _CACHED_BYTES_MAX:
            self._values += 1
            if self._values > self._cached_max:
                self._forget_values()
            known.values[coded] = field
        return field

    def _forget_values(self) -> None:
        self._values = 1
        for known in self._wanted.values():
            known.values.clear()


def _read_integer(block: bytes, at: int, mask: int) -> tuple[int, int]:
    """Return the number that begins at `at` in the bits of the mask, and where it ends."""
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


def _string_end(block: bytes, at: int) -> int:
    """Return where the string that begins at `at` ends."""
    length, at = _read_integer(block, at, 0x7F)
    return at + length


def _decode_text(coded: bytes) -> str:
    _, begin = _read_integer(coded, 0, 0x7F)
    text = coded[begin:]
    return (decode_huffman(text) if coded[0] & 0x80 else text).decode("latin-1")
