"""Quotas between the workers of one machine, which share each limit by the registry."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.embedded import RawClient, message
from tests.support.until import until_answered
from tests.support.workers import WorkerStack

pytestmark = [pytest.mark.slow]

# The kernel deals them out to the workers.
CONNECTIONS = 16
LIMIT = 100


async def told_at(client: RawClient) -> tuple[int, float]:
    """Of how many workers the worker of this connection tells, once it has met the topic, and what they may give out of
    it together."""
    assert (await client.call("SendMessage", messages=[message("orders", b"x")])).status.code == pb.OK
    listed = await client.admin("ListQuotas")
    share = next((use.share["messages_in"] for use in listed.uses if use.name == "orders"), 0.0)
    return listed.proxies, round(share)


async def test_two_workers_give_out_a_limit_once_and_each_tells_what_both_do(tmp_path: Path) -> None:
    with WorkerStack(tmp_path, "--workers", "2") as stack:
        async with AsyncExitStack() as opened:
            clients = [await opened.enter_async_context(RawClient(stack.grpc)) for _ in range(CONNECTIONS)]
            await clients[0].create_topic("orders")
            quota = admin_pb2.Quota(kind="topic", name="*", messages_in=LIMIT)
            quota.burst.FromSeconds(3600)  # nothing of this test is refused
            put = await clients[0].admin("PutQuota", quota=quota)
            assert put.status.code == pb.OK

            async def all_tell() -> set[tuple[int, float]]:
                return {await told_at(client) for client in clients}

            await until_answered(all_tell, {(2, LIMIT)})
            connections = await asyncio.to_thread(stack.metric, "ternmq_front_connections")
            assert len(connections) == 2
            assert all(connections.values())
