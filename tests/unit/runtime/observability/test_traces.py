"""A message's trace, from its producer over the broker to its consumer, as a collector gets it."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.proto.trace.v1.trace_pb2 import Status as SpanStatus

from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_runtime.observability.tracing import child_span, current_traceparent, is_recorded
from tests.support.collector import Collector, text_of
from tests.support.embedded import Embedded, Proto, RawClient, duration, local_settings, message

pytestmark = pytest.mark.slow

TRACE = "0af7651916cd43dd8448eb211c80319c"
PRODUCER = "b7ad6b7169203331"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{PRODUCER}-01", f"00-{TRACE}-{PRODUCER}-00"
Serve = Callable[..., AbstractAsyncContextManager[RawClient]]


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as running:
        yield running


@pytest.fixture
def serve(tmp_path: Path, collector: Collector) -> Serve:
    """A client of a stack whose traces are at the collector once it has ended."""

    @asynccontextmanager
    async def running(ratio: float = 0.0) -> AsyncIterator[RawClient]:
        settings = local_settings(tmp_path / "data", otlp_endpoint=collector.endpoint, trace_ratio=ratio)
        async with Embedded(settings) as server, RawClient(server.grpc) as client:
            yield client

    return running


def by_name(collector: Collector) -> dict[str, Span]:
    return {span.name: span for span in collector.spans()}


async def test_a_message_s_trace_goes_from_its_producer_to_its_consumer(serve: Serve, collector: Collector) -> None:
    async with serve() as client:
        await client.send("orders", b"traced", trace_context=SAMPLED)
        [received] = (await client.receive("orders", "billing")).messages
        assert received.system_properties.trace_context == SAMPLED
    spans = by_name(collector)
    assert set(spans) == {"send orders", "append orders", "receive orders"}
    assert {found.trace_id.hex() for found in spans.values()} == {TRACE}
    send, append, receive = spans["send orders"], spans["append orders"], spans["receive orders"]
    assert send.parent_span_id.hex() == PRODUCER
    assert append.parent_span_id == send.span_id
    assert receive.parent_span_id.hex() == PRODUCER
    assert [link.span_id.hex() for link in receive.links] == [PRODUCER]
    assert send.start_time_unix_nano <= append.start_time_unix_nano <= append.end_time_unix_nano
    assert text_of(send.attributes) | {"messaging.message.id": "", "client.address": ""} == {
        "rpc.system.name": "grpc",
        "rpc.method": "apache.rocketmq.v2.MessagingService/SendMessage",
        "messaging.system": "rocketmq",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.client.id": client.client_id,
        "messaging.message.id": "",
        "client.address": "",
    }
    assert text_of(receive.attributes)["messaging.consumer.group.name"] == "billing"


async def test_a_producer_that_traces_nothing_gets_a_trace_that_its_consumer_goes_on_with(
    serve: Serve, collector: Collector
) -> None:
    async with serve(ratio=1.0) as client:
        await client.send("orders", b"one", b"two")
        received = (await client.receive("orders", "billing")).messages
    [left] = {each.system_properties.trace_context for each in received}
    spans = by_name(collector)
    send = spans["send orders"]
    assert left.startswith(f"00-{send.trace_id.hex()}-{send.span_id.hex()}-")
    assert is_recorded(left)
    assert {spans[name].trace_id for name in ("append orders", "receive orders")} == {send.trace_id}


async def test_a_producer_that_decided_against_a_trace_is_not_traced(serve: Serve, collector: Collector) -> None:
    async with serve(ratio=1.0) as client:
        await client.create_topic("orders")
        await client.send("orders", b"quiet", trace_context=UNSAMPLED)
        [received] = (await client.receive("orders", "billing")).messages
        assert received.system_properties.trace_context == UNSAMPLED
    assert "send orders" not in by_name(collector)


async def test_without_a_ratio_only_what_producers_trace_is_traced(serve: Serve, collector: Collector) -> None:
    async with serve() as client:
        await client.send("orders", b"quiet")
        await client.send("orders", b"odd", trace_context="no trace at all")
        received = (await client.receive("orders", "billing")).messages
        assert [each.system_properties.trace_context for each in received] == ["", "no trace at all"]
    assert collector.spans() == []


async def test_a_batch_of_several_traces_is_linked_to_all(serve: Serve, collector: Collector) -> None:
    others = [f"00-{number:032x}-{number:016x}-01" for number in (1, 2)]
    async with serve() as client:
        await client.create_topic("orders")
        for traceparent in others:
            await client.send("orders", b"traced", trace_context=traceparent)
        await client.send("orders", b"quiet")
        await client.receive("orders", "billing")
    receive = by_name(collector)["receive orders"]
    assert [link.span_id.hex() for link in receive.links] == [f"{number:016x}" for number in (1, 2)]
    assert receive.trace_id.hex() == f"{1:032x}"


@pytest.mark.parametrize(
    ("name", "request_type", "given"),
    [
        ("ack", rpc.AckMessageRequest, lambda handle: {"entries": [{"receipt_handle": handle}]}),
        ("nack", rpc.ChangeInvisibleDurationRequest, lambda handle: {"receipt_handle": handle}),
        ("reject", rpc.ForwardMessageToDeadLetterQueueRequest, lambda handle: {"receipt_handle": handle}),
    ],
)
async def test_what_settles_a_message_is_in_its_producer_s_trace(
    serve: Serve, collector: Collector, name: str, request_type: Proto, given: Callable[[str], Proto]
) -> None:
    """Although the consumer sends nothing but the receipt handle, and nobody draws lots for it."""
    async with serve() as client:
        await client.send("orders", b"traced", trace_context=SAMPLED)
        [received] = (await client.receive("orders", "billing")).messages
        handle = received.system_properties.receipt_handle
        request = request_type(group={"name": "billing"}, topic={"name": "orders"}, **given(handle))
        if name == "nack":
            request.invisible_duration.CopyFrom(duration(60))
        answer = await client.call(request_type.DESCRIPTOR.name.removesuffix("Request"), request)
        assert answer.status.code == pb.OK, answer.status.message
    settle = by_name(collector)[f"{name} orders"]
    assert settle.trace_id.hex() == TRACE
    assert settle.parent_span_id.hex() == PRODUCER
    assert [link.span_id.hex() for link in settle.links] == [PRODUCER]
    assert text_of(settle.attributes)["messaging.operation.type"] == "settle"


async def test_an_acknowledgement_of_what_nobody_traces_is_no_trace_of_its_own(
    serve: Serve, collector: Collector
) -> None:
    """Not even where every call is recorded of which nobody says whether."""
    async with serve(ratio=1.0) as client:
        await client.create_topic("orders")
        await client.send("orders", b"quiet", trace_context=UNSAMPLED)
        [received] = (await client.receive("orders", "billing")).messages
        await client.ack("orders", "billing", received.system_properties.receipt_handle, "no handle")
    assert not [name for name in by_name(collector) if name.startswith("ack")]


async def test_an_acknowledgement_of_several_traces_is_linked_to_all(serve: Serve, collector: Collector) -> None:
    async with serve() as client:
        await client.create_topic("orders")
        for number in (1, 2):
            await client.send("orders", b"traced", trace_context=f"00-{number:032x}-{number:016x}-01")
        received = (await client.receive("orders", "billing")).messages
        client.metadata = (*client.metadata, ("traceparent", SAMPLED))
        await client.ack("orders", "billing", *(each.system_properties.receipt_handle for each in received))
    ack = by_name(collector)["ack orders"]
    assert ack.parent_span_id.hex() == PRODUCER
    assert [link.span_id.hex() for link in ack.links] == [f"{number:016x}" for number in (1, 2)]


async def test_a_call_goes_on_with_the_trace_of_its_header(serve: Serve, collector: Collector) -> None:
    async with serve() as client:
        await client.send("orders", b"a")
        [received] = (await client.receive("orders", "billing")).messages
        client.metadata = (*client.metadata, ("traceparent", SAMPLED))
        await client.ack("orders", "billing", received.system_properties.receipt_handle)
        await client.call("QueryRoute", topic={"name": "orders"})
    spans = by_name(collector)
    assert set(spans) == {"ack orders", "apache.rocketmq.v2.MessagingService/QueryRoute"}
    assert {found.parent_span_id.hex() for found in spans.values()} == {PRODUCER}
    assert text_of(spans["ack orders"].attributes)["messaging.operation.type"] == "settle"


async def test_a_refused_call_is_an_error_in_its_trace(serve: Serve, collector: Collector) -> None:
    async with serve() as client:
        wrong = message("orders", b"x" * (5 << 20), trace_context=SAMPLED)
        answer = await client.call("SendMessage", messages=[wrong])
        assert answer.status.code == pb.MESSAGE_BODY_TOO_LARGE
    [send] = collector.spans()
    assert send.status.code == SpanStatus.STATUS_CODE_ERROR
    assert text_of(send.attributes)["error.type"] == "MESSAGE_BODY_TOO_LARGE"


def test_without_a_trace_spans_are_nothing() -> None:
    with child_span("append", "orders") as nothing:
        assert (nothing, current_traceparent()) == (None, "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SAMPLED, True),
        (UNSAMPLED, False),
        (f"00-{TRACE}-{PRODUCER}-03", True),
        (f"cc-{TRACE}-{PRODUCER}-01-and-more", True),
        ("", None),
        (f"00-{TRACE}-{PRODUCER}", None),
        (f"00-{TRACE.upper()}-{PRODUCER}-01", None),
    ],
)
def test_a_traceparent_says_whether_it_is_recorded(text: str, expected: bool | None) -> None:
    assert is_recorded(text) is expected
