"""Renders bodies of messages, which may be any bytes of untrusted senders, as harmless markup of limited length.

Opened      a body of encoding GZIP is inflated as by clients; one that can't be is shown as it is stored.
Forms       text, JSON and hex, detected by default. Of a long body the beginning is shown.
Bounds      `TEXT_BYTES` or `HEX_BYTES` are read, and the markup has `MARKUP_MAX` characters and one line.
"""

import codecs
import re
import unicodedata
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup, escape

from ternmq_common.limits import KIB, MIB
from ternmq_console.pages.base.rendering import HIDDEN
from ternmq_console.pages.messages.json_tree import parse_json
from ternmq_console.pages.messages.message_rows import ANY_HEADER
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ternmq_console.operator_calls import Message
    from ternmq_console.pages.messages.json_tree import JsonTree

FORMS = ("text", "json", "hex")
TEXT_BYTES, HEX_BYTES = 64 * KIB, 16 * KIB
MARKUP_MAX = 512 * KIB
# The limit of clients too: a few KiB can inflate to a GiB.
INFLATED_BYTES_MAX = 64 * MIB
_PIECE = 256 * KIB
_ROW = 16
_BLOCK = KIB
_LAYOUT = "\n\t"
_NO_LAYOUT = str.maketrans("", "", _LAYOUT)
_RUN = re.compile(r"\r\n|(.)\1*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class MessageBody:
    """An opened body: its `beginning`, which is shown, its `length`, and the length `stored`.

    `problem` says why a body of encoding GZIP could not be inflated.
    """

    beginning: bytes
    length: int
    stored: int
    is_inflated: bool = False
    problem: str = ""

    @property
    def is_cut(self) -> bool:
        return self.length > len(self.beginning)


class ShownBody(NamedTuple):
    """A body in the page: its `form`, its markup or tree, the number of bytes shown, and a remark."""

    form: str
    markup: Markup
    tree: "JsonTree | None"
    length: int
    remark: str = ""


def open_body(message: "Message", inflated_bytes_max: int = INFLATED_BYTES_MAX) -> MessageBody:
    """Open the body of a message."""
    stored = message.body
    if message.system_properties.body_encoding != definition_pb2.GZIP:
        return MessageBody(stored[:TEXT_BYTES], len(stored), len(stored))
    beginning, length = b"", 0
    try:
        for piece in _inflate_pieces(stored, inflated_bytes_max):
            beginning += piece[: TEXT_BYTES - len(beginning)]
            length += len(piece)
    except zlib.error as error:
        problem = f"Its encoding is gzip, but it can't be inflated ({error}), so the stored bytes are shown."
        return MessageBody(stored[:TEXT_BYTES], len(stored), len(stored), problem=problem)
    return MessageBody(beginning, length, len(stored), is_inflated=True)


def body_pieces(message: "Message", body: MessageBody) -> "Iterator[bytes]":
    """Yield the whole body, opened before, piece by piece."""
    if body.is_inflated:
        yield from _inflate_pieces(message.body, body.length)
    else:
        yield message.body


def whole_body(message: "Message", inflated_bytes_max: int = INFLATED_BYTES_MAX) -> bytes:
    """Return the whole body."""
    return b"".join(body_pieces(message, open_body(message, inflated_bytes_max)))


def _inflate_pieces(packed: bytes, bytes_max: int) -> "Iterator[bytes]":
    """Inflate a body piece by piece; raises zlib.error if it is damaged, incomplete or too long."""
    inflater, length = zlib.decompressobj(ANY_HEADER), 0
    while not inflater.eof:
        piece = inflater.decompress(packed, _PIECE)
        packed = inflater.unconsumed_tail
        length += len(piece)
        if length > bytes_max:
            raise zlib.error(f"it inflates to more than {bytes_max} bytes")
        if not piece and not inflater.eof:
            raise zlib.error("it is incomplete")
        yield piece


def show_body(body: MessageBody, form: str) -> ShownBody:
    """Render the body in that form, or in a detected one if it is none of FORMS."""
    text, faults = _decode_text(body)
    if form == "hex" or (form not in FORMS and _looks_binary(text, faults)):
        data = body.beginning[:HEX_BYTES]
        return ShownBody("hex", hex_dump(data), None, len(data))
    if form != "text":
        tree = None if faults else parse_json(text, is_cut=body.is_cut)
        if tree is not None and (form == "json" or tree.is_compound):
            return ShownBody("json", Markup(), tree, tree.byte_length(text))
    remark = "It is no JSON, so its text is shown." if form == "json" else ""
    markup, characters = mark_up(text)
    return ShownBody("text", markup, None, len(text[:characters].encode("utf-8", "surrogateescape")), remark)


def _decode_text(body: MessageBody) -> tuple[str, int]:
    """Return the body's text, in which bytes that are no UTF-8 are lone surrogates, and the number of these."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    text = decoder.decode(body.beginning, final=not body.is_cut)
    return text, sum("\udc80" <= letter <= "\udcff" for letter in text) if not text.isprintable() else 0


def _looks_binary(text: str, faults: int) -> bool:
    """Return whether more than a tenth of it is no text."""
    if text.isprintable():
        return False
    odd = sum(unicodedata.category(letter) in HIDDEN and letter not in "\n\r\t" for letter in text)
    return odd * 10 > len(text) or faults * 10 > len(text)


def mark_up(text: str) -> tuple[Markup, int]:
    """Return the markup of a text, with its lines and tabs, and the number of characters that fitted.

    Hidden characters are shown as markers; one that is repeated is shown once, with the number of times.
    """
    parts: list[Markup] = []
    room, done = MARKUP_MAX, 0
    for part, length in _marked_parts(text):
        parts.append(part)
        room -= len(part)
        done += length
        if room < 0:
            break
    return Markup("").join(parts), done


def _marked_parts(text: str) -> "Iterator[tuple[Markup, int]]":
    """Yield the parts of the markup, and the number of characters of each."""
    at = 0
    while at < len(text):
        block = text[at : at + _BLOCK]
        if block.endswith("\r"):
            block = text[at : at + _BLOCK + 1]
        at += len(block)
        if block.translate(_NO_LAYOUT).isprintable():
            yield escape(block), len(block)
        else:
            yield from _marked_runs(block)


def _marked_runs(block: str) -> "Iterator[tuple[Markup, int]]":
    plain, length = "", 0
    for run in _RUN.finditer(block):
        letter = "\n" if run[0] == "\r\n" else run[0][0]
        if letter in _LAYOUT or unicodedata.category(letter) not in HIDDEN:
            plain += letter if run[0] == "\r\n" else run[0]
            length += len(run[0])
            continue
        if plain:
            yield escape(plain), length
            plain, length = "", 0
        yield _hidden_marker(letter, len(run[0])), len(run[0])
    if plain:
        yield escape(plain), length


def _hidden_marker(letter: str, number: int) -> Markup:
    """Return the marker for a hidden character, repeated that many times."""
    is_byte = "\udc80" <= letter <= "\udcff"
    name = f"byte {ord(letter) - 0xDC00:02X}" if is_byte else f"U+{ord(letter):04X}"
    times = f", {number:,} times" if number > 1 else ""
    return Markup('<b class="hidden-character">{}{}</b>').format(name, times)


def hex_dump(data: bytes) -> Markup:
    """Return a hex dump: `00000010  68 65 6c 6c 6f                                   hello`, sixteen bytes on a
    line."""
    return escape("\n".join(_hex_row(at, data[at : at + _ROW]) for at in range(0, len(data), _ROW)))


def _hex_row(at: int, row: bytes) -> str:
    letters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
    return f"{at:08x}  {row.hex(' '):<{3 * _ROW - 1}}  {letters}"
