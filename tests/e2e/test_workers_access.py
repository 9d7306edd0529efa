"""Access control of a server of several processes: each of them asks who calls, and hears of what changes."""

import asyncio
import base64
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import grpc.aio
import psutil
import pytest

import ternmq
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.certificates import Certificates
from tests.support.embedded import RawClient, code, message
from tests.support.ports import free_address
from tests.support.until import until_answered
from tests.support.users import SECRET, signed
from tests.support.workers import WorkerStack

pytestmark = [pytest.mark.slow]

TOPIC = "orders"
# So many that each worker has some.
CONNECTIONS = 16
OPTIONS = ("--workers", "2", "--access-control", "--init-user", "root")
ROOT = ternmq.Credentials("root", SECRET)


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerStack]:
    monkeypatch.setenv("TERNMQ_INIT_SECRET", SECRET)
    with WorkerStack(tmp_path, *OPTIONS) as stack:
        yield stack


async def make_users(stack: WorkerStack) -> None:
    async with ternmq.Admin(stack.grpc, credentials=ROOT) as admin:
        await admin.create_topic(TOPIC)
        for name in ("alice", "watcher"):
            await admin.create_user(name, SECRET)
        await admin.put_policy("alice", f"Topic:{TOPIC}", "Pub")
        await admin.put_policy("watcher", "Cluster:metrics", "Get")


def status(stack: WorkerStack, path: str, user: str = "", secret: str = SECRET) -> int:
    """Of HTTP."""
    request = urllib.request.Request(f"http://{stack.http}{path}")
    if user:
        request.add_header("Authorization", f"Basic {base64.b64encode(f'{user}:{secret}'.encode()).decode()}")
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


async def test_every_worker_asks_who_calls_and_hears_of_a_user_who_is_deleted(stack: WorkerStack) -> None:
    await make_users(stack)
    request = rpc.SendMessageRequest(messages=[message(TOPIC)])
    async with AsyncExitStack() as clients:
        alices = [
            await clients.enter_async_context(RawClient(stack.grpc, metadata=signed("alice", f"alice-{number}")))
            for number in range(CONNECTIONS)
        ]

        async def outcomes() -> set[str]:
            return {code(each) for each in await asyncio.gather(*(a.call("SendMessage", request) for a in alices))}

        await until_answered(outcomes, {"OK"})
        for name, secret in (("alice", "another-secret-of-a-test"), ("nobody", SECRET)):
            for number in range(CONNECTIONS):
                async with RawClient(stack.grpc, metadata=signed(name, f"{name}-{number}-x", secret=secret)) as client:
                    assert code(await client.call("SendMessage", request)) == "UNAUTHORIZED"
        async with ternmq.Admin(stack.grpc, credentials=ROOT) as admin:
            await admin.delete_user("alice")
        await until_answered(outcomes, {"UNAUTHORIZED"})


async def test_http_of_the_supervisor_is_for_users(stack: WorkerStack) -> None:
    await make_users(stack)

    async def told(*who: str) -> list[int]:
        return [
            await asyncio.to_thread(status, stack, path, *who) for path in ("/metrics", "/version", "/health/ready")
        ]

    assert await told() == [401, 401, 200]
    await until_answered(lambda: told("watcher"), [200, 200, 200])
    assert await told("watcher", "another-secret-of-a-test") == [401, 401, 200]
    assert await told("alice") == [401, 401, 200]


async def test_workers_share_the_listener_of_operators(tmp_path: Path) -> None:
    stack = WorkerStack(tmp_path, "--workers", "2")
    stack.addresses["admin"] = free_address()
    with stack:
        for _ in range(CONNECTIONS):
            async with RawClient(stack.addresses["admin"]) as operator:
                assert code(await operator.admin("ListTopics")) == "OK"
            async with RawClient(stack.grpc) as client:
                with pytest.raises(grpc.aio.AioRpcError, match="not served here"):
                    await client.admin("ListTopics")


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[WorkerStack, ternmq.TlsOptions]]:
    """With TLS, access control and a listener of operators, and how a client believes it."""
    monkeypatch.setenv("TERNMQ_INIT_SECRET", SECRET)
    certificates = Certificates(tmp_path / "certificates")
    cert, key = certificates.issue("server")
    stack = WorkerStack(tmp_path, *OPTIONS, "--tls-cert", str(cert), "--tls-key", str(key))
    stack.addresses["admin"] = free_address()
    with stack:
        yield stack, ternmq.TlsOptions(ca=certificates.ca)


async def test_each_worker_answers_operators_at_their_guarded_listener(
    guarded: tuple[WorkerStack, ternmq.TlsOptions],
) -> None:
    stack, tls = guarded
    address = stack.addresses["admin"]
    async with AsyncExitStack() as clients:
        operators = [
            await clients.enter_async_context(ternmq.Admin(address, tls=tls, credentials=ROOT))
            for _ in range(CONNECTIONS)
        ]
        await operators[0].create_topic(TOPIC)
        await until_answered(lambda: names_told(operators), {TOPIC})
        assert all(connections_at(each, address) for name, each in stack.processes.items() if name in stack.workers)
        await operators[0].create_user("alice", SECRET)
        await operators[0].put_policy("alice", f"Topic:{TOPIC}", "Pub")
    async with ternmq.Producer(address, topics=[TOPIC], tls=tls, credentials=ROOT) as producer:
        await producer.send(ternmq.Message(TOPIC, b"messages go there as well"))
    async with ternmq.Admin(address, tls=tls, credentials=ternmq.Credentials("alice", SECRET)) as alice:
        await until_answered(lambda: refusal(alice), "user 'alice' may not do this; it needs Delete on Topic:orders")


async def refusal(user: ternmq.Admin) -> str:
    """That of a deletion; who was made just now may be unknown to this worker for a moment."""
    with pytest.raises(ternmq.Unauthorized) as refused:
        await user.delete_topic(TOPIC)
    return refused.value.message


async def names_told(operators: list[ternmq.Admin]) -> set[str]:
    """By all of them together: each worker hears of a topic in its own time."""
    told = await asyncio.gather(*(each.list_topics() for each in operators))
    return {topic.name for topics in told for topic in topics} if all(told) else set()


def connections_at(process: psutil.Process, address: str) -> int:
    port = int(address.rpartition(":")[2])
    found = process.net_connections("tcp")
    return sum(each.status == psutil.CONN_ESTABLISHED and each.laddr.port == port for each in found)


async def test_no_worker_administers_for_strangers_in_plain_text_or_elsewhere(
    guarded: tuple[WorkerStack, ternmq.TlsOptions],
) -> None:
    stack, tls = guarded
    address = stack.addresses["admin"]
    wrong = ternmq.Credentials("root", "another-secret-of-a-test")
    for _ in range(CONNECTIONS):
        for credentials in (wrong, None):
            async with ternmq.Admin(address, tls=tls, credentials=credentials) as stranger:
                with pytest.raises(ternmq.Unauthorized):
                    await stranger.create_topic(TOPIC)
        async with ternmq.Admin(address, credentials=ROOT) as plain:
            with pytest.raises(ternmq.ConnectionFailed, match="this port takes TLS only"):
                await plain.create_topic(TOPIC)
        async with ternmq.Admin(stack.grpc, tls=tls, credentials=ROOT) as outside:
            with pytest.raises(ternmq.Unsupported, match="not served here"):
                await outside.create_topic(TOPIC)
    async with ternmq.Admin(address, tls=tls, credentials=ROOT) as operator:
        assert await operator.list_topics() == []


async def test_any_worker_tells_what_all_of_them_did(stack: WorkerStack) -> None:
    await make_users(stack)
    async with AsyncExitStack() as opened:
        admins = [
            await opened.enter_async_context(ternmq.Admin(stack.grpc, credentials=ROOT)) for _ in range(CONNECTIONS)
        ]
        for number, admin in enumerate(admins):
            await admin.create_group(f"group-{number}")
        wanted = {f"Group:group-{number}" for number in range(CONNECTIONS)}
        for admin in admins:

            async def told(admin: ternmq.Admin = admin) -> set[str]:
                return {entry.resource async for entry in admin.list_audit_entries(call="CreateGroup")}

            # What another process did may be on its way to the disk.
            await until_answered(told, wanted)
        entries = [entry async for entry in admins[0].list_audit_entries()]
    assert {entry.process for entry in entries} == {"worker-0", "worker-1"}
    times = [entry.time for entry in entries if entry.time is not None]
    assert times == sorted(times, reverse=True)
