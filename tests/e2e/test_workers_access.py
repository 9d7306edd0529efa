"""Access control of a server of several processes: each of them asks who calls, and hears of what changes."""

import asyncio
import base64
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import grpc.aio
import pytest

import ternmq
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.embedded import RawClient, code, message
from tests.support.stack import ANY_PORT
from tests.support.until import until_answered
from tests.support.users import SECRET, signed
from tests.support.workers import WorkerStack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

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
    stack.addresses["admin"] = ANY_PORT
    with stack:
        for _ in range(CONNECTIONS):
            async with RawClient(stack.addresses["admin"]) as operator:
                assert code(await operator.admin("ListTopics", admin_pb2.ListTopicsRequest())) == "OK"
            async with RawClient(stack.grpc) as client:
                with pytest.raises(grpc.aio.AioRpcError, match="not served here"):
                    await client.admin("ListTopics", admin_pb2.ListTopicsRequest())


async def test_workers_share_the_guarded_listener_of_operators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With TLS and access control administration is answered there, by each worker, to who may; and nowhere else."""
    monkeypatch.setenv("TERNMQ_INIT_SECRET", SECRET)
    certificates = Certificates(tmp_path / "certificates")
    cert, key = certificates.issue("server")
    stack = WorkerStack(tmp_path, *OPTIONS, "--tls-cert", str(cert), "--tls-key", str(key))
    stack.addresses["admin"] = ANY_PORT
    tls = ternmq.TlsOptions(ca=certificates.ca)
    nobody = ternmq.Credentials("root", "another-secret-of-a-test")
    with stack:
        async with ternmq.Admin(stack.addresses["admin"], tls=tls, credentials=ROOT) as operator:
            await operator.create_topic(TOPIC)
            await operator.create_user("alice", SECRET)
            await operator.put_policy("alice", f"Topic:{TOPIC}", "Pub")
        answered = set[str]()
        for number in range(CONNECTIONS):
            address = stack.addresses["admin"]
            async with ternmq.Admin(address, tls=tls, credentials=ROOT) as operator:
                await until_answered(lambda: topics_of(operator), [TOPIC])  # noqa: B023 - called here
                answered.add((await operator.server_info()).name)
            for refused in (nobody, None):
                with pytest.raises(ternmq.Unauthorized):
                    async with ternmq.Admin(address, tls=tls, credentials=refused) as stranger:
                        await stranger.list_topics()
            with pytest.raises(ternmq.ConnectionFailed, match="this port takes TLS only"):
                async with ternmq.Admin(address, credentials=ROOT, max_attempts=1) as plain:
                    await plain.list_topics()
            with pytest.raises(ternmq.Unsupported, match="not served here"):
                async with ternmq.Admin(stack.grpc, tls=tls, credentials=ROOT) as outside:
                    await outside.list_topics()
        assert len(answered) == 2
