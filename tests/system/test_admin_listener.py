"""A listener for operators, which alone serves administration and reflection (`docs/security.md`)."""

import socket
from contextlib import AsyncExitStack
from pathlib import Path

import grpc
import pytest
from grpc import aio
from grpc_reflection.v1alpha import reflection_pb2

from ternmq_common.errors import StartupError
from ternmq_common.server_settings import ServerSettings
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_runtime.process import ready_line
from tests.support.certificates import Certificates
from tests.support.embedded import Embedded, RawClient, code, message
from tests.support.ports import ANY_PORT

LIST = "/ternmq.admin.v1.Admin/ListTopics"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"


def embedded(folder: Path, **settings: object) -> Embedded:
    given = {"data_dir": folder / "data", "grpc": ANY_PORT, "http": ANY_PORT, "admin": ANY_PORT, **settings}
    return Embedded(ServerSettings(**given))  # type: ignore[arg-type]


async def reflected(client: RawClient) -> bytes:
    stream = client.channel.stream_stream(REFLECTION)(metadata=client.metadata)
    await stream.write(reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString())
    answer: bytes = await stream.read()
    await stream.done_writing()
    return answer


async def test_administration_and_reflection_are_served_there_alone(tmp_path: Path) -> None:
    async with (
        embedded(tmp_path) as server,
        RawClient(server.grpc) as client,
        RawClient(server.admin) as operator,
    ):
        with pytest.raises(aio.AioRpcError) as refused:
            await client.admin("ListTopics")
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
        reflection = client.channel.stream_stream(REFLECTION)(metadata=client.metadata)
        assert await reflection.code() is grpc.StatusCode.UNIMPLEMENTED
        await operator.create_topic("orders")
        assert b"ternmq.admin.v1.Admin" in await reflected(operator)
        assert code(await client.call("SendMessage", messages=[message("orders")])) == "OK"


async def test_operators_can_send_and_receive_there_and_are_told_its_address(tmp_path: Path) -> None:
    async with embedded(tmp_path) as server, RawClient(server.admin) as operator:
        await operator.create_topic("orders")
        await operator.send("orders", b"hats")
        assert (await operator.receive("orders", "readers")).bodies == [b"hats"]
        route = await operator.call("QueryRoute", topic={"name": "orders"})
        [address] = route.message_queues[0].broker.endpoints.addresses
        assert f"{address.host}:{address.port}" == server.admin
        stream = await operator.publish_to(pb.Resource(name="orders"))
        stream.cancel()


async def test_clients_who_take_all_connections_leave_operators_a_way_in(tmp_path: Path) -> None:
    async with embedded(tmp_path, connections_max=1) as server, AsyncExitStack() as stack:
        greedy = await stack.enter_async_context(RawClient(server.grpc))
        open_stream = await greedy.publish_to()
        other = await stack.enter_async_context(RawClient(server.grpc))
        with pytest.raises(aio.AioRpcError) as refused:
            await other.call("QueryRoute", rpc.QueryRouteRequest(topic={"name": "orders"}), timeout_s=1)
        assert refused.value.code() in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE)
        operator = await stack.enter_async_context(RawClient(server.admin))
        assert code(await operator.admin("ListTopics")) == "OK"
        open_stream.cancel()


async def test_it_takes_tls_as_the_front_does(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "certificates")
    cert, key = certificates.issue("server")
    async with embedded(tmp_path, tls_cert=cert, tls_key=key) as server:
        trusted = grpc.ssl_channel_credentials(certificates.ca.read_bytes())
        async with aio.secure_channel(server.admin, trusted) as safe:
            answer = await safe.unary_unary(LIST)(b"", metadata=(("x-mq-client-id", "a"),))
            assert code(admin_pb2.ListTopicsResponse.FromString(answer)) == "OK"
        async with aio.insecure_channel(server.admin) as plain:
            with pytest.raises(aio.AioRpcError, match="this port takes TLS only"):
                await plain.unary_unary(LIST)(b"")


async def test_an_address_that_is_taken_is_said_with_its_option(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(StartupError, match="choose another --admin"):
        async with embedded(tmp_path, admin=f"127.0.0.1:{taken.getsockname()[1]}"):
            pass


def test_the_ready_line_names_it() -> None:
    assert ready_line(["a:1", "b:2"], "h:4", "o:5") == "ready grpc=a:1 http=h:4 admin=o:5 grpc2=b:2"
