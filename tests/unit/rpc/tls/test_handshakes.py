"""What a server of TLS refuses, as a scanner would ask, and what a handshake that is none may cost it."""

import asyncio
import gc
import socket
import ssl
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from ternmq_common.server_settings import ClientAuth, TlsVersion
from ternmq_rpc.grpc_http2 import frames as h2
from ternmq_rpc.grpc_http2.frames import PREFACE
from ternmq_rpc.grpc_stream.call_connection import CallConnection
from ternmq_rpc.grpc_stream.call_server import CallServer
from ternmq_rpc.serving.budgets import ConnectionBudgets
from ternmq_rpc.tls.contexts import create_server_context
from ternmq_rpc.tls.opening import OpeningConnection, PortTls
from ternmq_rpc.tls.session import HANDSHAKE_BYTES_MAX, TlsSession
from ternmq_rpc.tls.transport import TlsTransport
from tests.support.certificates import HOST, Certificates
from tests.unit.rpc.grpc_stream.calls import Service
from tests.unit.rpc.grpc_stream.echo import served, until

GREETING = PREFACE + h2.settings_frame({})


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


@asynccontextmanager
async def serving(
    certificates: Certificates,
    *,
    auth: ClientAuth = ClientAuth.NONE,
    least: TlsVersion = TlsVersion.TLS_1_2,
    header_timeout_s: float = 30,
    connections_max: int = 100,
    handshakes_per_second: float = 1000,
) -> AsyncIterator[tuple[CallServer, int]]:
    context = create_server_context(certificates.files(verifies=True), auth=auth, least=least)
    server = CallServer(
        Service().methods.get,
        budgets=ConnectionBudgets(header_timeout_s=header_timeout_s),
        connections_max=connections_max,
        tls=PortTls(lambda: context, allow_plain=False, handshakes_per_second=handshakes_per_second),
    )
    async with served(server) as address, asyncio.timeout(30):
        yield server, int(address.rpartition(":")[2])


async def greeted(port: int, context: ssl.SSLContext) -> tuple[bytes, ssl.SSLObject]:
    """The first bytes of the server's answer to HTTP/2's greeting, and the TLS in which they came."""
    reader, writer = await asyncio.open_connection(HOST, port, ssl=context)
    try:
        writer.write(GREETING)
        data = await reader.read(100)
        return data, writer.get_extra_info("ssl_object")
    finally:
        writer.close()


async def is_refused(port: int, context: ssl.SSLContext) -> bool:
    """Whether it comes to nothing. With TLS 1.3 a client learns of its certificate's refusal after the handshake."""
    try:
        data, _ = await greeted(port, context)
    except (ssl.SSLError, ConnectionError):
        return True
    return not data


# --- protocols and ciphers


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_current_protocols_are_spoken_with_h2(version: ssl.TLSVersion, certificates: Certificates) -> None:
    async with serving(certificates) as (_, port):
        context = certificates.client()
        context.minimum_version = context.maximum_version = version
        data, tls = await greeted(port, context)
        assert data[3] == 4  # SETTINGS
        assert tls.selected_alpn_protocol() == "h2"
        assert tls.version() == {"TLSv1_2": "TLSv1.2", "TLSv1_3": "TLSv1.3"}[version.name]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
async def test_old_protocols_are_refused(version: ssl.TLSVersion, certificates: Certificates) -> None:
    async with serving(certificates) as (server, port):
        context = certificates.client()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = context.maximum_version = version
        context.set_ciphers("ALL:@SECLEVEL=0")  # else the client itself would refuse them
        assert await is_refused(port, context)
        await until(lambda: server.limit_counts.get("tls", 0) >= 1)


async def test_tls_1_2_is_refused_where_1_3_is_the_least(certificates: Certificates) -> None:
    async with serving(certificates, least=TlsVersion.TLS_1_3) as (_, port):
        context = certificates.client()
        assert not await is_refused(port, context)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        assert await is_refused(port, context)


@pytest.mark.parametrize(
    "ciphers", ["AES128-SHA", "AES256-GCM-SHA384", "ECDHE-RSA-AES256-SHA384", "ECDHE-ECDSA-AES128-SHA", "aNULL", "kRSA"]
)
async def test_ciphers_without_forward_secrecy_or_authentication_are_refused(
    ciphers: str, certificates: Certificates
) -> None:
    async with serving(certificates) as (server, port):
        context = certificates.client()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(f"{ciphers}:@SECLEVEL=0")
        assert await is_refused(port, context)
        await until(lambda: server.limit_counts.get("tls", 0) >= 1)


def test_only_authenticated_ciphers_with_forward_secrecy_are_offered(certificates: Certificates) -> None:
    context = create_server_context(certificates.files())
    old = [cipher for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"]
    assert old
    assert all(cipher["aead"] and cipher["kea"] == "kx-ecdhe" for cipher in old)
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert context.options & ssl.OP_NO_COMPRESSION
    assert context.options & ssl.OP_NO_TICKET


async def test_no_session_is_taken_up_again(certificates: Certificates) -> None:
    async with serving(certificates) as (_, port):
        context = certificates.client()
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context.maximum_version = version
            _, tls = await greeted(port, context)
            assert tls.session is None or not tls.session.has_ticket


async def test_who_names_no_protocol_or_another_is_served_if_it_speaks_http_2(certificates: Certificates) -> None:
    async with serving(certificates) as (_, port):
        for alpn in (None, "http/1.1"):
            data, tls = await greeted(port, certificates.client(alpn=alpn))
            assert data[3] == 4
            assert tls.selected_alpn_protocol() is None


async def test_http_1_within_tls_is_refused(certificates: Certificates) -> None:
    async with serving(certificates) as (server, port):
        reader, writer = await asyncio.open_connection(HOST, port, ssl=certificates.client(alpn="http/1.1"))
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert b"this is not HTTP/2" in await reader.read()
        writer.close()
        await until(lambda: not server.connections)


# --- certificates of clients


async def test_a_client_without_a_certificate_is_served_where_it_may_be(certificates: Certificates) -> None:
    async with serving(certificates, auth=ClientAuth.OPTIONAL) as (_, port):
        assert not await is_refused(port, certificates.client())
        assert not await is_refused(port, certificates.client(certificates.issue("client")))


@pytest.mark.parametrize("auth", [ClientAuth.OPTIONAL, ClientAuth.REQUIRED])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_wrong_certificates_of_clients_are_refused(
    auth: ClientAuth, version: ssl.TLSVersion, certificates: Certificates, tmp_path: Path
) -> None:
    others = Certificates(tmp_path / "others")
    shown = {
        "right": certificates.issue("right"),
        "expired": certificates.issue("expired", ends_in=timedelta(days=-1)),
        "of another CA": others.issue("client"),
        "missing": None,
    }
    async with serving(certificates, auth=auth) as (server, port):
        served_ = set()
        for name, files in shown.items():
            context = certificates.client(files)
            context.maximum_version = version
            if not await is_refused(port, context):
                served_.add(name)
        assert served_ == ({"right", "missing"} if auth is ClientAuth.OPTIONAL else {"right"})
        await until(lambda: not server.connections and not server.openings)


# --- handshakes that are none


async def test_garbage_after_the_first_byte_ends_with_an_alert(certificates: Certificates) -> None:
    async with serving(certificates) as (server, port):
        for garbage in (b"\x16" + b"\xff" * 500, b"\x16\x03\x01\x00\x05hello", b"\x16\x03\x03\x40\x01" + bytes(20_000)):
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(garbage)
            assert (await reader.read())[:1] in (b"\x15", b"")  # an alert
            writer.close()
        await until(lambda: server.limit_counts.get("tls", 0) >= 3 and not server.openings)


async def test_http_1_in_plain_text_is_refused(certificates: Certificates) -> None:
    async with serving(certificates) as (server, port):
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert b"this port takes TLS only" in await reader.read()
        writer.close()
        await until(lambda: not server.connections)


@pytest.mark.parametrize("begun", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01"])
async def test_half_a_handshake_ends_with_its_time(begun: bytes, certificates: Certificates) -> None:
    async with serving(certificates, header_timeout_s=0.1) as (server, port):
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(begun)
        await until(lambda: len(server.openings) == 1)
        assert await reader.read() == b""
        writer.close()
        assert server.limit_counts["header_timeout"] == 1
        await until(lambda: not server.openings)


async def test_a_handshake_without_end_is_cut_off(certificates: Certificates) -> None:
    """Of alerts and empty records there may be any number, as far as the protocol says."""
    async with serving(certificates) as (server, port):
        reader, writer = await asyncio.open_connection(HOST, port)
        # One message that says that it has 16 MiB, in records.
        record = b"\x16\x03\x01\x40\x00" + b"\x01\xff\xff\xff" + bytes(16_380)
        with suppress(ConnectionError):
            for _ in range(3 * HANDSHAKE_BYTES_MAX // len(record)):
                writer.write(record)
                await writer.drain()
            await reader.read()
        writer.close()
        await until(lambda: server.limit_counts.get("tls", 0) == 1 and not server.openings)


async def test_handshakes_count_as_connections(certificates: Certificates) -> None:
    async with serving(certificates, connections_max=3) as (server, port):
        held = [await asyncio.open_connection(HOST, port) for _ in range(3)]
        await until(lambda: len(server.openings) == 3)
        late = asyncio.create_task(greeted(port, certificates.client()))
        await until(lambda: server.limit_counts["connections"] >= 1)
        assert len(server.openings) == 3
        held[0][1].close()
        data, _ = await late
        assert data[3] == 4
        for _, writer in held:
            writer.close()
        await until(lambda: not server.openings)


async def test_a_server_that_ends_cuts_handshakes_off(certificates: Certificates) -> None:
    async with serving(certificates) as (server, port):
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(b"\x16\x03")
        await until(lambda: len(server.openings) == 1)
        await server.stop_serving(0)
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        assert "tls" not in server.limit_counts


async def test_who_closes_without_a_word_is_no_event(certificates: Certificates) -> None:
    async with serving(certificates) as (server, port):
        with socket.create_connection((HOST, port)):
            await until(lambda: len(server.openings) == 1)
        await until(lambda: not server.openings)
        assert set(server.limit_counts) == {"connections"}


# --- within


async def test_a_client_that_reads_nothing_is_counted_and_waited_for(certificates: Certificates) -> None:
    """What the kernel does not take waits with us, where it is counted."""
    async with serving(certificates) as (server, port):
        context = certificates.client()
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect((HOST, port))
            tls = await asyncio.to_thread(context.wrap_socket, sock, server_hostname=HOST)
            tls.sendall(GREETING)
            await until(lambda: len(server.connections) == 1)
            (connection,) = server.connections
            connection.machine.send_ping()
            for _ in range(400):
                connection._transport.write(bytes(64 << 10))  # type: ignore[union-attr]
                if connection.machine.blocked:
                    break
            assert connection.machine.blocked
            tls.close()
        await until(lambda: not server.connections)


# --- what is left of it


def hello(certificates: Certificates) -> bytes:
    """What a client says first."""
    outgoing = ssl.MemoryBIO()
    client = certificates.client().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=HOST)
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def alive() -> dict[int, object]:
    """What belongs to a connection of TLS in this process, by id."""
    kinds = (OpeningConnection, TlsTransport, TlsSession, CallConnection)
    return {id(each): each for each in gc.get_objects() if isinstance(each, kinds)}


@pytest.mark.parametrize("kind", ["no handshake", "broken off", "whole"])
async def test_no_connection_of_tls_waits_for_the_garbage_collector(certificates: Certificates, kind: str) -> None:
    """Each that waits holds 27 KB, and anybody may open thousands a second."""
    async with serving(certificates) as (server, port):
        await greeted(port, certificates.client())
        await until(lambda: not server.connections)
        gc.collect()
        of_others = alive()
        gc.disable()
        try:
            for _ in range(5):
                if kind == "whole":
                    await greeted(port, certificates.client())
                    continue
                _, writer = await asyncio.open_connection(HOST, port)
                writer.write(b"\x16\x03\x01" + bytes(100) if kind == "no handshake" else hello(certificates))
                await writer.drain()
                writer.close()
                with suppress(ConnectionError):
                    await writer.wait_closed()
            await until(lambda: not server.connections and not server.openings)
            await until(lambda: alive().keys() <= of_others.keys())
        finally:
            gc.enable()


async def test_handshakes_beyond_what_a_second_has_wait_and_are_served(certificates: Certificates) -> None:
    async with serving(certificates, handshakes_per_second=5) as (server, port):
        answers = [asyncio.create_task(greeted(port, certificates.client())) for _ in range(8)]
        await until(lambda: bool(server.handshakes._waiting))
        for answer in answers:
            assert (await answer)[0]
        assert "tls_handshakes" not in server.limit_counts


async def test_a_handshake_that_is_left_while_it_waits_costs_nothing(certificates: Certificates) -> None:
    async with serving(certificates, handshakes_per_second=1) as (server, port):
        await greeted(port, certificates.client())
        writers = []
        for _ in range(3):
            _, writer = await asyncio.open_connection(HOST, port)
            writer.write(hello(certificates))
            writers.append(writer)
        await until(lambda: sum(map(len, server.handshakes._waiting.values())) == 3)
        for writer in writers:
            writer.transport.abort()
        assert (await greeted(port, certificates.client()))[0]
        await until(lambda: not server.openings)


async def test_what_is_no_hello_does_not_wait(certificates: Certificates) -> None:
    async with serving(certificates, handshakes_per_second=1) as (server, port):
        await greeted(port, certificates.client())
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(b"\x16\x03\x03\x40\x00" + bytes(60_000))
        with suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        await until(lambda: server.limit_counts.get("tls_handshakes", 0) == 1 and not server.openings)
