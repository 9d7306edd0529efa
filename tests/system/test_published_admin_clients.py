"""The published admin service on clients and what they subscribe (`admin.md, The published service`)."""

from typing import Any

import pytest

from ternmq_protos.v2 import admin_pb2 as published
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_proxy.operations.admin.clients import consumers, subscriptions
from tests.support.embedded import Embedded, RawClient
from tests.system.conftest import SERVER_LOOP
from tests.system.test_published_admin import refused, told
from tests.system.test_telemetry import consumer

pytestmark = SERVER_LOOP


def subscribed(topic: str, expression: str = "*", kind: "pb.FilterType" = pb.TAG) -> dict[str, Any]:
    return {"topic": {"name": topic}, "expression": {"type": kind, "expression": expression}}


async def join(
    client: RawClient, group: str, *entries: dict[str, Any], kind: "pb.ClientType" = pb.PUSH_CONSUMER
) -> None:
    answer = await client.configure(consumer(group, kind, subscriptions=entries))
    assert answer.status.code == pb.OK


def shown(info: published.SubscriptionInfo) -> tuple[str, str, str, bool]:
    return info.group.name, info.topic.name, info.expression.expression, info.subscription_consistency


# --- subscriptions


async def test_what_a_group_subscribes_is_listed_by_topic(client: RawClient, group: str, new_topic: str) -> None:
    topics = [await client.create_topic(f"{new_topic}-{number}") for number in range(2)]
    await join(client, group, subscribed(topics[0], "b || a"), subscribed(topics[1], "x > 1", pb.SQL))
    infos = (await told(client, "ListSubscription", group={"name": group})).subscription_info
    assert [shown(info) for info in infos] == [
        (group, topics[0], "a || b", True),
        (group, topics[1], "x > 1", True),
    ]
    assert [info.expression.type for info in infos] == [pb.TAG, pb.SQL]
    assert all(info.online and info.message_model == published.CLUSTERING for info in infos)
    assert not infos[0].HasField("last_update_timestamp")
    (named,) = (
        await told(client, "ListSubscription", group={"name": group}, topic={"name": topics[1]})
    ).subscription_info
    assert named == infos[1]


async def test_a_topic_has_the_groups_that_subscribe_it(client: RawClient, other: RawClient, topic: str) -> None:
    groups = sorted(f"g-{each.client_id}" for each in (client, other))
    for each in (client, other):
        await join(each, f"g-{each.client_id}", subscribed(topic))
    infos = (await told(client, "ListSubscription", topic={"name": topic})).subscription_info
    assert [info.group.name for info in infos] == groups


async def test_members_that_filter_differently_are_told_one_by_one(
    client: RawClient, other: RawClient, topic: str, group: str
) -> None:
    await join(client, group, subscribed(topic, "a"))
    await join(other, group, subscribed(topic, "b"))
    (info,) = (await told(client, "ListSubscription", group={"name": group})).subscription_info
    assert not info.subscription_consistency
    assert not info.HasField("expression")
    described = (await told(client, "DescribeSubscription", topic={"name": topic})).client_subscription_info
    by_client = {each.client_info.client_id: each for each in described}
    assert list(by_client) == sorted([client.client_id, other.client_id])
    assert by_client[client.client_id].subscription_info.expression.expression == "a"
    assert by_client[other.client_id].subscription_info.expression.expression == "b"
    assert not any(each.subscription_info.subscription_consistency for each in described)
    own = by_client[client.client_id].client_info
    assert (own.language, own.version, own.hostname) == ("RUST", "5.0", "host")
    assert own.egress_ip == "127.0.0.1"


async def test_of_a_client_without_settings_the_filter_of_its_receives_is_told(
    client: RawClient, topic: str, group: str
) -> None:
    await client.receive(topic, group, tags="a")
    (each,) = (await told(client, "DescribeSubscription", group={"name": group})).client_subscription_info
    assert each.client_info.client_id == client.client_id
    assert (each.client_info.language, each.client_info.version) == ("", "")
    expression = each.subscription_info.expression
    assert (expression.type, expression.expression) == (pb.FILTER_TYPE_UNSPECIFIED, "a")


async def test_of_a_long_filter_lists_have_the_beginning_and_one_consumer_the_whole(
    client: RawClient, topic: str, group: str
) -> None:
    tags = " || ".join(f"tag-{number:03}" for number in range(100))
    await join(client, group, subscribed(topic, tags))
    (info,) = (await told(client, "ListSubscription", group={"name": group})).subscription_info
    assert info.expression.expression.startswith(tags[:100])
    assert len(info.expression.expression) < 200
    assert info.expression.type == pb.TAG
    (each,) = (await told(client, "DescribeSubscription", group={"name": group})).client_subscription_info
    assert each.subscription_info.expression == info.expression
    answer = await told(client, "GetConsumerRunningInfo", group={"name": group}, client_id=client.client_id)
    assert answer.consumer_running_info.subscriptions[topic].expression == tags


async def test_who_said_good_bye_subscribes_nothing(client: RawClient, topic: str, group: str) -> None:
    await join(client, group, subscribed(topic))
    await client.call("NotifyClientTermination", group={"name": group})
    assert not (await told(client, "ListSubscription", group={"name": group})).subscription_info
    assert not (await told(client, "DescribeSubscription", topic={"name": topic})).client_subscription_info


@pytest.mark.parametrize("name", ["ListSubscription", "DescribeSubscription"])
async def test_more_than_an_answer_may_have_is_cut_and_said(
    brief: RawClient, group: str, new_topic: str, name: str
) -> None:
    topics = [await brief.create_topic(f"{new_topic}-{number}") for number in range(3)]
    await join(brief, group, *map(subscribed, topics))
    answer = await told(brief, name, group={"name": group})
    infos = getattr(answer, "subscription_info", None) or [
        each.subscription_info for each in answer.client_subscription_info
    ]
    assert [info.topic.name for info in infos] == topics[:1]
    assert "the first 1" in answer.status.message


async def test_all_other_proxies_are_asked(
    client: RawClient, topic: str, group: str, others: dict[str, dict[str, bytes | None]]
) -> None:
    await join(client, group, subscribed(topic, "a"))
    elsewhere = published.SubscriptionInfo(
        group={"name": group}, topic={"name": topic}, subscription_consistency=True, expression={"expression": "b"}
    )
    others[subscriptions.SUBSCRIPTIONS] = {
        "one": published.ListSubscriptionResponse(subscription_info=[elsewhere]).SerializeToString(),
        "two": None,
        "three": b"\xff",
    }
    their_client = {"client_info": {"client_id": "~elsewhere"}, "subscription_info": elsewhere}
    others[subscriptions.SUBSCRIBERS] = {
        "one": published.DescribeSubscriptionResponse(client_subscription_info=[their_client]).SerializeToString(),
    }
    answer = await told(client, "ListSubscription", group={"name": group})
    assert [shown(info) for info in answer.subscription_info] == [(group, topic, "", False)]
    assert "two, three" in answer.status.message
    described = (await told(client, "DescribeSubscription", group={"name": group})).client_subscription_info
    assert [each.client_info.client_id for each in described] == [client.client_id, "~elsewhere"]
    assert not any(each.subscription_info.subscription_consistency for each in described)


# --- connections


async def test_the_clients_of_a_group_are_listed_with_what_they_said_of_themselves(
    client: RawClient, other: RawClient, topic: str, group: str
) -> None:
    await join(client, group, subscribed(topic))
    await join(other, group, kind=pb.SIMPLE_CONSUMER)
    infos = (await told(client, "ListConsumerConnection", group={"name": group})).client_info
    assert [info.client_id for info in infos] == sorted([client.client_id, other.client_id])
    for info in infos:
        assert (info.language, info.version, info.hostname) == ("RUST", "5.0", "host")
        assert (info.egress_ip, info.message_model) == ("127.0.0.1", published.CLUSTERING)
    (reader,) = (await told(client, "ListConsumerConnection", group={"name": group}, topic={"name": topic})).client_info
    assert reader.client_id == client.client_id


async def test_the_clients_of_a_group_are_no_more_than_an_answer_may_have(
    brief: RawClient, brief_server: Embedded, group: str, new_topic: str
) -> None:
    await brief.create_topic(new_topic)
    async with RawClient(brief_server.grpc) as other:
        for each in (brief, other):
            await join(each, group, subscribed(new_topic))
        answer = await told(brief, "ListConsumerConnection", group={"name": group})
        assert [info.client_id for info in answer.client_info] == [min(brief.client_id, other.client_id)]
        assert "only" in answer.status.message


# --- one consumer


async def test_a_consumer_is_told_with_what_it_reads_and_how_far_its_group_is(
    client: RawClient, topic: str, group: str
) -> None:
    await join(client, group, subscribed(topic, "a"))
    await client.send(topic, b"1", b"2", b"3", tag="a")
    received = await client.receive(topic, group, batch_size=2, tags="a")
    for each in received.messages:
        await client.ack(topic, group, each.system_properties.receipt_handle)
    answer = await told(client, "GetConsumerRunningInfo", group={"name": group}, client_id=client.client_id)
    info = answer.consumer_running_info
    assert dict(info.properties) == {
        "PROP_CLIENT_VERSION": "5.0",
        "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
        "PROP_CONSUMEORDERLY": "false",
    }
    assert {name: each.expression for name, each in info.subscriptions.items()} == {topic: "a"}
    (item,) = info.message_queue_table
    assert (item.message_queue.topic.name, item.message_queue.id) == (topic, 0)
    assert item.process_queue_info == published.ProcessQueueInfo(commit_offset=2)
    assert not info.consume_status_table


@pytest.mark.parametrize(
    ("kind", "fifo", "expected"),
    [
        (pb.SIMPLE_CONSUMER, True, ("CONSUME_ACTIVELY", "true")),
        (pb.PULL_CONSUMER, True, ("CONSUME_ACTIVELY", "false")),
        (pb.PUSH_CONSUMER, True, ("CONSUME_PASSIVELY", "true")),
    ],
)
async def test_a_consumer_is_told_by_its_kind(
    client: RawClient, group: str, kind: "pb.ClientType", fifo: bool, expected: tuple[str, str]
) -> None:
    await client.create_group(group, fifo=fifo)
    await join(client, group, kind=kind)
    answer = await told(client, "GetConsumerRunningInfo", group={"name": group}, client_id=client.client_id)
    properties = answer.consumer_running_info.properties
    assert (properties["PROP_CONSUME_TYPE"], properties["PROP_CONSUMEORDERLY"]) == expected


async def test_a_client_that_the_group_has_not_is_not_found(
    client: RawClient, other: RawClient, group: str, topic: str
) -> None:
    await client.create_group(group)
    await join(other, f"{group}-2", subscribed(topic))
    for client_id in ("", "nobody", other.client_id, "x" * 10_000):
        fields = {"group": {"name": group}, "client_id": client_id}
        assert await refused(client, "GetConsumerRunningInfo", **fields) == "NOT_FOUND"


async def test_a_client_of_another_proxy_is_asked_for_there(
    client: RawClient, group: str, topic: str, others: dict[str, dict[str, bytes | None]]
) -> None:
    await client.create_group(group)
    await client.send(topic, b"1")
    info = {"properties": {"a": "b"}, "subscriptions": {topic: {"expression": "*"}}}
    others[consumers.RUNNING_INFO] = {
        "silent": None,
        "other": b"",
        "broken": b"\xff",
        "its own": published.GetConsumerRunningInfoResponse(consumer_running_info=info).SerializeToString(),
    }
    answer = await told(client, "GetConsumerRunningInfo", group={"name": group}, client_id="elsewhere")
    assert dict(answer.consumer_running_info.properties) == {"a": "b"}
    (item,) = answer.consumer_running_info.message_queue_table
    assert item.message_queue.topic.name == topic
