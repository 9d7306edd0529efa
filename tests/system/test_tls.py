"""The embedded stack with a certificate: gRPC, HTTP, both at one port or not, and new files while it runs."""

import asyncio
import json
import ssl
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from grpc import aio

from ternmq_common.resources.setting import InvalidSetting
from ternmq_common.server_settings import ClientAuth, ServerSettings, TlsMode
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_rpc.tls.reloading import poll_files
from ternmq_runtime import process_tls
from tests.support.certificates import Certificates
from tests.support.embedded import Embedded
from tests.support.ports import ANY_PORT
from tests.support.until import until_answered

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

QUERY = "/apache.rocketmq.v2.MessagingService/QueryRoute"


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "certificates")


@asynccontextmanager
async def serving(certificates: Certificates, **settings: object) -> "AsyncIterator[Embedded]":
    cert, key = certificates.issue("server")
    given = {"data_dir": certificates.folder / "data", "grpc": ANY_PORT, "http": ANY_PORT, **settings}
    async with asyncio.timeout(60), Embedded(ServerSettings(tls_cert=cert, tls_key=key, **given)) as server:  # type: ignore[arg-type]
        yield server


async def route(channel: aio.Channel) -> int:
    """The status of a call; the topic is not there."""
    query = channel.unary_unary(QUERY, rpc.QueryRouteRequest.SerializeToString, rpc.QueryRouteResponse.FromString)
    answer = await query(
        rpc.QueryRouteRequest(topic=pb.Resource(name="nobody")), metadata=(("x-mq-client-id", "a"),), timeout=10
    )
    return int(answer.status.code)


def secure(server: Embedded, certificates: Certificates, *shown: Path) -> aio.Channel:
    cert, key = (path.read_bytes() for path in shown) if shown else (None, None)
    return aio.secure_channel(server.grpc, grpc.ssl_channel_credentials(certificates.ca.read_bytes(), key, cert))


async def get(address: str, path: str, tls: ssl.SSLContext | None = None) -> tuple[int, bytes]:
    """Status and body."""
    host, port = address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port), ssl=tls)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        return int(head.split()[1]), body
    finally:
        writer.close()


async def test_with_a_certificate_grpc_takes_tls_only_and_http_both(certificates: Certificates) -> None:
    async with serving(certificates) as server:
        async with secure(server, certificates) as channel:
            assert await route(channel) in (pb.OK, pb.TOPIC_NOT_FOUND)
        async with aio.insecure_channel(server.grpc) as channel:
            with pytest.raises(aio.AioRpcError, match="this port takes TLS only"):
                await route(channel)
        for tls in (None, certificates.client(alpn="http/1.1"), certificates.client(alpn=None)):
            code, body = await get(server.http, "/health/ready", tls)
            assert (code, json.loads(body)) == (200, {"status": "ready"})


async def test_grpc_may_take_both_and_http_tls_only(certificates: Certificates) -> None:
    async with serving(certificates, grpc_tls=TlsMode.OPTIONAL, http_tls=TlsMode.REQUIRED) as server:
        async with secure(server, certificates) as safe, aio.insecure_channel(server.grpc) as plain:
            assert await route(safe) == await route(plain)
        assert (await get(server.http, "/health/ready", certificates.client(alpn="http/1.1")))[0] == 200
        code, body = await get(server.http, "/health/ready")
        assert code == 400
        assert b"this port takes TLS only; use https://" in body


async def test_metrics_tell_when_the_certificate_ends(certificates: Certificates) -> None:
    async with serving(certificates) as server:
        _, body = await get(server.http, "/metrics", certificates.client(alpn="http/1.1"))
        (line,) = [line for line in body.decode().splitlines() if line.startswith("ternmq_tls_certificate_expiry_sec")]
        name, value = line.split(" ")
        assert name == 'ternmq_tls_certificate_expiry_seconds{ternmq_tls_certificate="server"}'
        assert 364 * 86400 < float(value) < 365 * 86400


async def test_a_client_has_to_show_a_certificate_of_the_ca(certificates: Certificates) -> None:
    async with serving(certificates, tls_client_ca=certificates.ca) as server:
        async with secure(server, certificates, *certificates.issue("client")) as channel:
            await route(channel)
        async with secure(server, certificates) as channel:
            with pytest.raises(aio.AioRpcError) as refused:
                await route(channel)
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert (await get(server.http, "/health/ready", certificates.client(alpn="http/1.1")))[0] == 200


async def test_a_new_certificate_is_shown_without_a_restart(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_tls, "poll_files", partial(poll_files, every_s=0.01))
    async with serving(certificates) as server:

        async def shown() -> list[int]:
            serials = []
            for address, alpn in ((server.grpc, "h2"), (server.http, "http/1.1")):
                host, port = address.rsplit(":", 1)
                _, writer = await asyncio.open_connection(host, int(port), ssl=certificates.client(alpn=alpn))
                serials.append(int(writer.get_extra_info("peercert")["serialNumber"], 16))
                writer.close()
            return serials

        async with secure(server, certificates) as channel:
            before = await route(channel)
            first = (await shown())[0]
            certificates.issue("server")

            async def is_new() -> bool:
                return first not in await shown()

            await until_answered(is_new, answer=True)
            assert await route(channel) == before


async def test_http_refuses_tls_that_is_none_and_goes_on(certificates: Certificates) -> None:
    async with serving(certificates, header_timeout_ms=100) as server:
        host, port = server.http.rsplit(":", 1)
        for data in (b"\x16" + b"\xff" * 300, b"\x16\x03\x01"):  # garbage, and half a record
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(data)
            assert (await reader.read())[:1] in (b"", b"\x15")
            writer.close()
        assert (await get(server.http, "/health/live"))[0] == 200


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"tls_cert": Path("a")}, "tls_cert: tls_key goes with it"),
        ({"tls_key": Path("a")}, "tls_key: tls_cert goes with it"),
        ({"grpc_tls": TlsMode.REQUIRED}, "grpc_tls: TLS needs a certificate"),
        ({"http_tls": TlsMode.OPTIONAL}, "http_tls: TLS needs a certificate"),
        ({"tls_client_ca": Path("a")}, "tls_client_ca: TLS needs a certificate"),
        ({"tls_client_auth": ClientAuth.REQUIRED}, "tls_client_auth: certificates of clients need a CA"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidSetting, match=problem):
        ServerSettings(**settings)  # type: ignore[arg-type]
