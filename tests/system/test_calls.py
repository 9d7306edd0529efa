"""What holds for every call: metadata, calls not served, bytes that are no request (`overview.md, Status codes`)."""

import asyncio
import logging

import grpc
import grpc.aio
import pytest

from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_proxy.catalog.catalog import Catalog
from tests.support.embedded import MESSAGING, Embedded, RawClient, code, message
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
UNARY = sorted(
    method.name for method in MESSAGING.methods if not method.server_streaming and not method.client_streaming
)
GARBAGE = b"\xff\xff\xff"


def empty(name: str) -> object:
    return getattr(rpc, MESSAGING.methods_by_name[name].input_type.name)()


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("client_id", [None, "", " "])
async def test_every_unary_call_needs_a_client_id(server: Embedded, name: str, client_id: str | None) -> None:
    metadata = () if client_id is None else (("x-mq-client-id", client_id),)
    async with RawClient(server.grpc, metadata=metadata) as nobody:
        assert code(await nobody.call(name, empty(name))) == "CLIENT_ID_REQUIRED"


@pytest.mark.parametrize("name", ["ReceiveMessage", "PullMessage"])
async def test_every_streamed_call_needs_a_client_id(server: Embedded, name: str) -> None:
    async with RawClient(server.grpc, metadata=()) as nobody:
        answers = [item async for item in nobody.stream(name, empty(name))]
    assert code(answers[0]) == "CLIENT_ID_REQUIRED"


@pytest.mark.parametrize("name", UNARY)
async def test_an_empty_request_is_answered_in_the_body(client: RawClient, name: str) -> None:
    answer = await client.call(name, empty(name))
    assert answer.status.code >= pb.BAD_REQUEST
    assert answer.status.code != pb.INTERNAL_SERVER_ERROR
    assert answer.status.message


@pytest.mark.parametrize("name", UNARY)
async def test_bytes_that_are_no_request_end_a_unary_call_with_internal(client: RawClient, name: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await client.call(name, GARBAGE)
    assert ended.value.code() is grpc.StatusCode.INTERNAL


@pytest.mark.parametrize("name", ["ReceiveMessage", "PullMessage"])
async def test_bytes_that_are_no_request_end_a_streamed_call_with_internal(client: RawClient, name: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await client.stream(name, GARBAGE).read()
    assert ended.value.code() is grpc.StatusCode.INTERNAL


async def test_bytes_that_are_no_command_end_telemetry_with_internal(client: RawClient) -> None:
    stream = client.telemetry()
    await stream.write(GARBAGE)
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await stream.read()
    assert ended.value.code() is grpc.StatusCode.INTERNAL


@pytest.mark.parametrize(
    "path",
    [
        "/apache.rocketmq.v2.MessagingService/NoSuchCall",
        "/apache.rocketmq.v2.Admin/NoSuchCall",
        "/apache.rocketmq.v1.MessagingService/QueryRoute",
        "/nobody/nothing",
    ],
)
async def test_a_call_that_nobody_knows_is_unimplemented_for_grpc(client: RawClient, path: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await client.channel.unary_unary(path)(b"", metadata=client.metadata)
    assert ended.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_the_last_of_repeated_metadata_counts(server: Embedded, topic: str, group: str) -> None:
    metadata = (("x-mq-client-id", "first"), ("x-mq-language", "GO"), ("x-mq-client-id", "last"))
    async with RawClient(server.grpc, metadata=metadata) as client:
        await client.receive(topic, group)
        described = await client.admin("DescribeGroup", name=group)
    assert list(described.client_ids) == ["last"]


async def test_all_that_official_clients_send_along_is_welcome(server: Embedded, topic: str) -> None:
    metadata = (
        ("x-mq-client-id", "host@1@0@abc"),
        ("x-mq-language", "node"),
        ("x-mq-protocol", "GRPC_V2"),
        ("x-mq-protocol-version", "2.0.0"),
        ("x-mq-client-version", "not a version"),
        ("x-mq-request-id", "id"),
        ("x-mq-namespace", ""),
        ("x-mq-date-time", "20261121T000000Z"),
        ("x-mq-channel-id", "channel"),
        ("x-mq-session-token", "token"),
        ("authorization", "MQv2-HMAC-SHA1 Credential=, SignedHeaders=x-mq-date-time, Signature=00"),
    )
    async with RawClient(server.grpc, metadata=metadata) as client:
        assert code(await client.call("QueryRoute", topic={"name": topic})) == "OK"


async def test_headers_up_to_ten_kilobytes_are_read(server: Embedded, topic: str) -> None:
    metadata = (("x-mq-client-id", "c"), ("x-mq-session-token", "x" * 10_000))
    async with RawClient(server.grpc, metadata=metadata) as client:
        assert code(await client.call("QueryRoute", topic={"name": topic})) == "OK"


async def test_headers_without_end_are_refused_and_harm_nobody(server: Embedded, client: RawClient, topic: str) -> None:
    request = rpc.QueryRouteRequest(topic={"name": topic})
    async with RawClient(server.grpc, metadata=(("x-mq-client-id", "c"), ("x", "x" * 200_000))) as greedy:
        with pytest.raises(grpc.aio.AioRpcError):
            await greedy.call("QueryRoute", request)
    assert code(await client.call("QueryRoute", request)) == "OK"


async def test_a_request_above_32_mebibytes_is_refused_and_harms_nobody(
    client: RawClient, other: RawClient, topic: str, group: str
) -> None:
    waiting = asyncio.ensure_future(other.receive(topic, group, poll_s=15))
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await client.call("SendMessage", bytes(32 * 1024 * 1024 + 1))
    assert ended.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    await client.send(topic, b"body")
    assert (await waiting).bodies == [b"body"]


async def test_a_request_below_32_mebibytes_is_read(client: RawClient, topic: str) -> None:
    messages = [message(topic, bytes(4 * 1024 * 1024)) for _ in range(7)] + [message(topic, b"")]
    assert code(await client.call("SendMessage", messages=messages)) == "MESSAGE_BODY_EMPTY"


@pytest.mark.parametrize(
    "noise", [b"GET / HTTP/1.1\r\n\r\n", bytes(1000), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(99)]
)
async def test_a_connection_that_speaks_no_http2_harms_nobody(
    server: Embedded, client: RawClient, topic: str, noise: bytes
) -> None:
    host, port = server.grpc.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(noise)
    writer.write_eof()
    async with asyncio.timeout(10):
        await reader.read()  # the server ends it
    writer.close()
    await writer.wait_closed()
    assert code(await client.call("QueryRoute", topic={"name": topic})) == "OK"


async def test_an_error_that_nobody_foresaw_is_told_by_a_number_that_the_log_has(
    client: RawClient, topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(catalog: Catalog, name: str) -> None:
        raise RuntimeError("a secret of the server")

    monkeypatch.setattr(Catalog, "find_future_topic", broken)
    with caplog.at_level(logging.ERROR):
        answer = await client.call("QueryRoute", topic={"name": topic})
    assert code(answer) == "INTERNAL_SERVER_ERROR"
    assert "secret" not in answer.status.message
    assert f"QueryRoute failed unexpectedly, error {answer.status.message.split()[-1]}" in caplog.text


async def test_any_authority_is_served(server: Embedded, topic: str) -> None:
    async with grpc.aio.insecure_channel(server.grpc, options=[("grpc.default_authority", "placeholder")]) as channel:
        answer = await channel.unary_unary("/apache.rocketmq.v2.MessagingService/QueryRoute")(
            rpc.QueryRouteRequest(topic={"name": topic}).SerializeToString(), metadata=(("x-mq-client-id", "c"),)
        )
    assert code(rpc.QueryRouteResponse.FromString(answer)) == "OK"
