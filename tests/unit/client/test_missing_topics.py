"""Consumers of topics that aren't there yet, and servers that refuse a client's settings."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

import ternmq
from ternmq import Message, MessageView, Producer, PullConsumer, PushConsumer, SimpleConsumer, Timing
from ternmq.connections.grpc_errors import error_of_status
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_rpc.grpc_http2.messages import GrpcStatus
from tests.support.embedded import Embedded, RawClient, local_settings
from tests.support.until import until
from tests.unit.client.scripted_server import TOPIC, ScriptedServer

NOT_THERE = rpc.QueryAssignmentResponse(status=pb.Status(code=pb.TOPIC_NOT_FOUND, message="scripted"))
SELDOM = Timing(assignment_s=1e6)


async def listener(_: MessageView) -> None: ...


def push(server: ScriptedServer, *topics: str) -> PushConsumer:
    return PushConsumer(server.endpoint, "g", dict.fromkeys(topics, "*"), listener, timing=SELDOM)


def pull(server: ScriptedServer, *topics: str) -> PullConsumer:
    return PullConsumer(server.endpoint, "g", dict.fromkeys(topics, "*"), timing=SELDOM)


@pytest.mark.parametrize(("kind", "call"), [(push, "ReceiveMessage"), (pull, "PullMessage")])
async def test_a_topic_that_is_missing_is_looked_for_soon_again(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture, kind: Callable[..., Any], call: str
) -> None:
    caplog.set_level(logging.INFO, logger="ternmq")
    server.script("QueryAssignment", NOT_THERE, NOT_THERE, NOT_THERE)
    async with kind(server, TOPIC):
        await server.asked(call)
    assert len(server.requests["QueryAssignment"]) == 4
    told = [record.getMessage() for record in caplog.records if TOPIC in record.getMessage()]
    assert [text.partition(": ")[2] for text in told] == [
        f"nothing is consumed of {TOPIC} until it exists: TOPIC_NOT_FOUND: scripted",
        f"topic {TOPIC} exists now",
    ]


async def test_nothing_is_asked_meanwhile_of_topics_that_are_there(server: ScriptedServer) -> None:
    def answer(request: rpc.QueryAssignmentRequest) -> rpc.QueryAssignmentResponse:
        return NOT_THERE if request.topic.name == "later" else server._default_QueryAssignment(request)

    server.script("QueryAssignment", *[answer] * 4)
    async with push(server, TOPIC, "later") as consumer:
        await server.asked("QueryAssignment", 5)
        await until(lambda: len(consumer._receiving) == 2)
    asked = [request.topic.name for request in server.requests["QueryAssignment"]]
    assert asked == [TOPIC, "later", "later", "later", "later"]


async def test_a_consumer_of_a_fifo_topic_that_was_missing_keeps_its_order(tmp_path: Path) -> None:
    """Whether its group is ordered was not known when it began."""
    orders: list[bytes] = []

    async def slow_first(view: MessageView) -> None:
        await asyncio.sleep(0 if orders else 0.05)  # the second one would pass it
        orders.append(view.body)

    settings = local_settings(tmp_path)
    async with (
        Embedded(settings) as server,
        RawClient(server.grpc) as operator,
        PushConsumer(server.grpc, "g", {TOPIC: "*"}, slow_first) as consumer,
        Producer(server.grpc) as producer,
    ):
        await operator.create_topic(TOPIC, kind=pb.FIFO)
        for body in (b"1", b"2", b"3"):
            await producer.send(Message(TOPIC, body, message_group="a"))
        await until(lambda: len(orders) == 3)
        assert consumer._fifo
    assert orders == [b"1", b"2", b"3"]


# Refusals of settings.


@pytest.fixture
async def strict(tmp_path: Path) -> AsyncIterator[Embedded]:
    async with Embedded(local_settings(tmp_path, auto_create=False)) as server, RawClient(server.grpc) as operator:
        await operator.create_topic(TOPIC)
        yield server


@pytest.mark.parametrize(
    "make",
    [
        lambda endpoint: SimpleConsumer(endpoint, "nobodys", {TOPIC: "*"}),
        lambda endpoint: PushConsumer(endpoint, "nobodys", {TOPIC: "*"}, listener),
        lambda endpoint: PullConsumer(endpoint, "nobodys", {TOPIC: "*"}),
    ],
    ids=["simple", "push", "pull"],
)
async def test_a_missing_group_is_not_found(strict: Embedded, make: Callable[[str], Any]) -> None:
    with pytest.raises(ternmq.NotFound, match=r"CONSUMER_GROUP_NOT_FOUND: .*nobodys") as refused:
        await make(strict.grpc).start()
    assert refused.value.code == pb.CONSUMER_GROUP_NOT_FOUND


@pytest.mark.parametrize(
    ("status", "said", "family", "code"),
    [
        (GrpcStatus.INVALID_ARGUMENT, "ILLEGAL_TOPIC: no", ternmq.BadRequest, pb.ILLEGAL_TOPIC),
        (GrpcStatus.INVALID_ARGUMENT, "TOPIC_NOT_FOUND: no", ternmq.NotFound, pb.TOPIC_NOT_FOUND),
        (GrpcStatus.RESOURCE_EXHAUSTED, "TOO_MANY_REQUESTS: no", ternmq.TooManyRequests, pb.TOO_MANY_REQUESTS),
        (GrpcStatus.INVALID_ARGUMENT, "no code: no", ternmq.BadRequest, pb.BAD_REQUEST),
        (GrpcStatus.INVALID_ARGUMENT, "OK: no", ternmq.BadRequest, pb.BAD_REQUEST),
        (GrpcStatus.INVALID_ARGUMENT, "ILLEGAL_TOPIC", ternmq.BadRequest, pb.BAD_REQUEST),
        (GrpcStatus.RESOURCE_EXHAUSTED, "too large", ternmq.ConnectionFailed, pb.CODE_UNSPECIFIED),
    ],
)
def test_a_refusal_by_a_status_of_grpc_has_the_protocols_code(
    status: GrpcStatus, said: str, family: type[ternmq.ClientError], code: pb.Code
) -> None:
    error = error_of_status("mq:8081", "Telemetry", status, said, uses_tls=False)
    assert (type(error), error.code) == (family, code)
    assert "mq:8081" in str(error)


async def test_the_log_says_that_settings_are_refused_and_why(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with SimpleConsumer(server.endpoint, "g", {TOPIC: "*"}) as consumer:
        server.script("Telemetry", grpc.StatusCode.INVALID_ARGUMENT)
        await consumer._send_settings()
        await server.asked("Telemetry", 3)
    assert "the settings of this client were refused, and are sent again: BAD_REQUEST: " in caplog.text
