"""Makes foreign text safe for terminals and logs: characters that would act on either are shown instead.

Shown      control characters (C0, DEL, C1), characters that change the direction of text or end a line, and lone
           surrogates, by which Python marks bytes that are no UTF-8: `\\x1b`, `\\r`, `\\u202e`, and `\\xff` for the
           byte.
Not shown  a backslash is itself: the result can't be read back.
"""

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

# A client id of the official clients has fewer than 150 bytes.
NAME_BYTES_MAX: Final = 256
CUT_AT: Final = 100
LISTED_MAX: Final = 3

_CONTROLS: Final = "\x00-\x1f\x7f-\x9f"
# Marks, embeddings, overrides and isolates of direction; the separators of lines and paragraphs.
_INVISIBLE: Final = "\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"
_SURROGATES: Final = f"{chr(0xD800)}-{chr(0xDFFF)}"
_UNPRINTABLE: Final = re.compile(f"[{_CONTROLS}{_INVISIBLE}{_SURROGATES}]")
_UNPRINTABLE_IN_LINES: Final = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_INVISIBLE}{_SURROGATES}]")
_UNPRINTABLE_IN_JSON: Final = re.compile(f"[\x7f-\x9f{_INVISIBLE}{_SURROGATES}]")
_CONTROL: Final = re.compile(f"[{_CONTROLS}]")
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escape_line(text: str) -> str:
    """`text` as one line."""
    return text if text.isprintable() else _UNPRINTABLE.sub(_escape_character, text)


def escape_lines(text: str) -> str:
    """`text` with its line ends and tabs, and without anything else that acts on a terminal."""
    return _UNPRINTABLE_IN_LINES.sub(_escape_character, text)


def escape_json(text: str) -> str:
    """A JSON document with the same meaning that can be shown; json.dumps leaves DEL, and may leave all above it."""
    return _UNPRINTABLE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def cut_text(text: str, characters: int = CUT_AT) -> str:
    """At most so many characters of `text`; a longer one has its length at the end."""
    return text if len(text) <= characters else f"{text[:characters]}... ({len(text)} characters)"


def list_names(names: "Sequence[str]", things: str, *, most: int = LISTED_MAX) -> str:
    """The first few names, and how many there are if that isn't all: `a, b, c and 7 more (10 clients)`."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more ({len(names)} {things})"


def has_control(text: str) -> bool:
    """Whether the text has a control character; names from clients have none."""
    return not text.isprintable() and _CONTROL.search(text) is not None


def find_name_problem(text: str) -> str | None:
    """Why that can't be the name of a client, a message or a host; None if it can."""
    if len(text) > NAME_BYTES_MAX or (not text.isascii() and len(text.encode(errors="replace")) > NAME_BYTES_MAX):
        return f"is longer than {NAME_BYTES_MAX} bytes"
    if has_control(text):
        return f"holds a control character: {escape_line(text)}"
    return None


def _escape_character(match: re.Match[str]) -> str:
    character = match[0]
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:  # a byte, by the error handler surrogateescape
        number -= 0xDC00
    return _SHORT.get(character) or (f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}")
