"""Framing and flow control, for any split of the bytes and any order of what the other side allows."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ternmq_rpc.grpc_http2 import frames as h2
from ternmq_rpc.grpc_http2.frames import FrameReader, Http2Error
from ternmq_rpc.grpc_http2.messages import PREFIX, MessageReader, MessageRefused, decode_percent, encode_percent
from ternmq_rpc.grpc_http2.outflow import OutStream, SendQueue
from ternmq_rpc.serving.budgets import BudgetLedger

BODIES = st.lists(st.binary(max_size=40) | st.sampled_from([bytes(5000), b"x" * 20_000]), max_size=8)
SIZES = st.lists(st.sampled_from([1, 4, 5, 6, 9, 13]) | st.integers(1, 9000), min_size=1, max_size=30)


def split(data: bytes, sizes: list[int]) -> list[bytes]:
    """The data in pieces of those sizes, again and again."""
    pieces, at, turn = [], 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        pieces.append(data[at : at + size])
        at, turn = at + size, turn + 1
    return pieces


def prefixed(bodies: list[bytes]) -> bytes:
    return b"".join(PREFIX.pack(0, len(body)) + body for body in bodies)


def messages_of(
    pieces: list[bytes], message_max: int = 1 << 20
) -> tuple[list[bytes], list[tuple[int, int, int, bytes]]]:
    """The messages in the DATA frames of stream 1, and all other frames."""
    frames, messages = FrameReader(h2.DEFAULT_FRAME_MAX), MessageReader(message_max)
    others = []
    for piece in pieces:
        for kind, flags, stream, start, stop in frames.read_frames(piece):
            if kind == h2.DATA and stream == 1:
                messages.read_messages(frames.data, start, stop)
            else:
                others.append((kind, flags, stream, frames.data[start:stop]))
    return list(messages.messages), others


@given(bodies=BODIES, frame_sizes=SIZES, piece_sizes=SIZES, pings=st.lists(st.booleans(), min_size=1, max_size=5))
def test_however_the_bytes_are_split_the_messages_are_the_same(
    bodies: list[bytes], frame_sizes: list[int], piece_sizes: list[int], pings: list[bool]
) -> None:
    wire, others = b"", []
    for number, content in enumerate(split(prefixed(bodies), [*frame_sizes, 3000])):
        wire += h2.encode_frame(h2.DATA, 0, 1, content)
        if pings[number % len(pings)]:
            others.append((h2.PING, 0, 0, bytes(8)))
            wire += h2.encode_frame(*others[-1])
    assert messages_of(split(wire, [*piece_sizes, 3000])) == (bodies, others)


@given(bodies=BODIES.filter(any))
def test_one_byte_at_a_time_gives_the_same_messages(bodies: list[bytes]) -> None:
    wire = b"".join(h2.encode_frame(h2.DATA, 0, 1, content) for content in split(prefixed(bodies), [7, 16_000]))
    assert messages_of(split(wire, [1]))[0] == bodies


def test_an_unfinished_message_takes_as_much_memory_as_has_come_of_it() -> None:
    reader = MessageReader(1 << 30)
    data = PREFIX.pack(0, 1 << 30) + bytes(10)
    for at in range(len(data)):
        reader.read_messages(data, at, at + 1)
    assert reader.partial == len(data)
    assert sum(map(len, reader._parts)) == 10


@pytest.mark.parametrize(("prefix", "status"), [((0, 101), 8), ((1, 3), 12), ((2, 3), 13)])
@pytest.mark.parametrize("piece", [1, 5, 99])
def test_a_message_that_can_not_be_taken_is_refused_by_its_prefix(
    prefix: tuple[int, int], status: int, piece: int
) -> None:
    reader = MessageReader(100)
    data = PREFIX.pack(0, 1) + b"a" + PREFIX.pack(*prefix)

    def feed() -> None:
        for part in split(data, [piece]):
            reader.read_messages(part, 0, len(part))

    with pytest.raises(MessageRefused) as refused:
        feed()
    assert refused.value.status == status
    assert list(reader.messages) == [b"a"]


@given(piece_sizes=SIZES)
def test_a_frame_that_is_too_large_is_an_error_after_those_before_it(piece_sizes: list[int]) -> None:
    reader = FrameReader(100)
    wire = h2.encode_frame(h2.PING, 0, 0, bytes(8)) + h2.encode_frame(h2.DATA, 0, 1, bytes(101))
    seen = []

    def feed() -> None:
        for piece in split(wire, piece_sizes):
            for kind, *_ in reader.read_frames(piece):
                seen.append(kind)

    with pytest.raises(Http2Error):
        feed()
    assert seen == [h2.PING]


@given(text=st.text())
def test_any_text_survives_in_a_header(text: str) -> None:
    encoded = encode_percent(text)
    assert encoded.isascii()
    assert encoded.isprintable()
    assert decode_percent(encoded) == text


@given(block=st.binary(max_size=100), frame_max=st.integers(1, 40))
def test_a_header_block_of_any_size_is_put_into_frames(block: bytes, frame_max: int) -> None:
    wire = h2.header_frames(3, block, frame_max, end_stream=True)
    reader = FrameReader(frame_max)
    frames = [(kind, flags, stream, wire[start:stop]) for kind, flags, stream, start, stop in reader.read_frames(wire)]
    assert b"".join(payload for *_, payload in frames) == block
    assert [kind for kind, *_ in frames] == [h2.HEADERS] + [h2.CONTINUATION] * (len(frames) - 1)
    assert [bool(flags & h2.END_HEADERS) for _, flags, *_ in frames] == [False] * (len(frames) - 1) + [True]
    assert frames[0][1] & h2.END_STREAM


class FlowControl(RuleBasedStateMachine):
    """Two streams write, and the other side gives and takes room: never more is sent than it allowed, and in the end
    all that was written, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = BudgetLedger()
        self.out = SendQueue(self.ledger)
        self.streams = {number: OutStream(number, self.out.first_window) for number in (1, 3)}
        self.written: dict[int, list[bytes]] = {1: [], 3: []}
        self.readers = {number: MessageReader(1 << 20) for number in (1, 3)}
        self.frames = FrameReader(1 << 24)
        self.room = h2.DEFAULT_WINDOW
        self.initial = h2.DEFAULT_WINDOW
        self.rooms = {1: self.initial, 3: self.initial}
        self.frame_max = h2.DEFAULT_FRAME_MAX
        self.tails: list[int] = []

    def sent(self, buffers: "list[Any]") -> None:
        for kind, _, number, start, stop in self.frames.read_frames(b"".join(buffers)):
            if kind == h2.HEADERS:
                self.tails.append(number)
                continue
            size = stop - start
            assert number not in self.tails
            assert size <= self.frame_max
            self.room -= size
            self.rooms[number] -= size
            assert self.room >= 0
            assert self.rooms[number] >= 0
            self.readers[number].read_messages(self.frames.data, start, stop)

    @rule(
        number=st.sampled_from([1, 3]),
        messages=st.lists(st.sampled_from([0, 1, 400, 16_379, 16_380, 90_000]).map(bytes), min_size=1, max_size=3),
    )
    def write(self, number: int, messages: list[bytes]) -> None:
        out = self.streams[number]
        if out.tail is not None or number in self.tails:
            return
        self.written[number] += messages
        frame = self.out.try_send(out, messages)
        if frame is not None:
            self.sent([frame])
            return
        self.out.add_messages(out, messages)

    @rule(bytes_max=st.sampled_from([1, 20_000, 1 << 20]))
    def take(self, bytes_max: int) -> None:
        self.sent(self.out.take_frames(bytes_max))

    @rule(number=st.sampled_from([0, 1, 3]), increment=st.integers(1, 100_000))
    def grow(self, number: int, increment: int) -> None:
        if number:
            self.rooms[number] += increment
            assert self.out.grow_stream_window(self.streams[number], increment)
        else:
            self.room += increment
            self.out.grow_window(increment)

    @rule(size=st.sampled_from([0, 1, 1000, 65_535, 1 << 20]))
    def settings(self, size: int) -> None:
        for number in self.rooms:
            self.rooms[number] += size - self.initial
        self.initial = size
        self.out.set_first_window(size, self.streams.values())

    @rule(size=st.sampled_from([16_384, 20_000, 1 << 20]))
    def frames_up_to(self, size: int) -> None:
        self.frame_max = self.out.frame_max = size

    @precondition(lambda self: len(self.tails) < 2)
    @rule(number=st.sampled_from([1, 3]))
    def end(self, number: int) -> None:
        if self.streams[number].tail is None and number not in self.tails:
            self.out.end_stream(self.streams[number], lambda: h2.encode_frame(h2.HEADERS, h2.END_STREAM, number))

    @invariant()
    def what_waits_is_counted(self) -> None:
        waiting = sum(out.out_bytes for out in self.streams.values())
        assert (self.out.bytes, self.ledger.unread_bytes) == (waiting, waiting)

    @invariant()
    def messages_arrive_in_order(self) -> None:
        for number, reader in self.readers.items():
            arrived = list(reader.messages)
            assert arrived == self.written[number][: len(arrived)]

    def teardown(self) -> None:
        for number in (0, 1, 3):
            self.grow(number, 1 << 29)
        while buffers := self.out.take_frames(1 << 20):
            self.sent(buffers)
        for number, reader in self.readers.items():
            assert list(reader.messages) == self.written[number]
        assert (self.out.bytes, self.ledger.unread_bytes, self.out.can_send) == (0, 0, False)


TestFlowControl = FlowControl.TestCase
