"""Proxies and brokers over mutual TLS, by the broker's own server and the proxy's own link."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from ternmq_broker.server.storage_front import METHOD
from ternmq_proxy.message_service.cluster.broker_links.link import BrokerLink
from ternmq_rpc.grpc_stream.call_server import CallServer
from ternmq_rpc.grpc_stream.served_call import ServedCall, ServedMethod
from ternmq_rpc.tls.contexts import member_client_context, member_server_context
from ternmq_rpc.tls.opening import PortTls
from tests.support.certificates import Certificates
from tests.support.until import until
from tests.unit.cluster.linked import Told
from tests.unit.rpc.grpc_stream.echo import served

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from ternmq_proxy.message_service.cluster.broker_links.link import LinkEvents


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


@asynccontextmanager
async def broker(certificates: Certificates) -> AsyncIterator[tuple[CallServer, list[bytes], str]]:
    """A broker that hears what proxies say first, and its address."""
    heard: list[bytes] = []

    async def hear(call: ServedCall) -> None:
        heard.append(await call.read_message() or b"")

    context = member_server_context(certificates.files("broker", verifies=True, prefix="cluster_tls"))
    tls = PortTls(lambda: context, allow_plain=False)
    server = CallServer({METHOD: ServedMethod(hear, is_conversation=True)}.get, tls=tls)
    async with served(server) as address, asyncio.timeout(20):
        yield server, heard, address


@asynccontextmanager
async def link(address: str, tls: "Callable[[], ssl.SSLContext] | None") -> AsyncIterator[None]:
    made = BrokerLink("broker-0", address, cast("LinkEvents", Told()), proxy="proxy", known=lambda: 7, tls=tls)
    made.start()
    try:
        yield
    finally:
        await made.close()


async def test_a_proxy_with_a_certificate_of_the_ca_is_heard(certificates: Certificates) -> None:
    context = member_client_context(certificates.files("proxy", verifies=True, prefix="cluster_tls"))
    async with broker(certificates) as (_, heard, address), link(address, lambda: context):
        await until(lambda: bool(heard))
        assert b"proxy" in heard[0]


async def test_a_proxy_of_another_ca_or_without_tls_is_not_heard(certificates: Certificates, tmp_path: Path) -> None:
    others = Certificates(tmp_path / "others")
    stranger = member_client_context(others.files("proxy", verifies=True, prefix="cluster_tls"))
    stranger.load_verify_locations(certificates.ca)  # it believes the broker, which does not believe it
    async with broker(certificates) as (server, heard, address):
        async with link(address, lambda: stranger):
            await until(lambda: server.limit_counts.get("tls", 0) >= 1)
        async with link(address, None):
            await until(lambda: server.limit_counts.get("plain", 0) >= 1)
        assert not heard
