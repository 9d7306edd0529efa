"""Quotas between two proxies of a cluster: shared fairly when demand is unequal, given back, and never exceeded by more
than docs/security.md (Quotas and overload) says; and what may be in flight, whichever proxy is asked."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest

from ternmq_common.retry_hint import parse_retry_hint
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.cluster.watching import eventually, received, send_each, serving, settle
from tests.support.cluster_processes import ClusterProcesses, ProxyProcess
from tests.support.embedded import RawClient, code, message

pytestmark = [pytest.mark.cluster]

TOPIC = "orders"
LIMIT = 40
BURST_S = 0.5
# Proxies hear of each other once a second; the rest is for a machine that is busy.
WITHIN_S = 60.0
WINDOW_S = 3.0
AT_ONCE = 3
# For so long the others do not know that demand has moved, and give out what they had.
HEARD_WITHIN_S = 1.0


class Load:
    """Sends through one proxy, `every_s` or as fast as it is let; counts what was taken."""

    def __init__(self, proxy: ProxyProcess, every_s: float = 0.0) -> None:
        self._proxy, self._every_s = proxy, every_s
        self._taken_at: deque[float] = deque()
        self.taken = 0
        self.in_a_row = 0
        """Taken since the last refusal."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with RawClient(self._proxy.grpc) as client, asyncio.TaskGroup() as tasks:
            sending = [tasks.create_task(self._send(client)) for _ in range(1 if self._every_s else AT_ONCE)]
            yield
            for task in sending:
                task.cancel()

    async def _send(self, client: RawClient) -> None:
        request = rpc.SendMessageRequest(messages=[message(TOPIC, b"x")])
        while True:
            try:
                status = (await client.call("SendMessage", request)).status
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
                return  # the test has ended the proxy
            if status.code == pb.OK:
                self.taken += 1
                self.in_a_row += 1
                self._taken_at.append(time.monotonic())
                await asyncio.sleep(self._every_s)  # this is its demand
            else:
                assert status.code == pb.TOO_MANY_REQUESTS, status.message
                self.in_a_row = 0
                await asyncio.sleep(
                    parse_retry_hint(status.message) or 0.0
                )  # as a client does that is told when to come

    def rate(self) -> float:
        """Taken each second of late."""
        begin = time.monotonic() - WINDOW_S
        while self._taken_at and self._taken_at[0] < begin:
            self._taken_at.popleft()
        return len(self._taken_at) / WINDOW_S


async def put_quota(client: RawClient, kind: str, name: str, **limits: int) -> None:
    quota = admin_pb2.Quota(kind=kind, name=name)
    for limit, value in limits.items():
        setattr(quota, limit, value)
    quota.burst.FromMilliseconds(int(BURST_S * 1000))
    answer = await client.admin("PutQuota", quota=quota)
    assert code(answer) == "OK", answer.status.message


async def told(client: RawClient) -> tuple[int, int]:
    """Of how many proxies this one tells, and what these may give out of the topic each second together."""
    answer = await client.admin("ListQuotas")
    share = next((use.share["messages_in"] for use in answer.uses if use.name == TOPIC), 0.0)
    return answer.proxies, round(share)


async def all_tell(clients: list[RawClient], what: tuple[int, int]) -> None:
    async def as_wanted() -> bool:
        return all([await told(client) == what for client in clients])

    await eventually(as_wanted, within_s=WITHIN_S, what=f"all proxies tell {what}")


async def takes(load: Load, least: float, most: float) -> None:
    """Return when so much of the limit goes to this load."""

    async def as_wanted() -> bool:
        return least * LIMIT <= load.rate() <= most * LIMIT

    await eventually(as_wanted, within_s=WITHIN_S, what=f"{least:g} to {most:g} of the limit; it is {load.rate():g}/s")


async def none_is_refused(load: Load, times: int) -> None:
    async def as_wanted() -> bool:
        return load.in_a_row >= times

    await eventually(as_wanted, within_s=WITHIN_S, what=f"{times} sends in a row that are taken")


async def no_more_than_the_limit_is_taken(*loads: Load) -> None:
    """While demand stays as it is, for some seconds."""
    began, before = time.monotonic(), sum(load.taken for load in loads)

    async def enough() -> bool:
        return sum(load.taken for load in loads) - before >= 4 * LIMIT

    await eventually(enough, within_s=WITHIN_S, what="four seconds' worth")
    assert exceeded_by(sum(load.taken for load in loads) - before, began, moves=0) <= 0


def exceeded_by(taken: int, began: float, moves: int, proxies: int = 2) -> float:
    """By how much more was taken since than may be, when demand has moved so often."""
    seconds = time.monotonic() - began
    further = moves * (proxies - 1) * HEARD_WITHIN_S
    return taken - LIMIT * (seconds + BURST_S + further) - proxies


async def test_a_limit_is_shared_by_what_each_proxy_wants_and_a_proxy_that_goes_gives_its_share_back(
    cluster: ClusterProcesses,
) -> None:
    first, second = cluster.proxies
    async with RawClient(first.grpc) as one, RawClient(second.grpc) as other:
        for client in (one, other):
            await serving(client, cluster.brokers)
        await one.create_topic(TOPIC)
        await send_each(other, TOPIC, b"the other proxy knows it")
        # Both share before there is any demand: the first second of the first quota of all is another matter.
        await put_quota(one, "topic", "other", messages_in=LIMIT)
        await eventually(lambda: _are_two([one, other]), within_s=WITHIN_S, what="two proxies that share")
        await put_quota(one, "topic", TOPIC, messages_in=LIMIT)

        greedy, modest, rival = Load(first), Load(second, every_s=0.25), Load(second)
        began = time.monotonic()
        async with greedy.running():
            async with modest.running():
                # A tenth of the limit is wanted there, all of it and more here: what is not wanted is lent.
                await takes(greedy, 0.7, 1.0)
                await none_is_refused(modest, 12)
                await all_tell([one, other], (2, LIMIT))
            assert exceeded_by(greedy.taken + modest.taken, began, moves=2) <= 0
            async with rival.running():
                await takes(greedy, 0.4, 0.6)
                await takes(rival, 0.4, 0.6)
                await all_tell([one, other], (2, LIMIT))
                await no_more_than_the_limit_is_taken(greedy, rival)
                second.kill9()  # it says nothing, and its lease runs out
                await takes(greedy, 0.8, 1.1)
            await all_tell([one], (1, LIMIT))
            second.restart()
            returned = Load(second)
            async with returned.running():
                await takes(greedy, 0.4, 0.6)
                assert second.terminate() == 0  # it leaves, and need not be waited for
                await all_tell([one], (1, LIMIT))
                await takes(greedy, 0.8, 1.1)
        taken = sum(load.taken for load in (greedy, modest, rival, returned))
        # Each load that came or went, and the proxy that came back.
        assert exceeded_by(taken, began, moves=8) <= 0
        assert taken > LIMIT  # else nothing of this would be about a limit
    second.start()


async def _are_two(clients: list[RawClient]) -> bool:
    for client in clients:
        await client.call("SendMessage", messages=[message("other", b"x")])
    return all([(await told(client))[0] == 2 for client in clients])


async def test_what_may_be_in_flight_is_one_limit_for_both_proxies(cluster: ClusterProcesses, topic: str) -> None:
    limit = 5
    async with RawClient(cluster.proxies[0].grpc) as one, RawClient(cluster.proxies[1].grpc) as other:
        for client in (one, other):
            await serving(client, cluster.brokers)
        await one.create_topic(topic, queues=2)
        await put_quota(one, "group", "g", in_flight=limit)

        async def is_known() -> bool:
            listed = await other.admin("ListQuotas")
            return [quota.in_flight for quota in listed.quotas if quota.kind == "group"] == [limit]

        await eventually(is_known, within_s=WITHIN_S, what="the other proxy knows the quota")
        await send_each(one, topic, *(b"%d" % number for number in range(40)))
        held = await received(one, topic, "g", 2, batch_size=1)
        held += await received(other, topic, "g", limit - len(held), batch_size=1)
        for client in (one, other):
            refused = await client.receive(topic, "g", batch_size=16)
            assert refused.code == "MESSAGE_NOT_FOUND"
            assert refused.status is not None
            assert "group:g (5)" in refused.status.message
        waiting = asyncio.create_task(other.receive(topic, "g", batch_size=16, poll_s=15.0))
        # Part of it came by the other proxy, whose client waits for room.
        await settle(one, topic, "g", held)
        assert (await waiting).messages
