"""The server's machine: what bytes mean however they come, and what ends a call or a connection."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_rpc.grpc_http2 import frames as h2
from ternmq_rpc.grpc_http2.events import EventKind
from ternmq_rpc.grpc_http2.frames import ErrorCode
from ternmq_rpc.grpc_http2.messages import GrpcStatus
from ternmq_rpc.serving.budgets import BudgetLedger, ConnectionBudgets
from tests.unit.rpc.grpc_http2.conversation import CALL, GREETING, Served, data, headers

MIB = 1 << 20
CONVERSATION = (
    GREETING
    + headers(1)
    + data(1, b"one")
    + headers(3)
    + data(3, bytes(40_000), end=False)
    + h2.encode_frame(h2.PING, 0, 0, bytes(8))
    + h2.encode_frame(h2.DATA, h2.END_STREAM, 3)
    + headers(5, ("te", "no trailers"))
    + headers(7)
    + h2.reset_frame(7, ErrorCode.CANCEL)
)


def heard(pieces: list[bytes]) -> tuple[list[tuple[EventKind, int, str]], dict[int, int], list[bytes]]:
    served = Served(greeted=False)
    for piece in pieces:
        served.hear(piece)
    requests = [b"".join(stream.incoming.messages) for stream in served.machine.streams.values()]
    events = [told for told in served.events if told[0] is not EventKind.MESSAGES]
    return events, served.resets, requests


WHOLE = heard([CONVERSATION])


def test_a_conversation_is_told_in_its_order() -> None:
    events, resets, requests = WHOLE
    assert events[:-1] == [
        (EventKind.GREETED, 0, ""),
        (EventKind.STARTED, 1, ""),
        (EventKind.ENDED, 1, ""),
        (EventKind.STARTED, 3, ""),
        (EventKind.ENDED, 3, ""),
        (EventKind.STARTED, 7, ""),
    ]
    assert (events[-1][:2], resets) == ((EventKind.BROKEN, 7), {5: ErrorCode.PROTOCOL_ERROR})
    assert requests == [b"one", bytes(40_000)]


@given(cuts=st.lists(st.integers(1, len(CONVERSATION) - 1), max_size=12))
def test_however_the_bytes_come_they_mean_the_same(cuts: list[int]) -> None:
    ends = [0, *sorted(set(cuts)), len(CONVERSATION)]
    assert heard([CONVERSATION[start:stop] for start, stop in pairwise(ends)]) == WHOLE


def test_a_turn_has_an_end() -> None:
    served = Served()
    calls = b"".join(headers(stream) + data(stream, b"") for stream in range(1, 1001, 2))
    events = served.machine.receive_bytes(calls, served.now)
    assert served.machine.has_backlog
    assert 0 < sum(event is EventKind.STARTED for event, *_ in events) <= 20
    served.hear()
    assert len(served.machine.streams) == 500


@pytest.mark.parametrize(
    "call",
    [
        CALL[1:],
        (CALL[0], *CALL[2:]),
        (*CALL[:2], *CALL[3:]),
        (*CALL[:2], (":path", ""), CALL[3]),
        (CALL[3], *CALL[:3]),
        (CALL[0], *CALL),
        (*CALL, ("Upper", "x")),
        (*CALL, ("connection", "close")),
        (*CALL, ("transfer-encoding", "chunked")),
        (*CALL, ("te", "gzip")),
        (*CALL, ("x-mq-client-id", "a\x1b[2Jb")),
        (*CALL, ("x-mq-client-id", "a\nb")),
        (*CALL, (":unknown", "x")),
        (*CALL, (":status", "200")),
        (*CALL, ("content-length", "-1")),
        (*CALL, ("na me", "x")),
    ],
)
def test_malformed_headers_end_their_call_alone(call: tuple[tuple[str, str], ...]) -> None:
    served = Served().hear(headers(1, call=call), headers(3), data(3, b"x"))
    assert served.resets == {1: ErrorCode.PROTOCOL_ERROR}
    assert list(served.machine.streams) == [3]


@pytest.mark.parametrize(("length", "sent"), [("3", 4), ("9", 4), ("0", 1)])
def test_contents_are_as_long_as_was_said(length: str, sent: int) -> None:
    served = Served().hear(
        headers(1, ("content-length", length)), h2.encode_frame(h2.DATA, h2.END_STREAM, 1, bytes(sent))
    )
    assert served.resets == {1: ErrorCode.PROTOCOL_ERROR}


def test_a_stream_that_was_passed_over_can_not_be_opened() -> None:
    assert Served().hear(headers(5), headers(3)).goaway == ErrorCode.STREAM_CLOSED


def test_what_was_on_its_way_to_a_call_that_ended_is_let_pass_once() -> None:
    served = Served().hear(headers(1))
    served.machine.abort_stream(served.machine.streams[1], GrpcStatus.CANCELLED, "over")
    served.hear(data(1, b"late"), headers(3), data(3, b"x"))
    assert served.goaway is None
    assert served.hear(data(1, b"later still")).goaway == ErrorCode.STREAM_CLOSED


CONTROL = {
    "PING": h2.encode_frame(h2.PING, 0, 0, bytes(8)),
    "acknowledged PING": h2.encode_frame(h2.PING, h2.ACK, 0, bytes(8)),
    "SETTINGS": h2.settings_frame({}),
    "PRIORITY": h2.encode_frame(h2.PRIORITY, 0, 9, bytes(5)),
    "WINDOW_UPDATE": h2.window_frame(0, 1),
    "empty DATA": h2.encode_frame(h2.DATA, 0, 1),
    "unknown": h2.encode_frame(0x77, 0, 0, b"x"),
    "reset": h2.reset_frame(1, ErrorCode.CANCEL),
}


@pytest.mark.parametrize("name", CONTROL)
def test_frames_that_ask_for_nothing_are_counted(name: str) -> None:
    served = Served(ConnectionBudgets(control_frames_per_s=100)).hear(headers(1), CONTROL[name] * 50)
    assert served.goaway is None
    served.hear(CONTROL[name] * 250)
    assert served.goaway == ErrorCode.ENHANCE_YOUR_CALM
    assert served.machine.failure is not None
    assert served.machine.failure.limit == "control_frames"


def test_frames_that_ask_for_nothing_may_come_at_their_rate_for_ever() -> None:
    served = Served(ConnectionBudgets(control_frames_per_s=100))
    for _ in range(100):
        served.now += 1.0
        served.hear(CONTROL["PING"] * 99)
    assert served.goaway is None


def test_an_empty_continuation_is_counted() -> None:
    served = Served(ConnectionBudgets(control_frames_per_s=100))
    served.hear(h2.encode_frame(h2.HEADERS, 0, 1), h2.encode_frame(h2.CONTINUATION, 0, 1) * 300)
    assert served.goaway == ErrorCode.ENHANCE_YOUR_CALM


@pytest.mark.parametrize("provoked", [False, True])
def test_calls_that_are_broken_off_are_counted_whoever_says_so(*, provoked: bool) -> None:
    served = Served(ConnectionBudgets(resets_per_s=10, streams_max=10))
    for stream in range(1, 101, 2):
        served.hear(
            headers(stream), h2.window_frame(stream, 0) if provoked else h2.reset_frame(stream, ErrorCode.CANCEL)
        )
        if served.goaway is not None:
            break
    assert (served.goaway, stream) == (ErrorCode.ENHANCE_YOUR_CALM, 21)
    assert served.machine.failure is not None
    assert served.machine.failure.limit == "resets"


def test_more_calls_than_there_may_be_are_refused() -> None:
    served = Served(ConnectionBudgets(streams_max=3)).hear(*[headers(stream) for stream in range(1, 9, 2)])
    assert served.resets == {7: ErrorCode.REFUSED_STREAM}
    assert served.machine.limit_counts == {"connection_streams": 1}


# --- what is held


def test_a_request_counts_until_its_call_ends() -> None:
    served = Served().hear(headers(1), data(1, bytes(100_000)))
    assert served.machine.held_bytes == served.ledger.held_bytes == 100_005
    stream = served.machine.streams[1]
    served.machine.count_read(stream, 100_005)
    assert served.ledger.held_bytes == 100_005
    assert served.machine.finish_call(stream, [b"answer"], ())
    assert served.machine.held_bytes == served.ledger.held_bytes == 0


def test_the_window_comes_back_with_the_end_of_the_call() -> None:
    served = Served(ConnectionBudgets(connection_in_bytes_max=4 * MIB)).hear(headers(1), data(1, bytes(2 * MIB)))
    assert 0 not in dict(served.said(h2.WINDOW_UPDATE)[1:])
    served.machine.count_read(served.machine.streams[1], 2 * MIB + 5)
    served.machine.finish_call(served.machine.streams[1], [b""], ())
    served.send()
    assert h2.read_u32(served.said(h2.WINDOW_UPDATE)[-1][1], "") == 2 * MIB + 5


def half(stream: int, size: int, promised: int) -> bytes:
    """The begin of a request."""
    return headers(stream) + data(stream, bytes(promised), end=False)[: size + 9 * (size // h2.DEFAULT_FRAME_MAX)]


def test_if_parts_of_many_requests_fill_the_budget_the_youngest_is_given_up() -> None:
    budgets = ConnectionBudgets(connection_in_bytes_max=4 * MIB, in_bytes_max=8 * MIB)
    served = Served(budgets)
    served.hear(half(1, 2 * MIB, 3 * MIB), half(3, MIB, 3 * MIB), half(5, 7 * MIB // 8, 3 * MIB))
    assert served.goaway is None
    assert served.statuses == {5: str(int(GrpcStatus.RESOURCE_EXHAUSTED))}
    assert served.machine.limit_counts == {"connection_in_bytes": 1}


def test_while_there_is_much_left_a_connection_may_have_more() -> None:
    served = Served(ConnectionBudgets(connection_in_bytes_max=4 * MIB, in_bytes_max=64 * MIB))
    for stream in (1, 3, 5):
        served.hear(half(stream, 2 * MIB, 3 * MIB))
    assert (served.goaway, served.statuses) == (None, {})
    assert served.machine.held_bytes >= 6 * MIB - 3 * h2.DEFAULT_FRAME_MAX


def test_a_request_that_is_too_large_is_refused_by_its_prefix() -> None:
    served = Served(ConnectionBudgets(message_bytes_max=1000)).hear(headers(1), data(1, bytes(1001))[:200])
    served.hear(data(1, bytes(1001))[200:])
    assert served.statuses == {1: str(int(GrpcStatus.RESOURCE_EXHAUSTED))}
    assert (served.machine.held_bytes, served.machine.partial_bytes, served.ledger.held_bytes) == (0, 0, 0)


SIZES = st.sampled_from([0, 1, 100, 16_379, 40_000, 300_000])


@given(
    calls=st.lists(st.tuples(SIZES, st.sampled_from(["answer", "reset", "abort", "half", "leave"])), max_size=12),
    ends=st.booleans(),
)
def test_nothing_is_held_that_is_not_there(calls: list[tuple[int, str]], *, ends: bool) -> None:
    served = Served()
    for number, (size, way) in enumerate(calls):
        stream = 2 * number + 1
        sent = headers(stream) + data(stream, bytes(size))
        served.hear(sent[:-1] if way == "half" and size else sent)
        if way == "half" and size:  # the rest of the frame
            served.hear(sent[-1:])
        call = served.machine.streams[stream]
        if way == "answer":
            served.machine.count_read(call, size + 5)
            if not served.machine.finish_call(call, [bytes(size)], ()):
                served.machine.send_headers(call)
                served.machine.send_messages(call, [bytes(size)])
                served.machine.end_call(call, ())
        elif way == "reset":
            served.hear(h2.reset_frame(stream, ErrorCode.CANCEL))
        elif way == "abort":
            served.machine.abort_stream(call, GrpcStatus.INTERNAL, "no")
    served.send()
    there = served.machine.streams.values()
    assert served.machine.held_bytes == served.ledger.held_bytes == sum(call.held_bytes for call in there)
    assert served.machine.partial_bytes == sum(call.incoming.partial for call in there)
    assert served.ledger.unread_bytes == served.machine.unread_bytes == sum(call.out_bytes for call in there)
    if ends:
        served.machine.close_streams()
        assert (served.ledger.held_bytes, served.ledger.unread_bytes, served.machine.partial_bytes) == (0, 0, 0)


def test_what_the_network_does_not_take_waits_where_it_counts() -> None:
    served = Served().hear(headers(1), data(1, b"x"))
    served.machine.blocked = True
    call = served.machine.streams[1]
    assert not served.machine.finish_call(call, [bytes(1000)], ())
    served.machine.send_headers(call)
    served.machine.send_messages(call, [bytes(1000)])
    assert served.machine.unread_bytes == served.ledger.unread_bytes == 1005
    assert not served.machine.is_overfull()
    served.machine.send_messages(call, [bytes(9 * MIB)])
    assert served.machine.is_overfull()


def test_answers_to_frames_wait_up_to_a_limit() -> None:
    served = Served(ConnectionBudgets(control_frames_per_s=10_000))
    served.machine.blocked = True
    served.machine.receive_bytes(CONTROL["PING"] * 900, served.now)
    assert served.machine.failure is None
    while served.machine.has_backlog:
        served.machine.receive_bytes(b"", served.now)
    served.machine.receive_bytes(CONTROL["PING"] * 200, served.now)
    assert served.machine.failure is not None


def test_a_ledger_is_shared() -> None:
    ledger = BudgetLedger()
    first, second = (Served(ledger=ledger).hear(headers(1), data(1, bytes(1000))) for _ in range(2))
    assert ledger.held_bytes == first.machine.held_bytes + second.machine.held_bytes == 2010


def test_padding_that_can_t_be_is_an_error_also_of_a_stream_that_is_no_more() -> None:
    served = Served().hear(headers(1), data(1, b"x", end=False), h2.reset_frame(1, ErrorCode.CANCEL))
    served.hear(h2.encode_frame(h2.DATA, h2.PADDED, 1, b"\x09x"))
    assert served.goaway == ErrorCode.PROTOCOL_ERROR
