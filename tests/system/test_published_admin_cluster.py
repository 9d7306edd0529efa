"""The published admin service at a proxy of a cluster: topics are on several brokers, and each is asked."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import MessagingError
from ternmq_common.server_settings import ProxySettings
from ternmq_common.shard.model import ConsumerGroup, Topic
from ternmq_protos.v2 import admin_pb2 as published
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_proxy.call import Call
from ternmq_proxy.catalog.catalog import Catalog
from ternmq_proxy.fronts.grpc.activities.published_admin import message_query, offsets, sending, time_span, topics
from ternmq_proxy.fronts.grpc.activities.published_admin.accumulation import describe_group_accumulation
from ternmq_proxy.server.serving import make_services
from tests.support.cluster import InProcessCluster, running

ORDERS, BILLING = {"name": "orders"}, {"name": "billing"}
CALL = Call(peer="127.0.0.1:1")
NAMES = ("broker-0", "broker-1")


@dataclass(frozen=True, slots=True)
class Proxy:
    """Of a cluster of two brokers, with the topic `orders` of two queues on each, and the group `billing`."""

    services: Any
    cluster: InProcessCluster

    async def send(self, *bodies: bytes) -> None:
        for body in bodies:
            request = published.AdminSendMessageRequest(topic=ORDERS, body=body, key="k")
            answer = await sending.admin_send_message(request, CALL, self.services)
            assert answer.status.code == pb.OK, answer.status.message

    async def found(self, **fields: Any) -> published.ListMessageResponse:  # noqa: ANN401
        request = published.ListMessageRequest(topic=ORDERS, **fields)
        return await message_query.query_message(request, CALL, self.services)


@pytest.fixture
async def proxy(tmp_path: Path) -> AsyncIterator[Proxy]:
    async with running(tmp_path, brokers=2) as cluster:
        registry = cluster.proxy_directory.registry
        registry.create_topic(Topic(name="orders", type=MessageType.NORMAL, queues=2, brokers=NAMES))
        registry.create_group(ConsumerGroup(name="billing"))
        await cluster.proxy_directory.refresh_snapshot()
        for node in cluster.nodes:
            await node.directory.refresh_snapshot()
        catalog = Catalog(cluster.proxy_directory, auto_create=False, auto_create_per_minute=1, default_queues=2)
        settings = ProxySettings(registry="sqlite://")
        services = make_services(settings, cluster.clock, catalog, cluster.service, "127.0.0.1:8081")
        yield Proxy(services, cluster)


async def test_a_route_names_all_brokers_at_the_address_of_the_proxy(proxy: Proxy) -> None:
    answer = await topics.get_topic_route(published.GetTopicRouteRequest(topic=ORDERS), CALL, proxy.services)
    route = json.loads(answer.topic_route_data)
    assert [broker["brokerName"] for broker in route["brokerDatas"]] == list(NAMES)
    assert {broker["brokerAddrs"]["0"] for broker in route["brokerDatas"]} == {"127.0.0.1:8081"}
    assert [queue["readQueueNums"] for queue in route["queueDatas"]] == [2, 2]


async def test_messages_of_all_brokers_are_found_page_by_page(proxy: Proxy) -> None:
    sent = [b"%d" % number for number in range(12)]
    await proxy.send(*sent)
    scroll, shown = "", []
    while True:
        page = await proxy.found(page_size=5, scroll_id=scroll)
        shown += [message.body for message in page.messages]
        scroll = page.scroll_id
        if not scroll:
            break
    assert sorted(shown) == sorted(sent)
    by_broker = [await proxy.found(broker_name=name) for name in NAMES]
    assert [message.body for each in by_broker for message in each.messages] == shown
    assert all(each.messages for each in by_broker)
    assert len((await proxy.found(message_key="k")).messages) == len(sent)


async def test_what_a_group_has_to_do_is_of_all_brokers(proxy: Proxy) -> None:
    await proxy.send(*(b"%d" % number for number in range(12)))
    measured = published.DescribeGroupAccumulationRequest(group=BILLING, topics=[ORDERS])
    reset = published.ResetGroupOffsetRequest(group=BILLING, topic=ORDERS, reset_timestamp={"seconds": -(2**63)})
    await offsets.reset_group_offset(reset, CALL, proxy.services)
    answer = await describe_group_accumulation(measured, CALL, proxy.services)
    assert answer.accumulation.accumulation == answer.accumulation.ready_messages == 12
    spans = await time_span.query_time_span(
        published.QueryTimeSpanRequest(group=BILLING, topics=[ORDERS]), CALL, proxy.services
    )
    places = {(each.message_queue.broker.name, each.message_queue.id) for each in spans.queue_time_span_list}
    assert places == {(name, queue_id) for name in NAMES for queue_id in (0, 1)}
    assert all(each.min_timestamp > 0 for each in spans.queue_time_span_list)
    reset.reset_timestamp.seconds = 2**63 - 1
    await offsets.reset_group_offset(reset, CALL, proxy.services)
    answer = await describe_group_accumulation(measured, CALL, proxy.services)
    assert answer.accumulation.accumulation == 0


async def test_a_broker_that_is_away_refuses_what_needs_it(proxy: Proxy) -> None:
    await proxy.cluster.nodes[1].stop()
    reset = published.ResetGroupOffsetRequest(group=BILLING, topic=ORDERS, reset_timestamp={"seconds": 1})
    with pytest.raises(MessagingError) as refused:
        await offsets.reset_group_offset(reset, CALL, proxy.services)
    assert refused.value.code == pb.HA_NOT_AVAILABLE
