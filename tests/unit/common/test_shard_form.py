"""What travels between proxy and broker: whatever it is, it comes as it went, and what is no frame is told."""

import inspect
import math
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, structs

from ternmq_common.event_loop.done_result import DONE, DoneResult
from ternmq_common.filters.message_filter import MessageFilter
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.shard import shard_frames
from ternmq_common.shard.calls import CALLS, RULES, ShardCall, Values, find_method
from ternmq_common.shard.model import (
    OrphanedTransaction,
    PopOrder,
    PulledMessages,
    PullingMember,
    QueueBounds,
    QueueReaderId,
    QueueRef,
)
from ternmq_common.shard.remote_shard import RemoteShard
from ternmq_common.shard.shard import PROTOCOLS
from ternmq_common.shard.shard_frames import (
    FramePiece,
    InvalidFrame,
    PeerGreeting,
    ReadyNote,
    ShardFailure,
    filter_text,
)
from tests.support.of_kind import INT64, TEXT, of_kind

QUEUE = QueueRef("orders", "broker-0", 3)
encode = msgspec.msgpack.Encoder().encode


def hints_of(call: ShardCall) -> dict[str, Any]:
    return get_type_hints(find_method(call.name), include_extras=True)


def one(frame: bytes) -> FramePiece:
    (piece,) = shard_frames.decode_frame(frame)
    return piece


def as_told(value: object) -> object:
    """A filter is compiled, and travels as its text."""
    if isinstance(value, PopOrder):
        return structs.replace(value, filter=filter_text(value.filter))
    return filter_text(value) if isinstance(value, MessageFilter) else value


def test_every_method_of_a_shard_is_in_the_table_and_nothing_else() -> None:
    methods = {
        name
        for protocol in PROTOCOLS
        for each in protocol.__mro__
        for name, what in vars(each).items()
        if callable(what) and name[0] != "_"
    }
    assert set(RULES) == methods
    named = [name for rules in RULES.values() for name in (rules.topic, rules.group, rules.waits) if name]
    assert named, "and each argument that a rule names is one, else the table could not be made"


@pytest.mark.parametrize("call", list(CALLS.values()), ids=list(CALLS))
@given(data=st.data())
def test_arguments_and_results_come_as_they_went(call: ShardCall, data: st.DataObject) -> None:
    hints = hints_of(call)
    (result_kind,) = get_args(hints.pop("return"))
    values = tuple(data.draw(of_kind(kind), label=name) for name, kind in hints.items())
    envelope = data.draw(st.tuples(INT64, INT64, st.integers(0, 2**32 - 1), TEXT))
    piece = one(shard_frames.join_pieces([call.encode_call(7, values, *envelope)]))
    assert (piece.what, piece.number) == (call.name, 7)
    assert (piece.topic_created_version, piece.group_created_version, piece.timeout_ms, piece.traceparent) == envelope
    assert call.decode_arguments(piece) == tuple(map(as_told, values))
    result = data.draw(of_kind(result_kind), label="result")
    assert (
        call.decode_result(one(shard_frames.join_pieces([shard_frames.encode_piece(shard_frames.ANSWER, 7, result)])))
        == result
    )


NOTES: list[tuple[shard_frames.NoteType[Any], object]] = [
    (shard_frames.HELLO, PeerGreeting),
    (shard_frames.WELCOME, PeerGreeting),
    (shard_frames.PRESENCE, list[PullingMember]),
    (shard_frames.CHECK_REPLY, bool),
    (shard_frames.VERSION, int),
    (shard_frames.READY, ReadyNote),
    (shard_frames.TRANSACTION_CHECK, OrphanedTransaction),
    (shard_frames.FAILED, ShardFailure),
]


@pytest.mark.parametrize(("note", "kind"), NOTES, ids=[note.what for note, _ in NOTES])
@given(data=st.data())
def test_notes_come_as_they_went(note: shard_frames.NoteType[Any], kind: object, data: st.DataObject) -> None:
    value = data.draw(of_kind(kind))
    piece = one(shard_frames.join_pieces([note.encode_note(value, 5)]))
    assert (piece.what, piece.number, note.decode_note(piece)) == (note.what, 5, value)


@given(count=st.integers(0, 40))
def test_a_frame_has_its_pieces_in_their_order(count: int) -> None:
    frame = shard_frames.join_pieces([shard_frames.VERSION.encode_note(number) for number in range(count)])
    assert [shard_frames.VERSION.decode_note(piece) for piece in shard_frames.decode_frame(frame)] == list(range(count))


# --- calls as they are made


def test_a_call_is_made_as_a_method_is() -> None:
    call = CALLS["pull"]
    whole = (QUEUE, 5, ALL, 3, 1.5, None)
    asked: list[tuple[ShardCall, Values]] = []

    def ask(call: ShardCall, values: Values) -> DoneResult[None]:
        asked.append((call, values))
        return DONE

    RemoteShard(ask).reading.pull(QUEUE, 5, passing=ALL, poll_s=1.5, batch=3)
    assert asked == [(call, whole)]
    assert call.answer_timeout_s(whole) == RULES["pull"].timeout_s + 1.5
    assert call.call_method(lambda *args, **named: (args, named), whole) == (
        (QUEUE, 5, ALL),
        {"batch": 3, "poll_s": 1.5, "reader": None},
    )


def test_a_call_says_of_what_it_speaks() -> None:
    pull = CALLS["pull"]
    assert pull.required_group((QUEUE, 5, ALL, 3, 1.5, QueueReaderId("g", "c"))) == "g"
    assert pull.required_group((QUEUE, 5, ALL, 3, 1.5, None)) == ""
    assert CALLS["append"].required_topic((QUEUE, [])) == "orders"
    retry = CALLS["retry"]
    assert (retry.required_topic(("g", "t", [])), retry.required_group(("g", "t", []))) == ("t", "g")


@pytest.mark.parametrize("call", list(CALLS.values()), ids=list(CALLS))
def test_each_call_has_a_method_that_makes_it(call: ShardCall) -> None:
    made: list[tuple[ShardCall, Values]] = []

    def ask(call: ShardCall, values: Values) -> DoneResult[None]:
        made.append((call, values))
        return DONE

    shard = RemoteShard(ask)
    parts = (shard.sending, shard.consuming, shard.reading, shard.inspecting, shard.administering)
    [method] = [getattr(part, call.name) for part in parts if hasattr(part, call.name)]
    assert inspect.signature(method) == inspect.signature(find_method(call.name).__get__(shard))
    arguments = tuple(range(len(inspect.signature(method).parameters)))
    call.call_method(method, arguments)
    assert made == [(call, arguments)]


# --- peers of other versions


def asked(name: str, *arguments: object) -> FramePiece:
    return one(shard_frames.join_pieces([shard_frames.encode_piece(name, 1, arguments)]))


def test_arguments_of_a_later_version_are_stepped_over_and_those_of_an_earlier_one_are_filled_in() -> None:
    call = CALLS["set_committed"]
    whole = ("g", QUEUE, 5, None)
    assert call.decode_arguments(asked("set_committed", "g", QUEUE, 5)) == whole
    assert call.decode_arguments(asked("set_committed", "g", QUEUE, 5, None, {"later": 1})) == whole
    assert call.decode_arguments(asked("set_committed", "g", ("orders", "broker-0", 3, "later"), 5)) == whole


def test_fields_of_a_later_version_are_stepped_over_and_those_of_an_earlier_one_are_filled_in() -> None:
    bounds = one(
        shard_frames.join_pieces(
            [shard_frames.encode_piece(shard_frames.ANSWER, 1, {"minimum": 1, "maximum": 2, "later": [None]})]
        )
    )
    assert CALLS["bounds"].decode_result(bounds) == QueueBounds(1, 2)
    stored = one(shard_frames.join_pieces([shard_frames.encode_piece(shard_frames.ANSWER, 1, [("id", 7)])]))
    assert [each.broker for each in CALLS["append"].decode_result(stored)] == [""]  # type: ignore[attr-defined]


def test_a_piece_of_another_version_is_read_as_far_as_it_is_known() -> None:
    assert one(b"\x91" + encode(["later"])).number == 0
    piece = one(b"\x91" + encode(["append", 1, None, 0, 0, 0, "", "later"]))
    assert (piece.what, piece.number) == ("append", 1)


def test_what_travels_can_grow() -> None:
    """A Struct as an array, and others and dataclasses as maps, can have fields more; a NamedTuple is what it is."""
    assert issubclass(QueueRef, Struct)
    for call in CALLS.values():
        for kind in kinds_in(tuple(hints_of(call).values())):
            if issubclass(kind, Struct):
                assert kind.__struct_config__.array_like or kind in {PulledMessages, QueueBounds, QueueReaderId}, kind
                assert not kind.__struct_config__.forbid_unknown_fields, kind
            elif issubclass(kind, tuple):
                assert kind.__name__ in {"ReceiptHandle", "RecallHandle", "TransactionId"}, kind


def kinds_in(hints: tuple[Any, ...]) -> set[type]:
    found = set()
    for hint in hints:
        inner = get_args(hint)
        found |= kinds_in(inner) if inner else {hint} if isinstance(hint, type) else set()
    return found


# --- what is none


def no_queue(queue_id: object) -> FramePiece:
    return asked("bounds", ("orders", "broker-0", queue_id))


@pytest.mark.parametrize("queue_id", [-1, 2**32, 2**64 - 1, 1.0, "1", None, True, [1]])
def test_a_queue_id_is_a_uint32(queue_id: object) -> None:
    with pytest.raises(InvalidFrame, match="bounds"):
        CALLS["bounds"].decode_arguments(no_queue(queue_id))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("bounds", ()),
        ("bounds", ("orders",)),
        ("bounds", ({"topic": "orders"},)),
        ("offset_at", (QUEUE, 2**63)),
        ("offset_at", (QUEUE, -(2**63) - 0.5)),
        ("wait_for_more", (QUEUE, 0, -1.0)),
        ("wait_for_more", (QUEUE, 0, math.nan)),
        ("wait_for_more", (QUEUE, 0, math.inf)),
        ("transactions", ("no state", "", "", 5)),
        ("transactions", ("pending", "", "", -5)),
        ("pull", (QUEUE, 0, "a text", 1, 0.0)),
        ("pull", (QUEUE, 0, ["a", 1], 1, 0.0)),
        ("pull", (QUEUE, 0, ["a", False], -1, 0.0)),
        ("append", (QUEUE, [[b"", "text", "id", [], ""]])),
        ("append", (QUEUE, [["", b"", "id", [], ""]])),
        ("append", (QUEUE, {"0": None})),
        ("pop", (["g", "t", -4, ["*", False], 1, 1], False)),
        ("pop", (["g", "t", 2**32, ["*", False], 1, 1], False)),
        ("pop", (["g", "t", 4, ["*", False], -1, 1], False)),
        ("acknowledge", ("g", "t", [["broker-0", -1, 0, 0, 0]])),
        ("acknowledge", ("g", "t", [["broker-0", 1]])),
    ],
)
def test_what_is_not_what_a_call_takes_is_none(name: str, arguments: tuple[object, ...]) -> None:
    with pytest.raises(InvalidFrame, match=name):
        CALLS[name].decode_arguments(asked(name, *arguments))


class Hostile(NamedTuple):
    name: str
    data: bytes


HOSTILE = [
    Hostile("nothing", b""),
    Hostile("one of protobuf's", b"\x0a\x0a\x0a\x05proxy\x12\x01x"),
    Hostile("no array", encode({"what": "append"})),
    Hostile("no piece", encode(["append"])),
    Hostile("no name", b"\x91\x90"),
    Hostile("a name that is none", b"\x91" + encode([5, 1])),
    Hostile("a name that is no text", b"\x91\x91\xa2\xff\xff"),
    Hostile("a number that is none", b"\x91" + encode(["append", "1"])),
    Hostile("a time that is negative", b"\x91" + encode(["append", 1, [], 0, 0, -1])),
    Hostile("nested deeply", b"\x91\x93\xa6append\x01" + b"\x91" * 1_000_000 + b"\xc0"),
    Hostile("maps nested deeply", b"\x91\x93\xa6append\x01" + b"\x81\x01" * 1_000_000 + b"\xc0"),
    Hostile("four billion pieces", b"\xdd\xff\xff\xff\xff"),
    Hostile("four billion bytes", b"\x91\x93\xa6append\x01\xc6\xff\xff\xff\xff"),
    Hostile("a reserved byte", b"\xc1"),
    Hostile("more behind it", shard_frames.join_pieces([shard_frames.PING.encode_note(None)]) + b"\x00"),
]


@pytest.mark.parametrize("data", [each.data for each in HOSTILE], ids=[each.name for each in HOSTILE])
def test_what_is_no_frame_is_none(data: bytes) -> None:
    with pytest.raises(InvalidFrame):
        shard_frames.decode_frame(data)


@dataclass
class Asked:
    call: ShardCall
    frame: bytes


@st.composite
def frames(draw: st.DrawFn) -> Asked:
    call = draw(st.sampled_from(list(CALLS.values())))
    hints = hints_of(call)
    del hints["return"]
    return Asked(
        call, shard_frames.join_pieces([call.encode_call(7, tuple(draw(of_kind(kind)) for kind in hints.values()))])
    )


@given(asked=frames(), data=st.data())
def test_a_frame_that_was_changed_is_another_or_none(asked: Asked, data: st.DataObject) -> None:
    changed = bytearray(asked.frame)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(changed) - 1))
        if data.draw(st.booleans(), label="cut"):
            del changed[place:]
            changed += b"\x91"
        else:
            changed[place] = data.draw(st.integers(0, 255))
    try:
        for piece in shard_frames.decode_frame(bytes(changed)):
            asked.call.decode_arguments(piece)
    except InvalidFrame:
        pass
