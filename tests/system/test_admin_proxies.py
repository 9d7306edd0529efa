"""What a server tells of proxies: an embedded one itself, one of a cluster all that live."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import ternmq
from ternmq_common.errors import MessagingError
from ternmq_common.server_settings import ProxySettings
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_proxy.catalog.proxy_heartbeat import LEASE_MS, make_proxy_entry
from ternmq_proxy.fronts.grpc.activities.admin.brokers import list_brokers
from ternmq_proxy.fronts.grpc.activities.admin.proxies import list_proxies
from ternmq_proxy.server_process import ServerProcess
from tests.support.embedded import Embedded
from tests.support.two_proxies import CALL, Cluster, Proxy
from tests.system.conftest import SERVER_LOOP


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    running = Cluster(tmp_path)
    yield running
    running.close()


async def named(cluster: Cluster, name: str, address: str) -> Proxy:
    """A proxy that has told of itself."""
    proxy = await cluster.proxy()
    proxy.process = ServerProcess(kind="proxy", server=name, name=name, settings=ProxySettings())
    proxy.store_host = address
    await proxy.catalog.proxies.report_proxy(make_proxy_entry(proxy.services), LEASE_MS)
    return proxy


async def listed(proxy: Proxy) -> admin_pb2.ListProxiesResponse:
    return await list_proxies(admin_pb2.ListProxiesRequest(), CALL, proxy.services)


@SERVER_LOOP
async def test_a_server_that_is_its_own_broker_tells_of_itself(server: Embedded) -> None:
    async with ternmq.Admin(server.grpc) as admin:
        found = await admin.list_proxies()
        [own], [broker] = found.proxies, await admin.list_brokers()
    assert found.registry_problem == ""
    assert (own.name, own.address, own.processes, own.asked) == (broker.name, server.grpc, 1, True)
    assert own.started is not None
    assert own.load.connections > 0
    assert own.load.problem == ""
    assert (own.lease_end, broker.lease_end) == (None, None)


async def test_each_proxy_of_a_cluster_tells_of_all(cluster: Cluster) -> None:
    first, second = await named(cluster, "p", "10.0.0.1:8081"), await named(cluster, "q", "10.0.0.2:8081")
    for proxy, asked in ((first, [True, False]), (second, [False, True])):
        answer = await listed(proxy)
        assert answer.registry_problem == ""
        assert [(each.name, each.address) for each in answer.proxies] == [
            ("p", "10.0.0.1:8081"),
            ("q", "10.0.0.2:8081"),
        ]
        assert [each.asked for each in answer.proxies] == asked
        assert all(each.lease_end.seconds > 1_700_000_000 for each in answer.proxies)
    await second.catalog.proxies.remove_proxy(make_proxy_entry(second.services).name)
    assert [each.name for each in (await listed(first)).proxies] == ["p"]


async def test_of_itself_a_proxy_tells_what_is_so_now(cluster: Cluster) -> None:
    proxy = await named(cluster, "p", "10.0.0.1:8081")
    proxy.brokers.outage_reason = "no broker can be reached"
    proxy.connections = lambda: 7
    [own] = (await listed(proxy)).proxies
    assert (own.load.problem, own.load.connections) == ("no broker can be reached", 7)


async def test_while_the_registry_is_away_a_proxy_tells_of_itself_and_why(cluster: Cluster) -> None:
    first, _ = await named(cluster, "p", "10.0.0.1:8081"), await named(cluster, "q", "10.0.0.2:8081")
    first.registry.is_out = True
    for _ in range(2):  # before and after the directory has noticed
        answer = await listed(first)
        assert [(each.name, each.asked, each.HasField("lease_end")) for each in answer.proxies] == [("p", True, False)]
        assert answer.registry_problem == "connection refused"
        with pytest.raises(MessagingError):
            await first.catalog.refresh_snapshot()


async def test_leases_of_brokers_and_replicas_are_told_and_are_no_change(cluster: Cluster) -> None:
    epoch = cluster.broker("a")
    proxy = await cluster.proxy()
    changes: list[object] = []
    proxy.directory.on_change(changes.append)

    async def lease_end_ms() -> int:
        await proxy.directory.refresh_snapshot()
        [told] = (await list_brokers(admin_pb2.ListBrokersRequest(), CALL, proxy.services)).brokers
        return told.lease_end.ToMilliseconds()

    first = await lease_end_ms()
    entry = proxy.directory.snapshot.brokers["a"]
    cluster.registry.record_heartbeat("a", epoch, entry.load, 2 * LEASE_MS + 60_000)
    assert await lease_end_ms() > first
    assert replace(proxy.directory.snapshot.brokers["a"], lease_end_ms=0) == replace(entry, lease_end_ms=0)
    assert changes == []
    cluster.stop_broker("a")
    await proxy.directory.refresh_snapshot()
    [told] = (await list_brokers(admin_pb2.ListBrokersRequest(), CALL, proxy.services)).brokers
    assert (told.live, told.HasField("lease_end")) == (False, False)
