"""Calls over TLS, by gRPC's own client, as loops carry them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from grpc import aio

from ternmq_rpc.grpc_http2.messages import StreamBroken
from ternmq_rpc.grpc_stream.call_server import CallServer
from ternmq_rpc.grpc_stream.client import open_stream
from ternmq_rpc.serving.budgets import ConnectionBudgets
from ternmq_rpc.tls.contexts import create_server_context, member_client_context, member_server_context
from ternmq_rpc.tls.opening import PortTls
from tests.support.certificates import Certificates
from tests.unit.rpc.grpc_stream.calls import MESSAGE_MAX, Service
from tests.unit.rpc.grpc_stream.echo import METHOD, UNLIMITED, served, until


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


@asynccontextmanager
async def serving(
    certificates: Certificates, *, plain_too: bool = False, budgets: ConnectionBudgets | None = None
) -> AsyncIterator[tuple[CallServer, str]]:
    service = Service()
    context = create_server_context(certificates.files())
    server = CallServer(
        service.methods.get,
        budgets=budgets or ConnectionBudgets(message_bytes_max=MESSAGE_MAX),
        tls=PortTls(lambda: context, allow_plain=plain_too),
    )
    async with served(server) as address:
        try:
            yield server, address
        finally:
            service.let_go.set()


def secure(address: str, certificates: Certificates) -> aio.Channel:
    credentials = grpc.ssl_channel_credentials(certificates.ca.read_bytes())
    return aio.secure_channel(address, credentials, options=UNLIMITED)


@pytest.mark.parametrize("size", [0, 1, 16_383, 16_384, 70_000, MESSAGE_MAX])
async def test_a_request_of_any_size_is_answered(size: int, certificates: Certificates) -> None:
    async with serving(certificates) as (_, address), secure(address, certificates) as channel:
        assert await channel.unary_unary("/test/Echo")(b"x" * size) == b"x" * size


async def test_calls_by_the_thousand_get_each_its_own_answer(certificates: Certificates) -> None:
    async with serving(certificates) as (_, address), secure(address, certificates) as channel:
        echo = channel.unary_unary("/test/Echo")
        texts = [b"%d" % number for number in range(2000)]
        assert await asyncio.gather(*map(echo, texts)) == texts


async def test_a_stream_of_answers_beyond_every_window_comes_whole(certificates: Certificates) -> None:
    async with serving(certificates) as (_, address), secure(address, certificates) as channel:
        answers = [answer async for answer in channel.unary_stream("/test/Many")(b"x" * 200)]
        assert [len(answer) for answer in answers] == [100_000] * 200 + [0]


async def test_a_port_may_take_both(certificates: Certificates) -> None:
    async with (
        serving(certificates, plain_too=True) as (server, address),
        secure(address, certificates) as safe,
        aio.insecure_channel(address) as plain,
    ):
        assert await safe.unary_unary("/test/Echo")(b"safe") == b"safe"
        assert await plain.unary_unary("/test/Echo")(b"plain") == b"plain"
        assert len(server.connections) == 2
        assert not server.openings


async def test_who_speaks_plain_text_to_a_tls_port_is_told(certificates: Certificates) -> None:
    async with serving(certificates) as (server, address), aio.insecure_channel(address) as channel:
        with pytest.raises(aio.AioRpcError) as refused:
            await channel.unary_unary("/test/Echo")(b"x", timeout=5)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "this port takes TLS only" in str(refused.value.details())
        for _ in range(20):  # and comes by the same connection, so that nobody is kept busy by coming again
            with pytest.raises(aio.AioRpcError, match="this port takes TLS only"):
                await channel.unary_unary("/test/Echo")(b"x", timeout=5)
        assert server.limit_counts["plain"] == 1


async def test_who_speaks_tls_to_a_plain_port_is_logged(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    server = CallServer(Service().methods.get)
    async with served(server) as address, secure(address, certificates) as channel:
        with pytest.raises(aio.AioRpcError):
            await channel.unary_unary("/test/Echo")(b"x", timeout=5)
        await until(lambda: server.limit_counts.get("protocol", 0) >= 1)
    assert "this is TLS, and the port takes plain text only" in caplog.text


async def test_a_certificate_that_changes_is_shown_to_the_next(certificates: Certificates) -> None:
    files = certificates.files()
    contexts = [create_server_context(files)]
    server = CallServer(Service().methods.get, tls=PortTls(lambda: contexts[-1], allow_plain=False))
    async with served(server) as address, secure(address, certificates) as channel:
        assert await channel.unary_unary("/test/Echo")(b"x") == b"x"
        host, port = address.split(":")
        serials = []
        for _ in range(2):
            _, writer = await asyncio.open_connection(host, int(port), ssl=certificates.client())
            serials.append(writer.get_extra_info("peercert")["serialNumber"])
            writer.close()
            contexts.append(create_server_context(certificates.files()))
        assert serials[0] != serials[1]
        assert await channel.unary_unary("/test/Echo")(b"x") == b"x"


# --- our own client


async def test_members_of_a_cluster_verify_each_other(certificates: Certificates) -> None:
    files = certificates.files("member", verifies=True, prefix="cluster_tls")
    context = member_server_context(files)
    methods = Service().methods
    server = CallServer({METHOD: methods["/test/Talk"]}.get, tls=PortTls(lambda: context, allow_plain=False))
    async with served(server) as address:
        stream = await open_stream(address, METHOD, timeout_s=5, tls=member_client_context(files))
        for data in (b"a", b"b" * 500_000):
            stream.write_messages(data)
            assert await stream.read_message() == data
        await stream.end_stream()
        assert await stream.read_message() is None


async def test_a_member_of_another_ca_is_refused_by_both(certificates: Certificates, tmp_path: Path) -> None:
    ours = certificates.files("member", verifies=True, prefix="cluster_tls")
    others = Certificates(tmp_path / "others")
    theirs = others.files("member", verifies=True, prefix="cluster_tls")
    context = member_server_context(ours)
    server = CallServer(Service().methods.get, tls=PortTls(lambda: context, allow_plain=False))
    async with served(server) as address:
        with pytest.raises(StreamBroken, match="certificate is refused"):
            await open_stream(address, METHOD, timeout_s=5, tls=member_client_context(theirs))
        believing = member_client_context(theirs)
        believing.load_verify_locations(certificates.ca)
        with pytest.raises(StreamBroken):
            await open_stream(address, METHOD, timeout_s=5, tls=believing)
        await until(lambda: server.limit_counts.get("tls", 0) >= 1)
        assert not server.connections


async def test_a_member_with_the_name_of_another_machine_is_refused(certificates: Certificates) -> None:
    cert, key = certificates.issue("elsewhere", "elsewhere.example")
    files = certificates.files("member", verifies=True, prefix="cluster_tls")
    wrong = type(files)(prefix="cluster_tls", cert=cert, key=key, ca=certificates.ca)
    context = member_server_context(wrong)
    server = CallServer(Service().methods.get, tls=PortTls(lambda: context, allow_plain=False))
    async with served(server) as address:
        with pytest.raises(StreamBroken, match=r"no TLS with .*certificate is refused: IP address mismatch"):
            await open_stream(address, METHOD, timeout_s=5, tls=member_client_context(files))


async def test_a_silent_server_is_given_up_during_the_handshake(certificates: Certificates) -> None:
    came: list[asyncio.StreamWriter] = []
    gone = asyncio.Event()

    async def stay_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(writer)
        while await reader.read(1000):
            pass
        writer.close()
        gone.set()

    async with await asyncio.start_server(stay_silent, "127.0.0.1", 0) as silent:
        port = silent.sockets[0].getsockname()[1]
        files = certificates.files("member", verifies=True, prefix="cluster_tls")
        with pytest.raises(StreamBroken, match="does not answer"):
            await open_stream(f"127.0.0.1:{port}", METHOD, timeout_s=0.05, tls=member_client_context(files))
        async with asyncio.timeout(5):
            await gone.wait()
    assert came
