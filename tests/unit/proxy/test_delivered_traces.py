"""What a process remembers of the traces of messages that consumers have."""

from ternmq_common.shard.receipt_handle import ReceiptHandle
from ternmq_proxy.fronts.grpc.delivered_traces import LOOKED_UP_MAX, DeliveredTraces
from tests.support.handle_keys import made_up_handles

HANDLES = made_up_handles()


def handle(offset: int, *, generation: int = 1) -> ReceiptHandle:
    return ReceiptHandle("broker-0", 0, offset, generation, 60_000)


def text(one: ReceiptHandle, topic: str = "orders") -> str:
    return HANDLES.form_for("billing", topic).encode_handle(one).decode()


def test_a_message_is_known_by_any_handle_of_it() -> None:
    """A consumer that hides it for longer has another one."""
    traces = DeliveredTraces(HANDLES)
    traces.remember_trace("billing", "orders", handle(1), "first")
    assert traces.find_traces("billing", "orders", [text(handle(1, generation=2)), text(handle(2))]) == ["first"]
    traces.remember_trace("billing", "orders", handle(1, generation=3), "again")
    assert traces.find_traces("billing", "orders", [text(handle(1))]) == ["again"]


def test_of_others_messages_and_of_what_is_no_handle_nothing_is_known() -> None:
    traces = DeliveredTraces(HANDLES)
    traces.remember_trace("billing", "orders", handle(1), "trace")
    assert traces.find_traces("audit", "orders", [text(handle(1))]) == []
    assert traces.find_traces("billing", "news", [text(handle(1), "news")]) == []
    assert traces.find_traces("billing", "orders", ["", "2é", "x" * 60]) == []
    assert traces.find_traces("no group\n", "orders", [text(handle(1))]) == []


def test_the_oldest_are_forgotten() -> None:
    traces = DeliveredTraces(HANDLES, traces_max=2)
    for offset in (1, 2, 1, 3):
        traces.remember_trace("billing", "orders", handle(offset), str(offset))
    assert traces.find_traces("billing", "orders", [text(handle(offset)) for offset in (1, 2, 3)]) == ["1", "3"]


def test_no_more_handles_are_looked_up_than_a_span_has_links() -> None:
    traces = DeliveredTraces(HANDLES)
    traces.remember_trace("billing", "orders", handle(1), "trace")
    assert len(traces.find_traces("billing", "orders", [text(handle(1))] * (LOOKED_UP_MAX + 1))) == LOOKED_UP_MAX
