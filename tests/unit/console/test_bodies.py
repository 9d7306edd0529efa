"""Bodies of messages on a page: any bytes, in any form, stay text, are bounded, and are never an error."""

import gzip
import json
import math
import re
import unicodedata
import zlib
from html import unescape
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ternmq_common.limits import KIB, MIB
from ternmq_console.pages.base.rendering import HIDDEN
from ternmq_console.pages.messages.bodies import (
    FORMS,
    MessageBody,
    body_pieces,
    hex_dump,
    mark_up,
    open_body,
    show_body,
    whole_body,
)
from ternmq_console.pages.messages.json_tree import DEPTH_MAX, NODES_MAX, JsonNode, parse_json
from ternmq_console.pages.messages.message_rows import BEGINNING, build_row
from ternmq_protos.v2 import definition_pb2 as pb

_TAGS = re.compile(r'<b class="hidden-character">[^<>]*</b>')


def message(body: bytes, encoding: int = pb.IDENTITY) -> Any:  # noqa: ANN401 - of a class made at run time
    return pb.Message(body=body, system_properties={"body_encoding": encoding})


def body_of(data: bytes) -> MessageBody:
    return open_body(message(data))


def leaves(node: JsonNode) -> list[str]:
    return [each for member in node.members for each in leaves(member)] if node.opens else [node.text]


# --- any bytes


@given(
    data=st.binary(max_size=300) | st.text(max_size=100).map(str.encode), form=st.sampled_from([*FORMS, "", "other"])
)
@example(data=b"\xed\xa0\x80", form="text")
@example(data=b'"\xe2\x80\xae"', form="json")
@example(data=b"\r\n\r", form="text")
def test_any_body_is_shown_in_any_form(data: bytes, form: str) -> None:
    shown = show_body(body_of(data), form)
    assert shown.form in FORMS
    assert shown.length == len(data) or shown.form == "json"
    assert not set("<>\"'") & set(_TAGS.sub("", str(shown.markup)))
    if form == "hex":
        assert shown.form == "hex"


@given(data=st.binary(max_size=300), packed=st.booleans())
def test_any_message_has_a_row_and_a_body(data: bytes, packed: bool) -> None:
    each = message(zlib.compress(data) if packed else data, pb.GZIP)
    row = build_row(each, "topic", "broker")
    assert len(row.beginning) <= BEGINNING
    body = open_body(each)
    if packed:
        assert (body.is_inflated, whole_body(each)) == (True, data)
    assert b"".join(body_pieces(each, body)) == whole_body(each)
    assert body.length == len(whole_body(each))


@given(st.text())
def test_text_says_all_that_is_in_it(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    markup, done = mark_up(text)
    assert done == len(text)
    kept = text.replace("\r\n", "\n")
    plain = unescape(_TAGS.sub("", str(markup)))
    assert plain == "".join(each for each in kept if each in "\n\t" or unicodedata.category(each) not in HIDDEN)


# --- JSON


_LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
_VALUES = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=30
)


@given(_VALUES, st.sampled_from([None, 2]), st.booleans())
def test_what_is_json_is_a_tree_of_it(value: Any, indent: int | None, plain: bool) -> None:  # noqa: ANN401
    text = json.dumps(value, indent=indent, ensure_ascii=plain)
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        return
    tree = parse_json(text, is_cut=False)
    assert tree is not None
    assert tree.end == len(text)
    if isinstance(value, dict):
        assert [json.loads(member.name or "") for member in tree.root.members] == list(value)
    elif isinstance(value, list):
        assert len(tree.root.members) == len(value)
    else:
        assert json.loads(tree.root.text) == value


@given(st.text(st.sampled_from('{}[],:"\\u0019aeEtrufalsn.-+ \n\x00é'), max_size=24))
def test_what_is_no_json_is_no_tree(text: str) -> None:
    def refuse(name: str) -> None:
        raise ValueError(name)

    try:
        json.loads(text, parse_constant=refuse)
    except ValueError:
        assert parse_json(text, is_cut=False) is None
    else:
        assert parse_json(text, is_cut=False) is not None


@given(st.data())
def test_the_beginning_of_json_is_a_tree(data: st.DataObject) -> None:
    text = json.dumps({"a": [1, -2.5e10, True, None, {'b"\\\u202e': "x\ny"}], "c": "", "d": [[], {}]})
    at = data.draw(st.integers(1, len(text)))
    tree = parse_json(text[:at], is_cut=True)
    assert tree is not None
    assert tree.end <= at


@pytest.mark.parametrize("opens", ["[", '{"a":', '[{"b":'])
@pytest.mark.parametrize("is_closed", [False, True])
def test_json_of_any_depth_is_folded_to_a_few_levels(opens: str, is_closed: bool) -> None:
    closes = opens[::-1].translate(str.maketrans("[{", "]}", '":ab'))
    text = opens * 100_000 + ("1" + closes * 100_000 if is_closed else "")
    tree = parse_json(text, is_cut=not is_closed)
    assert tree is not None
    depth, node = 0, tree.root
    while node.opens:
        depth, node = depth + 1, node.members[0]
    assert depth == DEPTH_MAX
    assert len(node.text) > 99_000


def test_numbers_and_names_stay_as_they_were_sent() -> None:
    text = '{"a": 1.10, "a": 12345678901234567890123456789, "b": 1e999, "c": -0}'
    tree = parse_json(text, is_cut=False)
    assert tree is not None
    assert [(member.name, member.text) for member in tree.root.members] == [
        ('"a"', "1.10"), ('"a"', "12345678901234567890123456789"), ('"b"', "1e999"), ('"c"', "-0"),
    ]  # fmt: skip
    assert math.isinf(float(tree.root.members[2].text))


def test_a_tree_has_a_limit() -> None:
    tree = parse_json("[" + "1," * 20_000, is_cut=True)
    assert tree is not None
    assert len(tree.root.members) <= NODES_MAX
    assert tree.end < 3 * NODES_MAX


# --- long ones

_LONG = {
    "letters": b"x" * (4 * MIB),
    "zeros": bytes(4 * MIB),
    "controls": b"\x00\x01" * (2 * MIB),
    "markup": b"<" * (4 * MIB),
    "no UTF-8": b"\xff\xfe" * (2 * MIB),
    "deep": b"[" * (4 * MIB),
    "RTL": "\u202e\u202d".encode() * MIB,
    "escapes": b'"\\' * (2 * MIB),
    "string": b'["' + b"a" * (4 * MIB),
    "lines": b"\n" * (4 * MIB),
    "members": b'{"a":1},' * MIB,
}


@pytest.mark.parametrize("form", [*FORMS, ""])
@pytest.mark.parametrize("data", _LONG.values(), ids=_LONG)
def test_a_long_body_is_shown_by_its_beginning(data: bytes, form: str) -> None:
    body = body_of(data)
    shown = show_body(body, form)
    assert body.is_cut
    assert 0 < shown.length <= 64 * KIB
    assert len(shown.markup) <= 600 * KIB
    if shown.tree:
        assert sum(map(len, leaves(shown.tree.root))) <= 64 * KIB


def test_a_character_that_is_cut_is_no_fault() -> None:
    body = body_of("é".encode() * MIB + b"!")
    odd = body_of(b"a" + "é".encode() * MIB)
    for each in (body, odd):
        shown = show_body(each, "")
        assert (shown.form, "hidden" in shown.markup) == ("text", False)


# --- what is packed


def test_a_body_is_inflated_as_clients_do() -> None:
    data = b"hello " * 100_000
    for packed in (gzip.compress(data), zlib.compress(data)):
        each = message(packed, pb.GZIP)
        body = open_body(each)
        assert (body.is_inflated, body.length, body.stored) == (True, len(data), len(packed))
        assert whole_body(each) == data
        assert build_row(each, "t", "b").beginning == ("hello " * 20)[:BEGINNING]


@pytest.mark.parametrize("packed", [b"no gzip", gzip.compress(b"x" * 1000, mtime=0)[:-9], b""])
def test_what_can_not_be_inflated_is_shown_as_it_is_stored(packed: bytes) -> None:
    body = open_body(message(packed, pb.GZIP))
    assert (body.is_inflated, body.beginning) == (False, packed)
    assert "can't be inflated" in body.problem


def test_a_bomb_is_not_inflated() -> None:
    bomb = message(gzip.compress(bytes(2 * MIB)), pb.GZIP)
    assert "more than" in open_body(bomb, MIB).problem
    assert whole_body(bomb, MIB) == bomb.body


def test_hex_has_offset_bytes_and_characters() -> None:
    assert str(hex_dump(b"<\x00hello\xff and more")) == (
        "00000000  3c 00 68 65 6c 6c 6f ff 20 61 6e 64 20 6d 6f 72  &lt;.hello. and mor\n"
        "00000010  65                                               e"
    )
