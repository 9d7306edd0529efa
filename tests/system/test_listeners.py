"""Several listeners, and the ways by which clients are told to come: through port mappings and load balancers."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path

import grpc
import pytest

import ternmq
from ternmq_common.errors import StartupError
from ternmq_common.server_settings import ClientListener, ServerSettings
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_proxy.call import Call
from ternmq_proxy.fronts.grpc.activities.endpoints import endpoints_for
from ternmq_runtime.process import ready_line
from tests.support.embedded import Embedded, RawClient, code
from tests.support.ports import ANY_PORT, free_address

EXAMPLE = Path(__file__).parents[2] / "clients" / "examples" / "python" / "example.py"
EXAMPLE_TIMEOUT_S = 90
COUNT = 5
CHUNK_BYTES = 65_536
ALL_IPV4 = "0.0.0.0"
ADVERTISED = "mq.example.com:443"
NAMED = pb.Endpoints(scheme=pb.IPv4, addresses=[{"host": "10.1.2.3", "port": 18081}])


class Mapping:
    """A port that leads to another one, as a NodePort or `docker run -p` does. `passed` is what came in by it."""

    def __init__(self) -> None:
        self.target = ""
        self.address = ""
        self.passed = bytearray()
        self._tasks = set[asyncio.Task[None]]()

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Mapping"]:
        server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        try:
            yield self
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.create_task(self._join(reader, writer)))

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self.target.rsplit(":", 1)
        there_reader, there_writer = await asyncio.open_connection(host, int(port))
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass_on(reader, there_writer, self.passed))
                both.create_task(self._pass_on(there_reader, writer, bytearray()))
        finally:
            for end in (writer, there_writer):
                end.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passed: bytearray) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(CHUNK_BYTES):
                passed += data
                writer.write(data)
                await writer.drain()
        writer.close()


@pytest.fixture
async def mapping() -> AsyncIterator[Mapping]:
    async with Mapping().open() as opened:
        yield opened


@pytest.fixture
async def other_mapping() -> AsyncIterator[Mapping]:
    async with Mapping().open() as opened:
        yield opened


def embedded(folder: Path, listeners: str) -> Embedded:
    return Embedded(ServerSettings(data_dir=folder / "data", grpc=listeners, http=ANY_PORT, insecure=True))


async def told(client: RawClient, call: str, endpoints: pb.Endpoints | None = None) -> pb.Endpoints:
    """The endpoints in an answer to QueryRoute or QueryAssignment, which are the same for all queues."""
    if call == "QueryRoute":
        route = await client.call(call, rpc.QueryRouteRequest(topic={"name": "hats"}, endpoints=endpoints))
        queues = list(route.message_queues)
    else:
        request = rpc.QueryAssignmentRequest(topic={"name": "hats"}, group={"name": "readers"}, endpoints=endpoints)
        queues = [entry.message_queue for entry in (await client.call(call, request)).assignments]
    [one] = {queue.broker.endpoints.SerializeToString() for queue in queues}
    return pb.Endpoints.FromString(one)


def addresses(endpoints: pb.Endpoints) -> list[str]:
    return [f"{address.host}:{address.port}" for address in endpoints.addresses]


@pytest.mark.parametrize("call", ["QueryRoute", "QueryAssignment"])
async def test_an_advertised_address_goes_before_what_the_client_named_at_its_own_listener_only(
    tmp_path: Path, call: str
) -> None:
    async with embedded(tmp_path, f"{ANY_PORT},{ANY_PORT}={ADVERTISED}") as server:
        [outside] = server.more_grpc
        async with RawClient(server.grpc) as inner, RawClient(outside) as outer:
            await inner.create_topic("hats")
            assert await told(inner, call, NAMED) == NAMED
            assert addresses(await told(inner, call)) == [server.grpc]
            for named in (NAMED, None):
                advertised = await told(outer, call, named)
                assert addresses(advertised) == [ADVERTISED]
                assert advertised.scheme == pb.DOMAIN_NAME


async def test_all_listeners_serve_the_same_clients_and_messages(tmp_path: Path) -> None:
    async with embedded(tmp_path, f"{ANY_PORT},{ANY_PORT},{ANY_PORT}={ADVERTISED}") as server:
        for address in (server.grpc, *server.more_grpc):
            async with RawClient(address) as sender, RawClient(server.grpc, metadata=sender.metadata) as other_way:
                settings = pb.Settings(client_type=pb.SIMPLE_CONSUMER, subscription={"group": {"name": "readers"}})
                assert code(await sender.configure(settings)) == "OK"
                # A heartbeat that names no type is good only for a client that is known.
                assert code(await other_way.call("Heartbeat", group={"name": "readers"})) == "OK"
                await sender.send("hats", b"bowler")
                [message] = (await other_way.receive("hats", "readers", poll_s=5)).messages
                assert message.body == b"bowler"
                assert message.system_properties.store_host == server.grpc
                assert code(await sender.ack("hats", "readers", message.system_properties.receipt_handle)) == "OK"


async def test_a_stop_ends_the_conversations_at_every_listener(tmp_path: Path) -> None:
    async with embedded(tmp_path, f"{ANY_PORT},{ANY_PORT}") as server:
        [second] = server.more_grpc
        first_client, second_client = RawClient(server.grpc), RawClient(second)
        streams = [await client.publish_to(pb.Resource(name="hats")) for client in (first_client, second_client)]
    for stream in streams:
        with suppress(grpc.aio.AioRpcError):  # how it ends is gRPC's choice
            assert await stream.read() is grpc.aio.EOF
    for client in (first_client, second_client):
        await client.channel.close()
    for address in (server.grpc, second):
        assert_free(address)


def assert_free(address: str) -> None:
    host, port = address.rsplit(":", 1)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, int(port)))


async def test_a_listener_whose_port_is_taken_is_named_and_nothing_is_left_of_the_others(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        busy, first = f"127.0.0.1:{taken.getsockname()[1]}", free_address()
        with pytest.raises(StartupError, match=f"can't listen on {busy}"):
            await embedded(tmp_path, f"{first},{busy}").__aenter__()
        assert_free(first)


async def test_a_client_that_names_nothing_at_a_wildcard_listener_is_told_a_way_that_works(tmp_path: Path) -> None:
    async with embedded(tmp_path, f"{ALL_IPV4}:0") as server:
        port = server.grpc.rsplit(":", 1)[1]
        async with RawClient(f"127.0.0.1:{port}") as client:
            assert addresses(await told(client, "QueryRoute")) == [f"127.0.0.1:{port}"]


def test_a_client_whose_own_address_is_unknown_is_told_the_machines_name() -> None:
    for peer in ("", "unix:/run/socket"):
        own = endpoints_for(pb.Endpoints(), Call(peer=peer, listener=ClientListener("[::]:8081")))
        assert addresses(own) == [f"{socket.gethostname()}:8081"]


@pytest.mark.parametrize(
    ("advertised", "host", "scheme"),
    [
        ("203.0.113.7:30081", "203.0.113.7", pb.IPv4),
        ("[2001:db8::7]:30081", "2001:db8::7", pb.IPv6),
        ("mq.example.com:30081", "mq.example.com", pb.DOMAIN_NAME),
    ],
)
def test_an_advertised_address_is_told_with_its_kind(advertised: str, host: str, scheme: "pb.AddressScheme") -> None:
    told_endpoints = endpoints_for(NAMED, Call(listener=ClientListener(ANY_PORT, advertised)))
    assert told_endpoints == pb.Endpoints(scheme=scheme, addresses=[{"host": host, "port": 30081}])


def test_the_ready_line_names_the_first_listener_where_it_always_was() -> None:
    assert ready_line(["a:1"], "h:4") == "ready grpc=a:1 http=h:4"
    assert ready_line(["a:1", "b:2", "c:3"], "h:4") == "ready grpc=a:1 http=h:4 grpc2=b:2 grpc3=c:3"


async def our_round(endpoint: str, topic: str) -> None:
    """Send and receive with our client."""
    bodies = {f"{topic} {number}".encode() for number in range(COUNT)}
    wait = timedelta(seconds=5)
    async with (
        ternmq.Producer(endpoint, topics=[topic]) as producer,
        ternmq.SimpleConsumer(endpoint, "readers", {topic: "*"}, await_duration=wait) as consumer,
    ):
        for body in bodies:
            await producer.send(ternmq.Message(topic, body))
        received = set[bytes]()
        while received != bodies:
            for message in await consumer.receive(COUNT, timedelta(seconds=30)):
                received.add(message.body)
                await consumer.ack(message)


async def official_round(endpoint: str, topic: str, home: Path) -> None:
    """Send, receive and have pushed with the official Python client, in a process of its own."""
    line = (str(EXAMPLE), endpoint, topic, "readers", str(COUNT))
    environment = {**os.environ, "HOME": str(home)}  # it writes its logs there
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, *line, env=environment, cwd=home, stdout=pipe, stderr=pipe
    )
    try:
        async with asyncio.timeout(EXAMPLE_TIMEOUT_S):
            output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    expected = f"sent {COUNT}\nreceived {COUNT}\nacked {COUNT}\npushed {COUNT}\n"
    assert output.decode() == expected, errors.decode()


async def test_our_client_comes_back_through_the_port_mapping_by_which_it_came(
    tmp_path: Path, mapping: Mapping
) -> None:
    async with embedded(tmp_path, ANY_PORT) as server:
        mapping.target = server.grpc
        await our_round(mapping.address, "hats")
        assert mapping.passed.count(b"hats 4") == 1


async def test_our_client_goes_where_the_advertised_address_leads(
    tmp_path: Path, mapping: Mapping, other_mapping: Mapping
) -> None:
    async with embedded(tmp_path, f"{ANY_PORT}={other_mapping.address}") as server:
        mapping.target = other_mapping.target = server.grpc
        await our_round(mapping.address, "hats")
        assert other_mapping.passed.count(b"hats 4") == 1
        assert mapping.passed.count(b"hats 4") == 0


@pytest.mark.slow
async def test_the_official_client_comes_back_through_the_port_mapping_by_which_it_came(
    tmp_path: Path, mapping: Mapping
) -> None:
    async with embedded(tmp_path, ANY_PORT) as server:
        mapping.target = server.grpc
        await official_round(mapping.address, "hats", tmp_path)
        assert mapping.passed.count(b"hello 5 from python") > 0


@pytest.mark.slow
async def test_the_official_client_goes_where_the_advertised_address_leads(
    tmp_path: Path, mapping: Mapping, other_mapping: Mapping
) -> None:
    async with embedded(tmp_path, f"{ANY_PORT}={other_mapping.address}") as server:
        mapping.target = other_mapping.target = server.grpc
        await official_round(mapping.address, "hats", tmp_path)
        assert other_mapping.passed.count(b"hello 5 from python") > 0
        assert mapping.passed.count(b"hello 5 from python") == 0
