"""Traces: spans of producers and consumers, and how messages carry them."""

import grpc
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import ternmq
from ternmq import Message, MessageView, Producer, PullConsumer, PushConsumer, SimpleConsumer
from ternmq.otel import OpenTelemetryHooks
from ternmq_protos.v2 import definition_pb2 as pb
from tests.unit.client.queue_model import pulled
from tests.unit.client.scripted_server import TOPIC, ScriptedServer, sent, stored_message

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Traces:
    """Spans that were ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.hooks = [OpenTelemetryHooks(provider)]

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]


@pytest.fixture
def traces() -> Traces:
    return Traces()


async def test_a_send_is_a_span_that_its_messages_carry(server: ScriptedServer, traces: Traces) -> None:
    server.script("SendMessage", grpc.StatusCode.UNAVAILABLE)
    async with Producer(server.endpoint, topics=[TOPIC], hooks=traces.hooks) as producer:
        receipt = await producer.send(Message(TOPIC, b"body", tag="t", keys=("k",)))
    [span] = traces.named(f"send {TOPIC}")
    assert span.context is not None
    assert span.attributes is not None
    expected = f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-{span.context.trace_flags:02x}"
    assert [request.messages[0].system_properties.trace_context for request in server.requests["SendMessage"]] == [
        expected
    ] * 2
    assert (span.kind, span.status.status_code) == (SpanKind.PRODUCER, StatusCode.UNSET)
    assert span.attributes["messaging.system"] == "rocketmq"
    assert span.attributes["messaging.destination.name"] == TOPIC
    assert span.attributes["messaging.message.id"] == receipt.message_id
    assert span.attributes["messaging.message.body.size"] == 4
    assert span.attributes["messaging.rocketmq.message.tag"] == "t"


async def test_a_half_message_is_sent_like_any_other(server: ScriptedServer, traces: Traces) -> None:
    producer = Producer(server.endpoint, topics=[TOPIC], hooks=traces.hooks)
    async with producer, producer.begin_transaction() as transaction:
        await transaction.send(Message(TOPIC, b"body"))
    [span] = traces.named(f"send {TOPIC}")
    assert span.attributes is not None
    assert span.attributes["messaging.rocketmq.message.type"] == "transaction"
    sent_trace = server.requests["SendMessage"][0].messages[0].system_properties.trace_context
    assert server.requests["EndTransaction"][0].trace_context == sent_trace


async def test_a_failed_send_says_why(server: ScriptedServer, traces: Traces) -> None:
    server.script("SendMessage", sent(pb.FORBIDDEN))
    async with Producer(server.endpoint, topics=[TOPIC], hooks=traces.hooks) as producer:
        with pytest.raises(ternmq.SendManyError):
            await producer.send_many([Message(TOPIC, b"1"), Message(TOPIC, b"2")])
    [span] = traces.named(f"send {TOPIC}")
    assert span.attributes is not None
    assert (span.status.status_code, span.attributes["error.type"]) == (StatusCode.ERROR, "FORBIDDEN")
    assert span.attributes["messaging.batch.message_count"] == 2


def traced_message() -> pb.Message:
    message = stored_message(1)
    message.system_properties.trace_context = TRACEPARENT
    return message


def linked(span: ReadableSpan) -> list[str]:
    return [f"00-{link.context.trace_id:032x}-{link.context.span_id:016x}-01" for link in span.links]


async def test_a_receive_is_linked_to_the_producers(server: ScriptedServer, traces: Traces) -> None:
    garbage = stored_message(2)
    garbage.system_properties.trace_context = "garbage"
    server.deliver(traced_message(), garbage, stored_message(3))
    async with SimpleConsumer(server.endpoint, "g", {TOPIC: "*"}, hooks=traces.hooks) as consumer:
        await consumer.receive()
    [span] = traces.named(f"receive {TOPIC}")
    assert span.attributes is not None
    assert (span.kind, linked(span)) == (SpanKind.CLIENT, [TRACEPARENT])
    assert span.attributes["messaging.batch.message_count"] == 3
    assert span.attributes["messaging.consumer.group.name"] == "g"


async def test_a_pull_is_a_receive(server: ScriptedServer, traces: Traces) -> None:
    server.script("QueryAssignment", server.assigned(0))
    server.script("PullMessage", pulled(pb.OK, traced_message(), next_offset=2))
    async with PullConsumer(server.endpoint, "g", {TOPIC: "*"}, hooks=traces.hooks) as consumer:
        await anext(consumer)
    [span] = traces.named(f"receive {TOPIC}")
    assert (span.kind, linked(span)) == (SpanKind.CLIENT, [TRACEPARENT])


@pytest.mark.parametrize("in_thread", [True, False])
async def test_a_listener_runs_inside_its_span(server: ScriptedServer, traces: Traces, in_thread: bool) -> None:
    current: list[int] = []

    def plain(_: MessageView) -> None:
        current.append(trace.get_current_span().get_span_context().span_id)

    async def coroutine(view: MessageView) -> None:
        plain(view)

    server.deliver(traced_message())
    listener = plain if in_thread else coroutine
    async with PushConsumer(server.endpoint, "g", {TOPIC: "*"}, listener, hooks=traces.hooks):
        await server.asked("AckMessage")
    [span] = traces.named(f"process {TOPIC}")
    assert span.context is not None
    assert (span.kind, linked(span), current) == (SpanKind.CONSUMER, [TRACEPARENT], [span.context.span_id])
    assert span.parent is None


async def test_a_failing_listener_is_seen_in_its_span(server: ScriptedServer, traces: Traces) -> None:
    async def listener(_: MessageView) -> None:
        raise RuntimeError("scripted")

    server.deliver(stored_message(1))
    async with PushConsumer(server.endpoint, "g", {TOPIC: "*"}, listener, hooks=traces.hooks):
        await server.asked("ChangeInvisibleDuration")
    [span] = traces.named(f"process {TOPIC}")
    assert span.attributes is not None
    assert (span.status.status_code, span.attributes["error.type"]) == (StatusCode.ERROR, "RuntimeError")


async def test_a_hook_that_fails_costs_no_message(server: ScriptedServer) -> None:
    class Broken(ternmq.Hooks):
        def send_started(self, sending: ternmq.Sending) -> object:
            raise RuntimeError("scripted")

    async with Producer(server.endpoint, topics=[TOPIC], hooks=[Broken()]) as producer:
        assert (await producer.send(Message(TOPIC, b"x"))).offset == 1
