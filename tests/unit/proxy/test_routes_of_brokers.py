"""Routes and assignments where brokers and topics permit different things, and who shares the queues of a group."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from ternmq_common.catalog.cluster import QueuePermission
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import MessagingError
from ternmq_common.shard.model import ConsumerGroup, PullingMember
from ternmq_common.shard.recall_handle import RecallHandle
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_proxy.call import Call
from ternmq_proxy.fronts.grpc.activities.query_route import query_assignment, query_route
from ternmq_proxy.fronts.grpc.activities.recall_message import recall_message
from ternmq_proxy.processors.client_settings import ClientSettings, TopicSubscription
from ternmq_proxy.processors.client_type import ClientType
from tests.support.two_proxies import CALL, Cluster, Proxy

Places = list[tuple[str, int, str]]


class AnyTime:
    """A clock that stands."""

    def now_ms(self) -> int:
        return 0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """With the brokers a, b and c, and the topic `orders` with two queues on each."""
    running = Cluster(tmp_path)
    for name in ("c", "a", "b"):
        running.broker(name)
    running.topic("orders", "a", "b", "c")
    yield running
    running.close()


async def routed(proxy: Proxy, topic: str = "orders") -> Places:
    answer = await query_route(rpc.QueryRouteRequest(topic={"name": topic}), CALL, proxy.services)
    return places(answer.message_queues)


async def assigned(proxy: Proxy, group: str = "g", client_id: str = "client") -> Places:
    request = rpc.QueryAssignmentRequest(topic={"name": "orders"}, group={"name": group})
    answer = await query_assignment(request, Call(client_id=client_id), proxy.services)
    return places([assignment.message_queue for assignment in answer.assignments])


def places(queues: Iterable[pb.MessageQueue]) -> Places:
    return [(queue.broker.name, queue.id, pb.Permission.Name(queue.permission)) for queue in queues]


def on(*brokers: str, queues: tuple[int, ...] = (0, 1), permission: str = "READ_WRITE") -> Places:
    return [(broker, queue_id, permission) for broker in brokers for queue_id in queues]


async def test_a_topic_that_is_not_there_has_the_route_that_its_first_message_would_give_it(cluster: Cluster) -> None:
    cluster.registry.set_broker("b", draining=True)
    proxy = await cluster.proxy()
    assert await routed(proxy, "new") == on("a", "c")
    assert [topic.name for topic in cluster.registry.list_topics()] == ["orders"]
    made = await proxy.catalog.ensure_topic("new", MessageType.DELAY)
    assert (made.type, made.brokers) == (MessageType.DELAY, ("a", "c"))
    assert await routed(await cluster.proxy(), "new") == on("a", "c")


async def test_without_a_broker_and_where_nothing_is_made_by_itself_there_is_no_such_route(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.raises(MessagingError, match="TOPIC_NOT_FOUND"):
        await routed(await cluster.proxy(auto_create=False), "new")
    empty = Cluster(tmp_path_factory.mktemp("empty"))
    with pytest.raises(MessagingError, match="HA_NOT_AVAILABLE: no broker is there"):
        await routed(await empty.proxy(), "new")
    empty.close()


async def test_a_route_has_the_queues_of_all_brokers_that_are_there(cluster: Cluster) -> None:
    assert await routed(await cluster.proxy()) == on("a", "b", "c")
    cluster.stop_broker("b")
    assert await routed(await cluster.proxy()) == on("a", "c")


async def test_each_queue_is_permitted_what_topic_and_broker_permit(cluster: Cluster) -> None:
    cluster.registry.set_broker("a", permission=QueuePermission.READ)
    cluster.registry.set_broker("b", permission=QueuePermission.WRITE)
    expected = [*on("a", permission="READ"), *on("b", permission="WRITE"), *on("c")]
    assert await routed(await cluster.proxy()) == expected
    cluster.registry.set_broker("c", draining=True)
    cluster.registry.set_broker("b", permission=QueuePermission.NONE)
    assert await routed(await cluster.proxy()) == on("a", "c", permission="READ")


@pytest.mark.parametrize(("permission", "shown"), [(QueuePermission.READ, "READ"), (QueuePermission.WRITE, "WRITE")])
async def test_a_topics_own_permission_holds_on_all_brokers(
    cluster: Cluster, permission: QueuePermission, shown: str
) -> None:
    cluster.topic("half", "a", "b", permission=permission)
    assert await routed(await cluster.proxy(), "half") == on("a", "b", permission=shown)


async def test_no_queue_at_all_is_an_error_that_says_why(cluster: Cluster) -> None:
    cluster.topic("closed", "a", permission=QueuePermission.NONE)
    cluster.stop_broker("a")
    cluster.topic("away", "a")
    proxy = await cluster.proxy()
    with pytest.raises(MessagingError, match=r"FORBIDDEN: .* its permission is none"):
        await routed(proxy, "closed")
    with pytest.raises(MessagingError, match="HA_NOT_AVAILABLE: no broker of topic 'away' can be read now: a"):
        await routed(proxy, "away")


async def test_consumers_are_sent_to_the_brokers_that_can_be_read(cluster: Cluster) -> None:
    cluster.registry.set_broker("a", permission=QueuePermission.WRITE)
    cluster.registry.set_broker("b", draining=True)
    proxy = await cluster.proxy()
    assert await assigned(proxy) == [("b", -1, "READ"), ("c", -1, "READ_WRITE")]
    cluster.registry.create_group(ConsumerGroup(name="ordered", fifo=True))
    await proxy.catalog.refresh_snapshot()
    assert await assigned(proxy, "ordered") == [*on("b", permission="READ"), *on("c")]


async def test_a_topic_that_can_not_be_read_is_assigned_to_nobody(cluster: Cluster) -> None:
    proxy = await cluster.proxy()
    for name in ("a", "b", "c"):
        cluster.stop_broker(name)
    await proxy.catalog.refresh_snapshot()
    with pytest.raises(MessagingError, match="HA_NOT_AVAILABLE"):
        await assigned(proxy)


async def test_members_at_all_proxies_share_the_queues_of_all_brokers(cluster: Cluster) -> None:
    proxy = await cluster.proxy()
    settings = ClientSettings(
        client_type=ClientType.PULL_CONSUMER,
        consumes=True,
        group="g",
        subscriptions=(TopicSubscription("orders"),),
    )
    proxy.clients.take_settings("m1", settings)
    assert await assigned(proxy, client_id="m1") == on("a", "b", "c")
    proxy.brokers.elsewhere = ["m0", "m2"]
    assert await assigned(proxy, client_id="m1") == on("b")
    assert proxy.brokers.announced == [[PullingMember("g", "m1", ("orders",))]]


async def test_a_timed_message_is_recalled_from_any_broker_of_its_topic(cluster: Cluster) -> None:
    cluster.topic("reminders", "a", "b", type=pb.DELAY)
    cluster.stop_broker("a")
    proxy = await cluster.proxy()
    proxy.clock = AnyTime()

    async def recall(broker: str) -> None:
        handle = RecallHandle("reminders", broker, 1000, f"on-{broker}").encode_handle(proxy.handles.keys)
        request = rpc.RecallMessageRequest(topic={"name": "reminders"}, recall_handle=handle)
        await recall_message(request, CALL, proxy.services)

    await recall("a")  # the service says that it is away, if it is
    await recall("b")
    assert proxy.brokers.recalled == ["on-a", "on-b"]
    with pytest.raises(MessagingError, match="BAD_REQUEST: the recall handle names broker 'c'"):
        await recall("c")


async def test_a_message_of_a_topic_that_another_proxy_has_just_made_can_be_recalled(cluster: Cluster) -> None:
    proxy = await cluster.proxy(auto_create=False)
    proxy.clock = AnyTime()
    cluster.topic("reminders", "a", type=pb.DELAY)
    handle = RecallHandle("reminders", "a", 1000, "id").encode_handle(proxy.handles.keys)
    request = rpc.RecallMessageRequest(topic={"name": "reminders"}, recall_handle=handle)
    assert (await recall_message(request, CALL, proxy.services)).message_id == "id"
