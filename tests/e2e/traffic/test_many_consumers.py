"""A thousand members of one group: everybody has work, nothing comes twice, and waiting costs next to nothing."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import pytest

from ternmq import Admin, Message, Producer
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.e2e.traffic.server import cpu_s, metric, resident_bytes
from tests.support.embedded import Proto, RawClient, code
from tests.support.stack import Stack
from tests.support.until import until, until_in_thread

pytestmark = [pytest.mark.slow]

TOPIC, QUIET, GROUP = "work", "quiet", "crowd"
MEMBERS, CONNECTIONS = 1000, 4
MESSAGES, MESSAGES_OF_A_REQUEST = 10_000, 50
TAKEN_AT_A_TIME = 4
# A machine that has others to serve takes its time; nothing is to come again for that.
PATIENCE_S = 100.0
POLL_S, QUIET_POLL_S = 20.0, 3.0


class Member:
    """A consumer with a client id of its own, on a connection that it shares."""

    def __init__(self, name: str, connection: RawClient) -> None:
        metadata = (("x-mq-client-id", name),)
        self._client = RawClient(connection.endpoint, metadata=metadata, channel=connection.channel)
        self._telemetry: Proto = self._client.telemetry(timeout_s=None)
        self.received = Counter[bytes]()

    async def join(self) -> None:
        settings = pb.Settings(client_type=pb.SIMPLE_CONSUMER)
        settings.subscription.group.name = GROUP
        settings.subscription.subscriptions.add(topic={"name": TOPIC}, expression={"expression": "*"})
        await self._telemetry.write(rpc.TelemetryCommand(settings=settings))
        assert code(await self._telemetry.read()) == "OK"

    async def work(self) -> None:
        """Take messages and acknowledge them, until cancelled."""
        poll = partial(self._client.receive, TOPIC, GROUP, poll_s=POLL_S, timeout_s=POLL_S + PATIENCE_S)
        while True:
            received = await poll(batch_size=TAKEN_AT_A_TIME, invisible_s=2 * PATIENCE_S)
            if received.messages:
                handles = [message.system_properties.receipt_handle for message in received.messages]
                assert code(await self._client.ack(TOPIC, GROUP, *handles)) == "OK"
            self.received.update(received.bodies)  # after its acknowledgement, which the end of the work would cancel

    async def leave(self) -> None:
        assert code(await self._client.call("NotifyClientTermination", group={"name": GROUP})) == "OK"
        self._telemetry.cancel()


@asynccontextmanager
async def crowd(stack: Stack, name: str) -> AsyncIterator[list[Member]]:
    """Members at work, all of them waiting for a first message; in the end they leave."""
    async with AsyncExitStack() as connected:
        connections = [await connected.enter_async_context(RawClient(stack.grpc)) for _ in range(CONNECTIONS)]
        members = [Member(f"{name}-{each}", connections[each % CONNECTIONS]) for each in range(MEMBERS)]
        await asyncio.gather(*(member.join() for member in members))
        working = [asyncio.create_task(member.work()) for member in members]
        await until_in_thread(lambda: metric(stack, "ternmq_broker_polls") == MEMBERS)
        yield members
        for task in working:
            assert not task.done()  # as one does that has failed
            task.cancel()
        await asyncio.gather(*(member.leave() for member in members))


async def send_all(stack: Stack, bodies: Sequence[bytes]) -> None:
    async with Producer(stack.grpc, request_timeout=PATIENCE_S, delivery_timeout=PATIENCE_S) as producer:
        for start in range(0, len(bodies), MESSAGES_OF_A_REQUEST):
            await producer.send_many([Message(TOPIC, body) for body in bodies[start : start + MESSAGES_OF_A_REQUEST]])


async def wait_in_vain(stack: Stack) -> None:
    """What one poll of a topic without messages takes."""
    async with RawClient(stack.grpc) as client:
        received = await client.receive(QUIET, "idle", poll_s=QUIET_POLL_S)
        assert received.code == "MESSAGE_NOT_FOUND"


async def test_a_thousand_members_share_what_comes_and_leave_nothing_behind(stack: Stack) -> None:
    bodies = [b"%d" % number for number in range(MESSAGES)]
    async with Admin(stack.grpc) as admin, asyncio.timeout(2 * PATIENCE_S):
        for topic in (TOPIC, QUIET):
            await admin.create_topic(topic, "normal", queues=8)
        async with crowd(stack, "first") as members:
            before = cpu_s(stack)
            await wait_in_vain(stack)
            idle_s = cpu_s(stack) - before
            await send_all(stack, bodies)
            await until(lambda: sum(member.received.total() for member in members) >= MESSAGES)
            busy_s = cpu_s(stack) - before - idle_s
        after_first = resident_bytes(stack)
        received = sum((member.received for member in members), Counter[bytes]())
        assert received == dict.fromkeys(bodies, 1)
        # A poll takes what woke others too; they are to be next, and not last again.
        assert all(member.received for member in members)
        assert idle_s < busy_s / 4
        async with crowd(stack, "second") as members:
            await send_all(stack, bodies[:MEMBERS])
            await until(lambda: sum(member.received.total() for member in members) >= MEMBERS)
        assert metric(stack, "ternmq_front_clients") == 0
        described = await admin.describe_group(GROUP)
        assert (described.lag, described.client_ids) == (0, ())
        assert resident_bytes(stack) < 1.2 * after_first
