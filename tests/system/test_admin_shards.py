"""Replicas as operators see and change them by the admin service, in the proxies of a cluster."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from ternmq_common.catalog.cluster import BrokerLoad, ReplicationMode
from ternmq_common.errors import MessagingError
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_proxy.fronts.grpc.activities.admin import brokers as admin_brokers
from ternmq_proxy.fronts.grpc.activities.admin import shards as admin_shards
from ternmq_proxy.fronts.grpc.activities.admin import topics as admin_topics
from ternmq_proxy.operations.admin.servers.server_status import describe_cluster_broker
from ternmq_registry.members.shards import JoiningReplica
from tests.support.two_proxies import CALL, LEASE_MS, Cluster, Proxy


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """With a broker `plain`, and a shard `s` that `a` leads; `b` is in sync, `c` is not."""
    running = Cluster(tmp_path)
    running.broker("plain")
    for name in "abc":
        replica = JoiningReplica(store_id=f"store-{name}", name=name, address=f"{name}:10911", version="1.0")
        running.registry.join_shard("s", replica, LEASE_MS, replicas=3, min_insync=0, replication=ReplicationMode.ASYNC)
    lead(running, "a")
    for name, position in (("a", 1000), ("b", 900), ("c", 300)):
        running.registry.heartbeat_replica("s", f"store-{name}", position, LEASE_MS)
    yield running
    running.close()


def lead(cluster: Cluster, name: str) -> None:
    epoch = cluster.registry.take_leadership(
        "s", f"store-{name}", 0, LEASE_MS, min_insync=0, replication=ReplicationMode.ASYNC
    )
    assert epoch is not None
    synced = frozenset({"store-a", "store-b"})
    known = frozenset(each.store_id for each in cluster.registry.read_brokers()[1]["s"].replicas if each.in_sync)
    assert cluster.registry.set_in_sync("s", epoch, known, synced | {f"store-{name}"})


async def listed(proxy: Proxy) -> admin_pb2.Broker:
    answer = await admin_brokers.list_brokers(admin_pb2.ListBrokersRequest(), CALL, proxy.services)
    return next(broker for broker in answer.brokers if broker.name == "s")


async def move(proxy: Proxy, replica: str, broker: str = "s") -> admin_pb2.Broker:
    request = admin_pb2.MoveLeaderRequest(broker=broker, replica=replica)
    return (await admin_shards.move_leader(request, CALL, proxy.services)).broker


async def elect(proxy: Proxy, replica: str) -> admin_pb2.ElectReplicaResponse:
    request = admin_pb2.ElectReplicaRequest(broker="s", replica=replica)
    return await admin_shards.elect_replica(request, CALL, proxy.services)


async def add(proxy: Proxy, broker: str = "s") -> admin_pb2.Broker:
    request = admin_pb2.AddReplicaRequest(broker=broker)
    return (await admin_shards.add_replica(request, CALL, proxy.services)).broker


async def remove(proxy: Proxy, replica: str) -> admin_pb2.Broker:
    request = admin_pb2.RemoveReplicaRequest(broker="s", replica=replica)
    return (await admin_shards.remove_replica(request, CALL, proxy.services)).broker


async def test_brokers_are_listed_with_their_replicas(cluster: Cluster) -> None:
    proxy = await cluster.proxy()
    shard = await listed(proxy)
    assert (shard.replicas_wanted, shard.min_insync, shard.replication) == (3, 2, admin_pb2.REPLICATION_ASYNC)
    told = [(each.name, each.leader, each.in_sync, each.live, each.position) for each in shard.replicas]
    assert told == [("a", True, True, True, 1000), ("b", False, True, True, 900), ("c", False, False, True, 300)]
    first = shard.replicas[0]
    assert (first.store_id, first.address, first.version) == ("store-a", "a:10911", "1.0")
    assert first.started.seconds > 1_700_000_000
    answer = await admin_brokers.list_brokers(admin_pb2.ListBrokersRequest(), CALL, proxy.services)
    assert [len(broker.replicas) for broker in answer.brokers] == [0, 3]


async def test_the_leader_is_asked_to_hand_over_and_every_proxy_sees_both(cluster: Cluster) -> None:
    proxy, other = await cluster.proxy(), await cluster.proxy()
    asked = await move(proxy, "b")
    assert asked.move_to == "b"
    assert cluster.registry.hand_over("s", asked.epoch, "store-b", LEASE_MS)
    await other.catalog.refresh_snapshot()
    shard = await listed(other)
    assert ([each.name for each in shard.replicas if each.leader], shard.move_to, shard.address) == (
        ["b"],
        "",
        "b:10911",
    )


async def test_what_can_not_be_done_is_refused_with_the_reason(cluster: Cluster) -> None:
    proxy = await cluster.proxy()
    for replica, broker, reason in (
        ("a", "s", "BAD_REQUEST: replica 'a' of broker 's' leads already"),
        ("c", "s", "BAD_REQUEST: replica 'c' of broker 's' is not in sync"),
        ("d", "s", "NOT_FOUND: broker 's' has no replica 'd'"),
        ("a", "nobody", "NOT_FOUND: there is no broker 'nobody'"),
        ("a", "plain", "BAD_REQUEST: broker 'plain' has no replicas"),
    ):
        with pytest.raises(MessagingError, match=reason):
            await move(proxy, replica, broker)
    with pytest.raises(MessagingError, match="BAD_REQUEST: the leader of broker 's' is live"):
        await elect(proxy, "c")
    with pytest.raises(MessagingError, match="BAD_REQUEST: broker 'plain' has no replicas"):
        await add(proxy, "plain")
    with pytest.raises(MessagingError, match="BAD_REQUEST: replica 'a' leads broker 's'"):
        await remove(proxy, "a")


async def test_an_election_tells_what_is_lost_and_is_in_the_log(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    proxy = await cluster.proxy()
    cluster.stop_broker("s")
    with caplog.at_level(logging.INFO, "ternmq_proxy.catalog.change_log"):
        answer = await elect(proxy, "c")
    assert (answer.lost_bytes, answer.elected.name) == (700, "c")
    assert [(each.name, each.position) for each in answer.in_sync] == [("a", 1000), ("b", 900)]
    assert [each.name for each in answer.broker.replicas if each.leader and each.in_sync] == ["c"]
    assert "replica c of broker s was elected, though not in sync (700 bytes or more are lost), by" in caplog.text


async def test_replicas_are_added_and_removed(cluster: Cluster) -> None:
    proxy, other = await cluster.proxy(), await cluster.proxy()
    assert (await add(proxy)).replicas_wanted == 4
    removed = await remove(other, "c")
    assert ([each.name for each in removed.replicas], removed.replicas_wanted) == (["a", "b"], 3)
    await remove_broker(proxy, force=True)
    assert [broker.name for broker in proxy.catalog.list_brokers()] == ["plain"]


async def remove_broker(proxy: Proxy, *, force: bool = False) -> None:
    request = admin_pb2.RemoveBrokerRequest(name="s", force=force)
    await admin_brokers.remove_broker(request, CALL, proxy.services)


async def test_a_shard_without_a_leader_is_at_work_while_a_replica_is(cluster: Cluster) -> None:
    proxy = await cluster.proxy()
    cluster.stop_broker("s")
    with pytest.raises(MessagingError, match="BAD_REQUEST: broker 's' is at work; drain it first"):
        await remove_broker(proxy)
    for name in "abc":
        cluster.registry.leave_shard("s", f"store-{name}")
    with pytest.raises(MessagingError, match="BAD_REQUEST: broker 's' is away and was not drained"):
        await remove_broker(proxy)
    cluster.registry.set_broker("s", draining=True)
    cluster.registry.report_load("s", cluster.registry.read_brokers()[1]["s"].epoch, BrokerLoad(unfinished=0, timers=0))
    await remove_broker(proxy)
    assert [broker.name for broker in proxy.catalog.list_brokers()] == ["plain"]


async def test_the_status_says_how_many_are_in_sync(cluster: Cluster) -> None:
    proxy = await cluster.proxy()
    shard = next(broker for broker in proxy.catalog.list_brokers() if broker.name == "s")
    told = describe_cluster_broker(shard)
    assert (told.is_well, told.remark) == (True, "2 of 3 replicas are in sync, and 2 needed")
    lead(cluster, "a")
    epoch = cluster.registry.read_brokers()[1]["s"].epoch
    all_of_them = frozenset({"store-a", "store-b", "store-c"})
    assert cluster.registry.set_in_sync("s", epoch, all_of_them - {"store-c"}, all_of_them)
    await proxy.catalog.refresh_snapshot()
    shard = next(broker for broker in proxy.catalog.list_brokers() if broker.name == "s")
    assert describe_cluster_broker(shard).remark == ""


async def test_a_topic_with_an_unknown_replication_is_refused(cluster: Cluster) -> None:
    proxy = await cluster.proxy()
    request = admin_pb2.CreateTopicRequest(topic=admin_pb2.Topic(name="t", type=pb.NORMAL, replication=9))  # type: ignore[arg-type]
    with pytest.raises(MessagingError, match="BAD_REQUEST: replication 9 is unknown"):
        await admin_topics.create_topic(request, CALL, proxy.services)
    assert cluster.registry.list_topics() == []
