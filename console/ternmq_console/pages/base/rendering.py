"""Renders pages from templates, in which everything is escaped, and formats values for them."""

import asyncio
import time
import unicodedata
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup, escape

from ternmq_console.pages.base.forms import utc_time

if TYPE_CHECKING:
    from ternmq_protos.pool import Duration, Timestamp

# Categories of characters that are invisible, or change the direction of the text around them: see HIDDEN.
_SIZES = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - in UTC, whose name is written behind it
_AT_ONCE_S, _PAUSE_S = 0.0003, 0.001
_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


@cache  # one for each root; globals are also visible in imported templates
def _jinja_environment(root: str) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_read_template),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"root": root, "zip": zip}
    environment.filters |= {
        "count": format_count, "field_time": field_time, "instant": format_instant, "moment": format_moment,
        "span": format_span, "shown": escape_hidden,
        "size": format_size, "words": format_words,
    }  # fmt: skip
    return environment


def _read_template(name: str) -> str:
    return files("ternmq_console.pages").joinpath("templates", name).read_text()


async def render_template(template: str, root: str, **values: Any) -> str:  # noqa: ANN401 - whatever a template shows
    """Render a page, whose paths begin with `root`.

    It is rendered in small parts, with pauses, since rendering holds the GIL, for which the messages of this process
    wait.
    """
    pieces: list[str] = []
    pause_s = time.perf_counter() + _AT_ONCE_S
    for piece in _jinja_environment(root).get_template(template).generate(**values):
        pieces.append(piece)
        if time.perf_counter() >= pause_s:
            await asyncio.sleep(_PAUSE_S)
            pause_s = time.perf_counter() + _AT_ONCE_S
    return "".join(pieces)


def format_count(number: float) -> str:
    """Format a number: `1,234,567`."""
    return f"{number:,}"


def format_size(number: int) -> str:
    """Format a size in the largest fitting unit: `17 bytes`, `78.2 MiB`."""
    for unit, unit_bytes in _SIZES:
        if number >= unit_bytes:
            return f"{number / unit_bytes:,.1f} {unit}"
    return f"{number} byte" if number == 1 else f"{number} bytes"


def format_words(name: str) -> str:
    """Format the name of an enum's value for people: `READ_WRITE` becomes `read write`."""
    return name.replace("_", " ").lower()


def escape_hidden(text: str) -> Markup:
    """Escape untrusted text so that nothing in it is hidden.

    Characters that are invisible or change the direction of text are shown as their numbers, and the text is isolated
    from the direction of its surroundings.
    """
    parts = [
        Markup('<b class="hidden-character">U+{:04X}</b>').format(ord(letter)) if _is_hidden(letter) else escape(letter)
        for letter in text
    ]
    return Markup("<bdi>{}</bdi>").format(Markup("").join(parts))


def _is_hidden(letter: str) -> bool:
    return unicodedata.category(letter) in HIDDEN


def format_moment(time: "Timestamp") -> Markup:
    """Format a time in UTC, to the second; the script adds the browser's local time as title."""
    return _time_markup(time, "seconds")


def format_instant(time: "Timestamp") -> Markup:
    """Format a time in UTC, to the millisecond."""
    return _time_markup(time, "milliseconds")


def _time_markup(time: "Timestamp", timespec: str) -> Markup:
    """Return the markup of a time; one outside the calendar, which clients may send, is shown as a number of
    seconds."""
    try:
        at = _EPOCH + timedelta(seconds=time.seconds, microseconds=time.nanos // 1000)
    except OverflowError:
        return escape(f"{time.seconds:,} s after 1970")
    text = at.isoformat(timespec=timespec)
    return Markup('<time datetime="{}Z">{} UTC</time>').format(text, text.replace("T", " "))


def field_time(text: str) -> str:
    """Format a typed time as the value of a field for times, in UTC without a zone; empty if it is invalid."""
    try:
        at = utc_time(text)
    except (ValueError, OverflowError):
        return ""
    return at.replace(tzinfo=None).isoformat(timespec="milliseconds" if at.microsecond else "seconds")


def format_span(duration: "Duration") -> str:
    """Format a duration by its two largest units: `3 d 4 h`, `2 min 5 s`, `0.3 s`."""
    seconds = duration.seconds + duration.nanos / 1e9
    if seconds < 10:
        return f"{seconds:.1f} s"
    left = round(seconds)
    parts: list[str] = []
    for size, unit in _UNITS:
        if left >= size and len(parts) < 2:
            parts.append(f"{left // size} {unit}")
            left %= size
        elif parts:
            break
    return " ".join(parts)
