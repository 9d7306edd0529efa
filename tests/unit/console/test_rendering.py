"""What pages show of values: nothing that is written in them is taken for a page, and nothing in them is hidden."""

import asyncio
import re
import unicodedata
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_console.pages.base.rendering import (
    escape_hidden,
    format_count,
    format_instant,
    format_moment,
    format_size,
    format_span,
    render_template,
)
from ternmq_protos.pool import Duration, Timestamp


@given(st.text())
def test_whatever_is_shown_is_no_markup(text: str) -> None:
    inside = str(escape_hidden(text)).removeprefix("<bdi>").removesuffix("</bdi>")
    plain = inside.replace('<b class="hidden-character">', "").replace("</b>", "")
    assert not set("<>\"'") & set(plain)
    assert all(unicodedata.category(letter)[0] != "C" for letter in plain)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("orders", "<bdi>orders</bdi>"),
        ("<b>&\"'", "<bdi>&lt;b&gt;&amp;&#34;&#39;</bdi>"),
        ("a\u202eb", '<bdi>a<b class="hidden-character">U+202E</b>b</bdi>'),
        ("\x1b[31m", '<bdi><b class="hidden-character">U+001B</b>[31m</bdi>'),
        ("größer", "<bdi>größer</bdi>"),
    ],
)
def test_what_can_not_be_seen_is_shown_by_its_number(text: str, told: str) -> None:
    assert escape_hidden(text) == told


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, "0.0 s"), (0.34, "0.3 s"), (9.96, "10.0 s"), (59, "59 s"), (61, "1 min 1 s"), (3600, "1 h"),
     (3 * 86_400 + 4 * 3600 + 59, "3 d 4 h"), (86_400 + 59, "1 d")],
)  # fmt: skip
def test_a_duration_has_its_two_largest_units(seconds: float, told: str) -> None:
    duration = Duration()
    duration.FromMilliseconds(int(seconds * 1000))
    assert format_span(duration) == told


@pytest.mark.parametrize(
    ("number", "told"),
    [(0, "0 bytes"), (1, "1 byte"), (1023, "1023 bytes"), (1024, "1.0 KiB"),
     (82_010_112, "78.2 MiB"), (3 << 29, "1.5 GiB"),
     (5000 << 40, "5,000.0 TiB")],
)  # fmt: skip
def test_a_size_is_in_the_largest_unit_of_which_there_is_one(number: int, told: str) -> None:
    assert format_size(number) == told


def test_numbers_and_times_are_for_people() -> None:
    assert format_count(1_234_567) == "1,234,567"
    assert format_moment(Timestamp(seconds=1_795_674_500)) == (
        '<time datetime="2026-11-26T06:28:20Z">2026-11-26 06:28:20 UTC</time>'
    )


def test_an_instant_is_to_the_millisecond() -> None:
    told = '<time datetime="2026-11-26T07:06:02.160Z">2026-11-26 07:06:02.160 UTC</time>'
    assert format_instant(Timestamp(seconds=1_795_676_762, nanos=160_999_999)) == told


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-(1 << 31), (1 << 31) - 1))
def test_any_time_that_a_client_says_is_shown(seconds: int, nanos: int) -> None:
    for form in (format_moment, format_instant):
        assert form(Timestamp(seconds=seconds, nanos=nanos))


async def test_who_waits_goes_on_while_a_long_page_is_made() -> None:
    """Ten thousand links take many times as long as is done at once."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    navigation = [(f"/console/{number}", f"page {number}") for number in range(10_000)]
    text = await render_template(
        "problem.html", "", title="t", text="x", user="", token="k", notice="", here="", navigation=navigation
    )
    task.cancel()
    assert "page 0<" in text
    assert "page 9999<" in text
    assert turns > 10


def test_whatever_a_template_leads_to_begins_with_the_root_or_is_the_same_page() -> None:
    """Behind a path prefix all else would leave it."""
    folder = files("ternmq_console.pages").joinpath("templates")
    templates = Path(str(folder)).rglob("*.html")
    leading = re.compile(r'\b(?:href|(?:form)?action|src|hx-(?:get|post)|data-plots)="([^"]*)')
    targets = [target for template in templates for target in leading.findall(template.read_text())]
    assert len(targets) > 100
    assert {each for each in targets if not each.startswith(("{{ root }}", "#", "?"))} == {"{{ grafana }}"}
