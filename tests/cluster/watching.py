"""What tests of a cluster ask its proxies, and wait for."""

import asyncio
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, TypeVar

import grpc

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.embedded import RawClient, code, message, names

if TYPE_CHECKING:
    from tests.support.cluster_processes import BrokerProcess, ProxyProcess
    from tests.support.embedded import Received
    from tests.support.stack import ServerProcess

LONG_S = 3600.0
"""Longer than any test holds a message."""
T = TypeVar("T")
# Nothing tells a client of a route that changes: it asks again.
LOOK_INTERVAL_S = 0.1
COMMAND_TIMEOUT_S = 60.0
WATCHERS = "watchers"


async def eventually(check: Callable[[], Awaitable[T]], *, within_s: float, what: str) -> T:
    """What `check` answers, as soon as that is true."""
    found: T | None = None
    try:
        async with asyncio.timeout(within_s):
            while not (found := await check()):  # noqa: ASYNC110 - no event here tells of it
                await asyncio.sleep(LOOK_INTERVAL_S)
    except TimeoutError:
        raise AssertionError(f"not within {within_s:g} s: {what}; at last {found!r}") from None
    return found


@asynccontextmanager
async def clients_of(proxies: "Sequence[ProxyProcess]") -> AsyncIterator[list[RawClient]]:
    """A client of each proxy, and of no other."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(RawClient(proxy.grpc)) for proxy in proxies]


@contextmanager
def paused(process: "ServerProcess") -> Iterator[None]:
    """The process hangs meanwhile."""
    process.pause()
    try:
        yield
    finally:
        process.resume()


async def route(client: RawClient, topic: str) -> rpc.QueryRouteResponse:
    answer = await client.call("QueryRoute", topic={"name": topic})
    assert isinstance(answer, rpc.QueryRouteResponse)
    return answer


async def identity_of(client: RawClient, topic: str) -> str:
    """What tells the topic from another one of its name."""
    [found] = (await client.admin("ListTopics", names=[topic])).topics
    assert found.identity
    return str(found.identity)


async def placed(client: RawClient, topic: str, *, writable: bool = False) -> set[str]:
    """The brokers in the route of a topic, or those of them that take messages."""
    queues = (await route(client, topic)).message_queues
    return {queue.broker.name for queue in queues if not writable or queue.permission in (pb.WRITE, pb.READ_WRITE)}


async def in_routes(clients: Sequence[RawClient], topic: str, brokers: set[str], *, within_s: float) -> None:
    """Return when every proxy has exactly these brokers in the topic's route."""

    async def as_wanted() -> bool:
        return all([await placed(client, topic) == brokers for client in clients])

    await eventually(as_wanted, within_s=within_s, what=f"{topic} on {sorted(brokers)}")


async def stored(client: RawClient, topic: str) -> dict[str, int]:
    """How many messages of a topic each broker has; those that don't answer are not there."""
    answer = await client.admin("DescribeTopic", name=topic)
    assert code(answer) == "OK", answer.status.message
    found: dict[str, int] = {}
    for queue in answer.queues:
        found[queue.broker] = found.get(queue.broker, 0) + queue.max_offset
    return found


async def send_each(client: RawClient, topic: str, *bodies: bytes) -> None:
    """Send messages one by one: those of one request would share a queue."""
    for body in bodies:
        await client.send(topic, body)


async def received(
    client: RawClient, topic: str, group: str, count: int, *, poll_s: float = 10.0, **fields: float
) -> "list[pb.Message]":
    """So many messages, in as many polls as they need."""
    found: list[pb.Message] = []
    while len(found) < count:
        batch = await client.receive(topic, group, poll_s=poll_s, **fields)
        assert batch.messages, f"{len(found)} of {count}: {batch.status}"
        found += batch.messages
    return found


async def consumed(client: RawClient, topic: str, group: str, count: int) -> list[bytes]:
    """The bodies of so many messages, which are acknowledged."""
    found = await received(client, topic, group, count)
    await settle(client, topic, group, found)
    return [each.body for each in found]


async def settle(client: RawClient, topic: str, group: str, messages: "Sequence[pb.Message]") -> None:
    answer = await client.ack(topic, group, *(each.system_properties.receipt_handle for each in messages))
    assert names(answer.entries) == ["OK"] * len(messages), answer


async def is_empty(client: RawClient, topic: str, group: str) -> bool:
    """Whether nothing can be had now."""
    answer: Received = await client.receive(topic, group)
    return answer.code == "MESSAGE_NOT_FOUND"


async def sent_code(client: RawClient, topic: str, body: bytes = b"body") -> tuple[str, str]:
    """The code and the text that one send is answered with."""
    answer = await client.call("SendMessage", messages=[message(topic, body)])
    return code(answer), answer.status.message


async def broker_names(client: RawClient, *, live: bool = True) -> set[str]:
    """All brokers that the proxy knows, or those whose lease is in force."""
    answer = await client.admin("ListBrokers")
    return {broker.name for broker in answer.brokers if broker.live or not live}


async def serving(client: RawClient, brokers: "Sequence[BrokerProcess]", *, within_s: float = 20.0) -> None:
    """Return when the proxy reaches all these brokers: a route names also those that are just coming."""
    names = {broker.name for broker in brokers}

    async def reached() -> bool:
        try:
            made = await client.admin("CreateGroup", group=admin_pb2.Group(name=WATCHERS))
            # A group's retry topic is on all brokers.
            topic = f"%RETRY%{WATCHERS}"
            return code(made) == "OK" and await placed(client, topic) == names == (await stored(client, topic)).keys()
        except grpc.aio.AioRpcError:
            return False  # the proxy itself is coming

    await eventually(reached, within_s=within_s, what=f"{client.endpoint} reaches all brokers")


async def health(process: "ServerProcess", check: str) -> tuple[int, str]:
    """The answer to `/health/CHECK`: status and text."""

    def get() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://{process.addresses['http']}/health/{check}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    return await asyncio.to_thread(get)


async def command(proxy: "ProxyProcess", *words: str) -> "subprocess.CompletedProcess[str]":
    """The command line, against one proxy."""
    line = (sys.executable, "-m", "ternmq_command.main", *words, "--endpoint", proxy.grpc)
    return await asyncio.to_thread(
        subprocess.run, line, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
    )


async def done(proxy: "ProxyProcess", *words: str) -> str:
    """What a command printed that has succeeded."""
    result = await command(proxy, *words)
    assert result.returncode == 0, result.stderr
    return result.stdout


async def is_sent(client: RawClient, topic: str, name: str, body: bytes) -> bool:
    """Whether its broker takes a message of this lite topic now."""
    try:
        await client.send(topic, body, lite_topic=name)
    except AssertionError:
        return False
    return True
