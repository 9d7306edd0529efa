"""TLS of clients, and what they say when it fails."""

import asyncio
from pathlib import Path

import pytest

import ternmq
from ternmq import Admin, ClientError, ConnectionFailed, Message, Producer, TlsFailed, TlsOptions, UnusableFile
from ternmq.admin.clients.plain_calls import PlainCalls
from ternmq.connections.tls import advise_on_failure, tls_options
from ternmq.pull.offset_reader import OffsetReader
from ternmq_protos.v2 import service_pb2 as rpc
from tests.unit.client.authority import Authority
from tests.unit.client.scripted_server import TOPIC, ScriptedServer


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def refused(server: ScriptedServer, tls: TlsOptions | None) -> list[ClientError]:
    """Why each of the ways to connect fails: gRPC on asyncio, gRPC in a thread, and our own calls."""
    failures = []
    for ask in (_produce, _read, _plain):
        with pytest.raises(ClientError) as failed:
            ask(server, tls)
        failures.append(failed.value)
    return failures


def _produce(server: ScriptedServer, tls: TlsOptions | None) -> None:
    async def produce() -> None:
        async with Producer(server.endpoint, topics=[TOPIC], tls=tls or False):
            pass

    asyncio.run(produce())


def _read(server: ScriptedServer, tls: TlsOptions | None) -> None:
    with OffsetReader(server.endpoint, patience=0.0, tls=tls or False) as reader:
        reader.queues(TOPIC)


class _Calls(PlainCalls):
    def heartbeat(self) -> rpc.HeartbeatResponse:
        path = "/apache.rocketmq.v2.MessagingService/Heartbeat"
        answer: rpc.HeartbeatResponse = self._answer_call(path, rpc.HeartbeatRequest(), rpc.HeartbeatResponse, 5.0)
        return answer


def _plain(server: ScriptedServer, tls: TlsOptions | None) -> None:
    with _Calls(server.endpoint, tls=tls) as calls:
        calls.heartbeat()


@pytest.mark.parametrize("use", [_produce, _read, _plain])
async def test_all_ways_to_connect_speak_tls(authority: Authority, use: object) -> None:
    assert callable(use)
    async with ScriptedServer(tls=authority.server()) as server:
        await asyncio.to_thread(use, server, TlsOptions(ca=authority.ca))


async def test_an_authority_that_is_not_trusted_is_named_as_the_reason(authority: Authority) -> None:
    async with ScriptedServer(tls=authority.server()) as server:
        failures = await asyncio.to_thread(refused, server, TlsOptions(ca=Authority().ca))
    assert {type(failure) for failure in failures} == {TlsFailed}
    assert all("of no authority that the client trusts: give the right one (ca)" in str(each) for each in failures)
    assert not any(failure.retryable for failure in failures)


async def test_an_expired_certificate_is_named_as_the_reason(authority: Authority) -> None:
    async with ScriptedServer(tls=authority.server(is_expired=True)) as server:
        failures = await asyncio.to_thread(refused, server, TlsOptions(ca=authority.ca))
    assert {type(failure) for failure in failures} == {TlsFailed}
    assert all("certificate has expired: renew it" in str(each) for each in failures)


async def test_another_name_is_named_as_the_reason_and_can_be_given(authority: Authority) -> None:
    async with ScriptedServer(tls=authority.server("mq.example.com")) as server:
        failures = await asyncio.to_thread(refused, server, TlsOptions(ca=authority.ca))
        named = TlsOptions(ca=authority.ca, server_name="mq.example.com")
        for use in (_produce, _read, _plain):
            await asyncio.to_thread(use, server, named)
    assert {type(failure) for failure in failures} == {TlsFailed}
    assert all("is for another name" in str(each) for each in failures)


async def test_a_plain_server_is_named_as_the_reason(authority: Authority) -> None:
    async with ScriptedServer() as server:
        failures = await asyncio.to_thread(refused, server, TlsOptions(ca=authority.ca))
    assert {type(failure) for failure in failures} == {TlsFailed}
    assert all("the server speaks no TLS there" in str(each) for each in failures)


async def test_a_plain_client_is_told_to_try_tls_and_may_try_again(authority: Authority) -> None:
    async with ScriptedServer(tls=authority.server()) as server:
        failures = await asyncio.to_thread(refused, server, None)
    assert {type(failure) for failure in failures} == {ConnectionFailed}
    assert all("if the server speaks TLS only, switch it on in the client" in str(each) for each in failures)


async def test_a_server_may_want_a_client_certificate(authority: Authority) -> None:
    certificate, key = authority.issued("billing")
    async with ScriptedServer(tls=authority.server(wants_client=True)) as server:
        failures = await asyncio.to_thread(refused, server, TlsOptions(ca=authority.ca))
        own = TlsOptions(ca=authority.ca, client_cert=certificate, client_key=key)
        for use in (_produce, _read, _plain):
            await asyncio.to_thread(use, server, own)
    assert all("client certificate" in str(failure) for failure in failures)


async def test_files_do_what_their_content_does(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.issued("billing")
    (tmp_path / "me.pem").write_bytes(certificate)
    (tmp_path / "me.key").write_bytes(key)
    tls = TlsOptions(
        ca=authority.ca_file(tmp_path), client_cert=tmp_path / "me.pem", client_key=str(tmp_path / "me.key")
    )
    async with ScriptedServer(tls=authority.server(wants_client=True)) as server:
        for use in (_produce, _read, _plain):
            await asyncio.to_thread(use, server, tls)


async def test_a_running_producer_and_an_admin_speak_tls(authority: Authority) -> None:
    async with ScriptedServer(tls=authority.server()) as server:
        async with Producer(server.endpoint, topics=[TOPIC], tls=TlsOptions(ca=authority.ca)) as producer:
            await producer.send(Message(TOPIC, b"hello"))
        async with Admin(server.endpoint, tls=TlsOptions(ca=authority.ca)) as admin:
            with pytest.raises(ternmq.Unsupported):
                await admin.list_topics()


async def test_unusable_files_are_named_and_end_a_start(server: ScriptedServer, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    for tls, said in (
        (TlsOptions(ca=tmp_path / "ca.pem"), r"ca\.pem has no certificates in PEM"),
        (TlsOptions(ca=tmp_path / "absent.pem"), r"absent\.pem can't be read: No such file"),
        (TlsOptions(client_cert=b"none", client_key=b"none"), "client_cert and client_key are no certificate and its"),
    ):
        with pytest.raises(UnusableFile, match=said):
            await Producer(server.endpoint, topics=[TOPIC], tls=tls).start()


def test_what_is_no_tls_is_a_type_error() -> None:
    assert tls_options(True) == TlsOptions()
    assert tls_options(False) is None
    with pytest.raises(TypeError, match="tls is True, False or TlsOptions, which str is not"):
        Producer("mq:8081", tls="yes")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="client_cert and client_key belong together"):
        TlsOptions(client_cert="me.pem")


def test_a_key_shows_in_no_text() -> None:
    assert "secret" not in repr(TlsOptions(client_cert=b"secret", client_key=b"secret", ca=b"secret"))


def test_what_is_not_about_tls_gets_no_advice() -> None:
    assert advise_on_failure("connection refused", uses_tls=True) == ("", True)
    assert advise_on_failure("Socket closed", uses_tls=False) == ("", True)
