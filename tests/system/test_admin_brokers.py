"""Topics on brokers, and the brokers themselves, as operators change them; and what the embedded stack says."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ternmq_common.catalog.cluster import BrokerLoad, GroupBacklog, QueuePermission, UnfinishedWork
from ternmq_common.errors import MessagingError
from ternmq_common.shard.model import ConsumerGroup, QueueRef
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_proxy.fronts.grpc.activities.admin import brokers as admin_brokers
from ternmq_proxy.fronts.grpc.activities.admin import groups as admin_groups
from ternmq_proxy.fronts.grpc.activities.admin import messages as admin_messages
from ternmq_proxy.fronts.grpc.activities.admin import topics as admin_topics
from tests.support.embedded import RawClient, code
from tests.support.two_proxies import CALL, LEASE_MS, Cluster, Proxy
from tests.system.conftest import SERVER_LOOP


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """With the brokers a and b, and the topic `orders` with two queues on both."""
    running = Cluster(tmp_path)
    for name in ("a", "b"):
        running.broker(name)
    running.topic("orders", "a", "b")
    yield running
    running.close()


async def create(proxy: Proxy, **fields: object) -> bool:
    request = admin_pb2.CreateTopicRequest(topic=admin_pb2.Topic(**fields))  # type: ignore[arg-type]
    return (await admin_topics.create_topic(request, CALL, proxy.services)).created


async def update(proxy: Proxy, **fields: object) -> admin_pb2.Topic:
    request = admin_pb2.UpdateTopicRequest(**{"name": "orders", **fields})  # type: ignore[arg-type]
    return (await admin_topics.update_topic(request, CALL, proxy.services)).topic


async def change(proxy: Proxy, name: str, **fields: object) -> admin_pb2.Broker:
    request = admin_pb2.UpdateBrokerRequest(name=name, **fields)  # type: ignore[arg-type]
    return (await admin_brokers.update_broker(request, CALL, proxy.services)).broker


async def removed(proxy: Proxy, name: str, *, force: bool = False) -> admin_pb2.RemoveBrokerResponse:
    request = admin_pb2.RemoveBrokerRequest(name=name, force=force)
    return await admin_brokers.remove_broker(request, CALL, proxy.services)


async def remove(proxy: Proxy, name: str, *, force: bool = False) -> None:
    await removed(proxy, name, force=force)


# --- topics


async def test_a_topic_is_made_on_the_brokers_that_are_named_or_on_all(cluster: Cluster) -> None:
    proxy = await cluster.proxy()
    assert await create(proxy, name="one", brokers=["b"], permission=pb.READ)
    assert await create(proxy, name="all")
    assert proxy.catalog.find_topic("one").brokers == ("b",)
    assert proxy.catalog.find_topic("one").permission is QueuePermission.READ
    assert proxy.catalog.find_topic("all").brokers == ("a", "b")


async def test_making_a_topic_again_is_fine_wherever_it_is_unless_another_place_is_asked_for(cluster: Cluster) -> None:
    proxy = await cluster.proxy()
    await create(proxy, name="one", brokers=["b"])
    for brokers in ([], ["b"]):
        assert not await create(proxy, name="one", brokers=brokers)
    with pytest.raises(MessagingError, match="BAD_REQUEST: topic 'one' exists with permission read-write on b"):
        await create(proxy, name="one", brokers=["a"])
    with pytest.raises(MessagingError, match="BAD_REQUEST: topic 'one' exists with permission"):
        await create(proxy, name="one", permission=pb.READ)
    await update(proxy, name="one", permission=pb.READ, added_brokers=["a"])
    for fields in ({}, {"permission": pb.READ}, {"brokers": ["b", "a"]}):
        assert not await create(proxy, name="one", **fields)


@pytest.mark.parametrize("brokers", [["c"], ["a", "c"]])
async def test_a_topic_is_not_made_on_a_broker_that_is_not_there_or_takes_nothing_new(
    cluster: Cluster, brokers: list[str]
) -> None:
    proxy = await cluster.proxy()
    with pytest.raises(MessagingError, match="NOT_FOUND: broker 'c' does not exist"):
        await create(proxy, name="one", brokers=brokers)
    cluster.broker("c")
    cluster.registry.set_broker("c", draining=True)
    proxy.seconds.now_s += 1
    with pytest.raises(MessagingError, match="BAD_REQUEST: broker 'c' is draining"):
        await create(proxy, name="one", brokers=brokers)


async def test_queues_are_added_and_never_taken_away(cluster: Cluster) -> None:
    proxy, other = await cluster.proxy(), await cluster.proxy()
    assert (await update(proxy, queues=6)).queues == 6
    with pytest.raises(MessagingError, match=r"BAD_REQUEST: .* has 6 queues on each broker; .* never taken away"):
        await update(other, queues=4)
    with pytest.raises(MessagingError, match="BAD_REQUEST: 1025 queues were requested; 1 to 1024 are allowed"):
        await update(other, queues=1025)


async def test_what_is_not_asked_for_stays_as_another_proxy_has_made_it(cluster: Cluster) -> None:
    proxy, other = await cluster.proxy(), await cluster.proxy()
    await update(proxy, queues=6)
    updated = await update(other, permission=pb.READ)
    assert (updated.queues, updated.permission, list(updated.brokers)) == (6, pb.READ, ["a", "b"])


@pytest.mark.parametrize("way", ["draining", "read-only"])
async def test_a_topic_is_moved_off_a_broker_that_nobody_sends_to(cluster: Cluster, way: str) -> None:
    proxy = await cluster.proxy()
    cluster.broker("c")
    assert list((await update(proxy, added_brokers=["c"])).brokers) == ["a", "b", "c"]
    with pytest.raises(MessagingError, match="BAD_REQUEST: messages of topic 'orders' are being sent to broker 'a'"):
        await update(proxy, removed_brokers=["a"])
    if way == "draining":
        await change(proxy, "a", draining=True)
        moved = await update(proxy, removed_brokers=["a"])
    else:
        moved = await update(proxy, removed_brokers=["a"], permission=pb.READ)
    assert list(moved.brokers) == ["b", "c"]


async def test_a_topic_stays_on_some_broker(cluster: Cluster) -> None:
    proxy = await cluster.proxy()
    await update(proxy, permission=pb.READ)
    with pytest.raises(MessagingError, match="BAD_REQUEST: topic 'orders' would be on no broker"):
        await update(proxy, removed_brokers=["a", "b"])
    with pytest.raises(MessagingError, match="BAD_REQUEST: topic 'orders' is not on broker 'c'"):
        await update(proxy, removed_brokers=["c"])


async def test_a_topic_of_a_group_or_one_that_is_not_there_can_not_be_changed(cluster: Cluster) -> None:
    proxy = await cluster.proxy()
    with pytest.raises(MessagingError, match="ILLEGAL_TOPIC"):
        await update(proxy, name="%DLQ%g", queues=4)
    with pytest.raises(MessagingError, match="TOPIC_NOT_FOUND"):
        await update(proxy, name="others", queues=4)


async def test_a_topic_is_described_although_a_broker_of_it_is_silent(cluster: Cluster) -> None:
    proxy = await cluster.proxy()
    proxy.brokers.silent = {"a"}
    request = admin_pb2.DescribeTopicRequest(name="orders")
    answer = await admin_topics.describe_topic(request, CALL, proxy.services)
    assert [(queue.broker, queue.queue_id, queue.max_offset) for queue in answer.queues] == [("b", 0, 10), ("b", 1, 10)]
    assert list(answer.silent_brokers) == ["a"]
    assert list(answer.topic.brokers) == ["a", "b"]


async def test_what_is_deleted_is_forgotten_with_the_version_of_the_deletion(cluster: Cluster) -> None:
    proxy = await cluster.proxy()
    cluster.registry.create_group(ConsumerGroup(name="g"))
    await admin_topics.delete_topic(admin_pb2.DeleteTopicRequest(name="orders"), CALL, proxy.services)
    await admin_groups.delete_group(admin_pb2.DeleteGroupRequest(name="g"), CALL, proxy.services)
    deletions = [(each.name, each.version) for each in cluster.registry.list_deletions(0)]
    assert proxy.brokers.forgotten == deletions == [("orders", deletions[0][1]), ("g", deletions[1][1])]


async def test_a_topic_is_purged_on_all_brokers_or_on_none(cluster: Cluster) -> None:
    proxy = await cluster.proxy()
    request = admin_pb2.PurgeTopicRequest(name="orders")
    proxy.brokers.silent = {"b"}
    with pytest.raises(MessagingError, match="HA_NOT_AVAILABLE"):
        await admin_topics.purge_topic(request, CALL, proxy.services)
    assert proxy.brokers.purged == {}
    proxy.brokers.silent = set()
    queues = (await admin_topics.purge_topic(request, CALL, proxy.services)).queues
    places = [(broker, queue_id) for broker in ("a", "b") for queue_id in (0, 1)]
    assert [(each.broker, each.queue_id, each.first, each.after) for each in queues] == [
        (*each, 0, 10) for each in places
    ]
    assert proxy.brokers.purged == {QueueRef("orders", *place): (10, True) for place in places}


# --- offsets and dead letters


async def test_a_group_moves_on_all_brokers_or_on_none(cluster: Cluster) -> None:
    proxy = await cluster.proxy()
    cluster.registry.create_group(ConsumerGroup(name="g"))
    request = admin_pb2.ResetOffsetsRequest(group="g", topic="orders", offset=7)
    proxy.brokers.silent = {"b"}
    with pytest.raises(MessagingError, match="HA_NOT_AVAILABLE"):
        await admin_messages.reset_offsets(request, CALL, proxy.services)
    assert proxy.brokers.committed_offsets == {}
    proxy.brokers.silent = set()
    moves = (await admin_messages.reset_offsets(request, CALL, proxy.services)).moves
    assert [(move.broker, move.queue_id, move.before, move.after) for move in moves] == [
        (broker, queue_id, -1, 7) for broker in ("a", "b") for queue_id in (0, 1)
    ]
    assert proxy.brokers.committed_offsets == {
        QueueRef("orders", broker, queue_id): 7 for broker in ("a", "b") for queue_id in (0, 1)
    }


async def test_dead_letters_are_named_by_broker_and_offset(cluster: Cluster) -> None:
    proxy = await cluster.proxy()
    cluster.registry.create_group(ConsumerGroup(name="g"))

    async def resend(broker: str) -> list[int]:
        request = admin_pb2.ResendDeadLettersRequest(group="g", offsets=[3], broker=broker)
        answer = await admin_messages.resend_dead_letters(request, CALL, proxy.services)
        return [letter.status.code for letter in answer.letters]

    assert await resend("b") == [pb.MESSAGE_NOT_FOUND]
    assert proxy.brokers.letters_asked == [("g", "b", [3])]
    with pytest.raises(MessagingError, match=r"BAD_REQUEST: the request names no broker: .* one of the brokers a, b"):
        await resend("")
    with pytest.raises(MessagingError, match="BAD_REQUEST: broker 'c' has no part of it"):
        await resend("c")
    await remove(proxy, "a", force=True)
    assert await resend("") == [pb.MESSAGE_NOT_FOUND]
    assert proxy.brokers.letters_asked[1:] == [("g", "b", [3])]


# --- brokers


async def test_brokers_are_listed_with_all_that_is_known(cluster: Cluster) -> None:
    epoch = cluster.broker("c")
    cluster.registry.record_heartbeat(
        "c", epoch, BrokerLoad(messages_in=2.5, proxies=2, transactions=7, disk_used=0.5), LEASE_MS
    )
    cluster.stop_broker("b")
    proxy = await cluster.proxy()
    listed = (await admin_brokers.list_brokers(admin_pb2.ListBrokersRequest(), CALL, proxy.services)).brokers
    assert [(broker.name, broker.live) for broker in listed] == [("a", True), ("b", False), ("c", True)]
    last = listed[2]
    assert (last.address, last.permission, last.draining, last.epoch) == ("c:10911", pb.READ_WRITE, False, epoch)
    assert (last.version, last.load.messages_in, last.load.proxies, last.load.transactions) == ("1.0", 2.5, 2, 7)
    assert last.load.disk_used == 0.5
    assert last.started.seconds > 1_700_000_000


async def test_a_broker_is_changed_for_all_proxies(cluster: Cluster) -> None:
    proxy, other = await cluster.proxy(), await cluster.proxy()
    assert (await change(proxy, "a", draining=True)).draining
    changed = await change(other, "a", permission=pb.READ)
    assert (changed.draining, changed.permission) == (True, pb.READ)
    assert not (await change(proxy, "a", draining=False)).draining
    with pytest.raises(MessagingError, match="NOT_FOUND"):
        await change(proxy, "c", draining=True)
    with pytest.raises(MessagingError, match="BAD_REQUEST: nothing to change"):
        await change(proxy, "a")
    with pytest.raises(MessagingError, match="BAD_REQUEST: permission 9 is unknown"):
        await change(proxy, "a", permission=9)


async def test_a_broker_at_work_is_removed_when_it_is_drained_and_empty(cluster: Cluster) -> None:
    proxy = await cluster.proxy()
    with pytest.raises(MessagingError, match="BAD_REQUEST: broker 'a' is at work; drain it first"):
        await remove(proxy, "a")
    await change(proxy, "a", draining=True)
    for remains in (
        UnfinishedWork([GroupBacklog("g", "orders", 3)], 0, 0),
        UnfinishedWork([], 1, 0),
        UnfinishedWork([], 0, 1),
    ):
        proxy.brokers.remains = remains
        with pytest.raises(MessagingError, match="BAD_REQUEST: broker 'a' still has"):
            await remove(proxy, "a")
    proxy.brokers.remains = UnfinishedWork([], 0, 0)
    await remove(proxy, "a")
    assert [broker.name for broker in proxy.catalog.list_brokers()] == ["b"]
    assert proxy.catalog.find_topic("orders").brokers == ("b",)


COUNTED = ("messages", "unfinished", "timers")
EMPTY = BrokerLoad(messages=9, unfinished=0, timers=0)
LOSS = "its queues of 1 topic .orders."


@pytest.mark.parametrize("draining", [False, True])
@pytest.mark.parametrize(
    ("told", "loss"),
    [
        (BrokerLoad(), f"{LOSS}, with unknown numbers of messages, .*: it never reported any"),
        (BrokerLoad(messages=8, unfinished=2, timers=0),
         f"{LOSS}; by its last report, 8 messages in them, of which groups have 2 to finish, 0 timed messages and 0"),
        (BrokerLoad(messages=0, unfinished=0, timers=1), " 0 messages .*, 1 timed message and 0 open transactions"),
        (BrokerLoad(messages=0, unfinished=0, timers=0, transactions=1), " and 1 open transaction"),
    ],
)  # fmt: skip
async def test_a_broker_that_is_away_and_not_known_to_be_empty_is_removed_by_force_alone(
    cluster: Cluster, told: BrokerLoad, loss: str, draining: bool
) -> None:
    proxy = await cluster.proxy()
    await away(cluster, proxy, told, draining=draining)
    with pytest.raises(
        MessagingError, match=f"BAD_REQUEST: broker 'a' is away and was not drained.* --force, .*{loss}"
    ):
        await remove(proxy, "a")
    answer = await removed(proxy, "a", force=True)
    assert list(answer.topics) == ["orders"]
    assert answer.lost.transactions == told.transactions
    assert [answer.lost.HasField(name) for name in COUNTED] == [told.messages is not None] * 3


async def test_a_broker_that_is_away_and_told_that_it_is_drained_is_removed(cluster: Cluster) -> None:
    proxy = await cluster.proxy()
    await away(cluster, proxy, EMPTY, draining=True)
    answer = await removed(proxy, "a")
    assert (list(answer.topics), answer.HasField("lost")) == (["orders"], False)


async def test_a_broker_that_was_empty_and_not_draining_may_have_got_something_since(cluster: Cluster) -> None:
    proxy = await cluster.proxy()
    await away(cluster, proxy, EMPTY, draining=False)
    with pytest.raises(MessagingError, match="BAD_REQUEST: broker 'a' is away and was not drained: start it again"):
        await remove(proxy, "a")


async def away(cluster: Cluster, proxy: Proxy, told: BrokerLoad, *, draining: bool) -> None:
    """Broker a has told that, and ended."""
    await change(proxy, "a", draining=draining)
    epoch = cluster.registry.read_brokers()[1]["a"].epoch
    cluster.registry.record_heartbeat("a", epoch, told, LEASE_MS)
    cluster.stop_broker("a")


async def test_a_broker_that_is_gone_is_removed_but_not_the_last_one_of_a_topic(cluster: Cluster) -> None:
    proxy = await cluster.proxy()
    cluster.topic("only", "a")
    await away(cluster, proxy, EMPTY, draining=True)
    with pytest.raises(MessagingError, match="BAD_REQUEST: broker 'a' is the only one with"):
        await remove(proxy, "a")
    await remove(proxy, "a", force=True)
    with pytest.raises(MessagingError, match="NOT_FOUND"):
        await remove(proxy, "a")


async def test_force_removes_a_broker_whatever_it_has_and_asks_it_nothing(cluster: Cluster) -> None:
    proxy = await cluster.proxy()
    proxy.brokers.silent = {"a"}
    await remove(proxy, "a", force=True)
    assert [broker.name for broker in proxy.catalog.list_brokers()] == ["b"]


async def test_what_remains_on_a_broker_is_told(cluster: Cluster) -> None:
    proxy = await cluster.proxy()
    proxy.brokers.remains = UnfinishedWork([GroupBacklog("g", "orders", 3)], 4, 5)
    request = admin_pb2.BrokerRemainingRequest(name="a")
    answer = await admin_brokers.broker_remaining(request, CALL, proxy.services)
    [backlog] = answer.backlogs
    assert (backlog.group, backlog.topic, backlog.messages) == ("g", "orders", 3)
    assert (answer.timers, answer.transactions) == (4, 5)


# --- embedded


@SERVER_LOOP
async def test_the_embedded_stack_lists_its_one_broker(client: RawClient) -> None:
    [broker] = (await client.admin("ListBrokers")).brokers
    assert (broker.name, broker.live, broker.permission, broker.draining) == ("broker-0", True, pb.READ_WRITE, False)


@SERVER_LOOP
@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("UpdateBroker", admin_pb2.UpdateBrokerRequest(name="broker-0", draining=True)),
        ("RemoveBroker", admin_pb2.RemoveBrokerRequest(name="broker-0", force=True)),
        ("CreateTopic", admin_pb2.CreateTopicRequest(topic={"name": "placed", "brokers": ["broker-0"]})),
        ("MoveLeader", admin_pb2.MoveLeaderRequest(broker="broker-0", replica="a")),
        ("ElectReplica", admin_pb2.ElectReplicaRequest(broker="broker-0", replica="a")),
        ("AddReplica", admin_pb2.AddReplicaRequest(broker="broker-0")),
        ("RemoveReplica", admin_pb2.RemoveReplicaRequest(broker="broker-0", replica="a")),
    ],
)
async def test_the_embedded_stacks_broker_can_not_be_changed(client: RawClient, name: str, request_: object) -> None:
    answer = await client.admin(name, request_)
    assert code(answer) == "BAD_REQUEST"
    assert "this server is its own and only broker" in answer.status.message
    assert ("only broker, without replicas" in answer.status.message) == name.endswith(("Leader", "Replica"))


@SERVER_LOOP
@pytest.mark.parametrize("fields", [{"added_brokers": ["broker-1"]}, {"removed_brokers": ["broker-0"]}])
async def test_topics_of_the_embedded_stack_can_not_be_moved(
    client: RawClient, topic: str, fields: dict[str, list[str]]
) -> None:
    answer = await client.admin("UpdateTopic", name=topic, **fields)
    assert code(answer) == "BAD_REQUEST"
    assert "this server is its own and only broker" in answer.status.message


@SERVER_LOOP
async def test_what_remains_on_the_embedded_broker_is_told_too(client: RawClient, topic: str, group: str) -> None:
    await client.send(topic, b"1", b"2")
    await client.receive(topic, group, batch_size=1)
    answer = await client.admin("BrokerRemaining", name="broker-0")
    assert code(answer) == "OK"
    assert (group, topic, 2) in [(each.group, each.topic, each.messages) for each in answer.backlogs]
    assert code(await client.admin("BrokerRemaining", name="broker-7")) == "NOT_FOUND"
