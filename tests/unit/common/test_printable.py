"""Text of others cannot act on a terminal or forge a line, whatever is in it."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.printable import (
    NAME_BYTES_MAX,
    cut_text,
    escape_json,
    escape_line,
    escape_lines,
    find_name_problem,
    has_control,
    list_names,
)

TEXTS = st.text(st.characters(codec=None, exclude_categories=()))
BIDI = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}


def acts(character: str) -> bool:
    """Whether a terminal does something other than show it."""
    return (
        unicodedata.category(character) in ("Cc", "Zl", "Zp", "Cs")
        or unicodedata.bidirectional(character) in BIDI
        or character in "\u200e\u200f\u061c"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "\\x1b[2J"),
        ("a\r\nb\tc\0", "a\\r\\nb\\tc\\x00"),
        ("\x7f\x9b31m", "\\x7f\\x9b31m"),
        ("\u202egpj.exe\u2066", "\\u202egpj.exe\\u2066"),
        ("a\u2028b", "a\\u2028b"),
        (b"\xff\xfeok".decode(errors="surrogateescape"), "\\xff\\xfeok"),
        ("\ud800", "\\ud800"),
        ("C:\\new 'Grüße' 日本 🙂", "C:\\new 'Grüße' 日本 🙂"),
    ],
)
def test_what_acts_on_a_terminal_is_shown(text: str, shown: str) -> None:
    assert escape_line(text) == shown


@given(TEXTS)
def test_a_line_stays_one_line_and_says_nothing_to_a_terminal(text: str) -> None:
    assert not any(map(acts, escape_line(text)))
    assert escape_line(escape_line(text)) == escape_line(text)


@given(TEXTS)
def test_lines_keep_only_their_ends_and_tabs(text: str) -> None:
    assert not any(map(acts, escape_lines(text).replace("\n", "").replace("\t", "")))
    assert escape_lines(text).count("\n") == text.count("\n")


@given(st.recursive(TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)), st.booleans())
def test_json_says_the_same_and_nothing_to_a_terminal(value: object, ensure_ascii: bool) -> None:
    shown = escape_json(json.dumps(value, ensure_ascii=ensure_ascii))
    assert not any(map(acts, shown))
    if not ensure_ascii or "\\ud" not in shown:  # surrogates that meet in an escaped text are one character
        assert json.loads(shown) == json.loads(json.dumps(value))


def test_a_long_text_is_cut_and_says_how_long_it_was() -> None:
    assert cut_text("abc", 3) == "abc"
    assert cut_text("abcdef", 3) == "abc... (6 characters)"


def test_a_long_list_is_cut_and_says_how_long_it_was() -> None:
    assert list_names(["a", "b"], "clients") == "a, b"
    assert list_names(list("abcde"), "clients") == "a, b, c and 2 more (5 clients)"


def test_a_control_character_is_found_wherever_it_is() -> None:
    assert [has_control(text) for text in ("a b", "日本", "a\u00a0b", "a\x00", "\x85", "\n")] == [
        False, False, False, True, True, True,
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["a" * NAME_BYTES_MAX, "host@1@2@x", "日" * 85])
def test_a_name_may_have_256_bytes(name: str) -> None:
    assert find_name_problem(name) is None


@pytest.mark.parametrize("name", ["a" * (NAME_BYTES_MAX + 1), "日" * 86, "a\nb", "\x1b[31m", "\x9b"])
def test_a_name_that_is_longer_or_holds_a_control_character_is_none(name: str) -> None:
    assert find_name_problem(name) is not None
