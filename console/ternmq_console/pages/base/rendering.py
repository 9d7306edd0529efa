"""How pages are made: templates in which everything is escaped, and the few forms that values have."""

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

# What would change how the text around it is read, though it shows nothing itself.
_SIZES = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - in UTC, whose name is written behind it
_AT_ONCE_S, _PAUSE_S = 0.0003, 0.001
_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


@cache  # of the roots of this process's servers; a global is in what templates import too
def _environment(root: str) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_source),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"root": root, "zip": zip}
    environment.filters |= {
        "count": count, "field_time": field_time, "instant": instant, "moment": moment, "span": span, "shown": shown,
        "size": size, "words": words,
    }  # fmt: skip
    return environment


def _source(name: str) -> str:
    return files("ternmq_console.pages").joinpath("templates", name).read_text()


async def rendered(template: str, root: str, **values: Any) -> str:  # noqa: ANN401 - whatever a template shows
    """The page, in which paths begin with `root`. It is made in small parts, with pauses: whoever makes it has the
    interpreter's lock, for which the messages of this process wait."""
    pieces: list[str] = []
    pause_s = time.perf_counter() + _AT_ONCE_S
    for piece in _environment(root).get_template(template).generate(**values):
        pieces.append(piece)
        if time.perf_counter() >= pause_s:
            await asyncio.sleep(_PAUSE_S)
            pause_s = time.perf_counter() + _AT_ONCE_S
    return "".join(pieces)


def count(number: float) -> str:
    """`1,234,567`."""
    return f"{number:,}"


def size(number: int) -> str:
    """`17 bytes`, `78.2 MiB`: in the largest unit of which there is one at least."""
    for unit, unit_bytes in _SIZES:
        if number >= unit_bytes:
            return f"{number / unit_bytes:,.1f} {unit}"
    return f"{number} byte" if number == 1 else f"{number} bytes"


def words(name: str) -> str:
    """The name of an enum's value, for people: `READ_WRITE` is `read write`."""
    return name.replace("_", " ").lower()


def shown(text: str) -> Markup:
    """Text of somebody else, in which nothing is hidden: what a reader would not see, or that turns what is around it,
    is shown as its number. It does not take part in the direction of what is around it."""
    parts = [
        Markup('<b class="hidden-character">U+{:04X}</b>').format(ord(letter)) if _is_hidden(letter) else escape(letter)
        for letter in text
    ]
    return Markup("<bdi>{}</bdi>").format(Markup("").join(parts))


def _is_hidden(letter: str) -> bool:
    return unicodedata.category(letter) in HIDDEN


def moment(time: "Timestamp") -> Markup:
    """A time in UTC, as fields take it. With the script it says in its title what that is in the browser's zone."""
    return _time(time, "seconds")


def instant(time: "Timestamp") -> Markup:
    """As `moment`, to the millisecond."""
    return _time(time, "milliseconds")


def _time(time: "Timestamp", timespec: str) -> Markup:
    """One that no calendar has, since a client may say any, is shown as it was said."""
    try:
        at = _EPOCH + timedelta(seconds=time.seconds, microseconds=time.nanos // 1000)
    except OverflowError:
        return escape(f"{time.seconds:,} s after 1970")
    text = at.isoformat(timespec=timespec)
    return Markup('<time datetime="{}Z">{} UTC</time>').format(text, text.replace("T", " "))


def field_time(text: str) -> str:
    """A time that somebody wrote, as a field for times has it: in UTC, without saying so; empty for what is none."""
    try:
        at = utc_time(text)
    except (ValueError, OverflowError):
        return ""
    return at.replace(tzinfo=None).isoformat(timespec="milliseconds" if at.microsecond else "seconds")


def span(duration: "Duration") -> str:
    """`3 d 4 h`, `2 min 5 s`, `0.3 s`: its two largest units."""
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
