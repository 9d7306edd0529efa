"""Every proxy tells of all: who comes, who ends, who is killed, and what is known while the registry is away."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from tests.cluster.watching import eventually
from tests.support.cluster_processes import ClusterProcesses
from tests.support.embedded import RawClient

pytestmark = [pytest.mark.cluster]

# A lease is six seconds; the rest is for a machine that is busy.
WITHIN_S = 60.0

Proxies = Sequence[admin_pb2.Proxy]


async def listed(client: RawClient) -> admin_pb2.ListProxiesResponse:
    answer: admin_pb2.ListProxiesResponse = await client.admin("ListProxies")
    return answer


def names(proxies: Proxies) -> list[str]:
    return [each.name for each in proxies]


async def until(client: RawClient, holds: Callable[[Proxies], bool], what: str) -> admin_pb2.ListProxiesResponse:
    """What is told when that holds of the proxies."""

    async def look() -> admin_pb2.ListProxiesResponse | None:
        answer = await listed(client)
        return answer if holds(answer.proxies) else None

    found = await eventually(look, within_s=WITHIN_S, what=what)
    assert found is not None
    return found


async def until_listed(client: RawClient, *wanted: str) -> admin_pb2.ListProxiesResponse:
    return await until(client, lambda proxies: names(proxies) == list(wanted), f"{', '.join(wanted)} are listed")


async def test_proxies_are_listed_until_they_end_or_their_lease_does(cluster: ClusterProcesses) -> None:
    first, second = cluster.proxies
    async with RawClient(first.grpc) as client:
        answer = await until_listed(client, "proxy-0", "proxy-1")
        assert answer.registry_problem == ""
        assert [each.asked for each in answer.proxies] == [True, False]
        assert [each.address for each in answer.proxies] == [first.grpc, second.grpc]
        assert [each.processes for each in answer.proxies] == [1, 1]
        assert answer.proxies[0].load.connections >= 1
        assert answer.proxies[1].lease_end.seconds >= answer.proxies[1].started.seconds
        second.terminate()
        assert names((await listed(client)).proxies) == ["proxy-0"]  # it has left before its end
        second.start()
        await until_listed(client, "proxy-0", "proxy-1")
        second.kill9()
        await until_listed(client, "proxy-0")
        second.start()


def reader(group: str, topic: str, tag: str) -> pb.Settings:
    entry = {"topic": {"name": topic}, "expression": {"type": pb.TAG, "expression": tag}}
    return pb.Settings(client_type=pb.PUSH_CONSUMER, subscription={"group": {"name": group}, "subscriptions": [entry]})


async def test_members_of_a_group_are_seen_wherever_they_are_connected(
    cluster: ClusterProcesses, clients: list[RawClient]
) -> None:
    here, there = clients
    await here.create_topic("orders")
    await here.create_group("billing")
    for client, tag in ((here, "paid"), (there, "sent")):
        await client.configure(reader("billing", "orders", tag))
    both = sorted([here.client_id, there.client_id])
    for client in (here, there):
        told = await client.admin("DescribeGroup", name="billing")
        assert [member.client_id for member in told.members] == both
        [contradiction] = told.inconsistencies
        assert f"'paid' by {here.client_id}; 'sent' by {there.client_id}" in contradiction
        assert list(told.silent) == []
        found = await client.admin("ListClients", group="billing")
        places = {each.client_id: each.proxy for each in found.clients}
        assert places == {here.client_id: "proxy-0", there.client_id: "proxy-1"}
        assert list(found.silent) == []
    for broker in cluster.brokers:
        broker.kill9()
    alone = await eventually(
        lambda: asked_alone(here), within_s=WITHIN_S, what="the other proxy can't be asked without a broker"
    )
    assert alone is not None
    assert [each.client_id for each in alone.clients] == [here.client_id]
    for broker in cluster.brokers:
        broker.start()


async def asked_alone(client: RawClient) -> admin_pb2.ListClientsResponse | None:
    answer: admin_pb2.ListClientsResponse = await client.admin("ListClients")
    return answer if any("none of the brokers can be reached" in each for each in answer.silent) else None


async def knows_registry(client: RawClient) -> bool:
    return not (await listed(client)).registry_problem


async def test_while_the_registry_is_away_a_proxy_knows_itself(
    cluster: ClusterProcesses, clients: list[RawClient]
) -> None:
    client = clients[0]
    await until_listed(client, "proxy-0", "proxy-1")
    cluster.postgres.kill()
    answer = await until_listed(client, "proxy-0")
    assert answer.registry_problem
    assert answer.proxies[0].asked
    assert not answer.proxies[0].HasField("lease_end")
    cluster.postgres.start()
    for each in clients:  # the row of a proxy may have outlived the outage, and says nothing of what that proxy knows
        await eventually(partial(knows_registry, each), within_s=WITHIN_S, what="a proxy has the registry back")
    await until_listed(client, "proxy-0", "proxy-1")
    for proxy in cluster.proxies:
        assert "lists of proxies" not in proxy.log.read_text()


async def test_proxies_without_a_broker_tell_what_is_amiss(cluster: ClusterProcesses, clients: list[RawClient]) -> None:
    client = clients[0]
    await until_listed(client, "proxy-0", "proxy-1")
    await until(client, lambda proxies: not any(each.load.problem for each in proxies), "nothing is amiss")
    for broker in cluster.brokers:
        broker.kill9()
    await until(client, lambda proxies: all(each.load.problem for each in proxies), "both say so")
    for broker in cluster.brokers:
        broker.start()


async def test_workers_of_a_proxy_are_one_proxy_whoever_is_asked(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, brokers=1, proxies=2, proxy_options=("--workers", "2")) as cluster:
        for place, proxy in enumerate(cluster.proxies):
            async with RawClient(proxy.grpc) as client:
                answer = await until(
                    client, lambda proxies: [each.processes for each in proxies] == [2, 2], "two of two processes"
                )
                assert names(answer.proxies) == ["proxy-0", "proxy-1"]
                assert [each.asked for each in answer.proxies] == [place == 0, place == 1]
