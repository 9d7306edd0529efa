"""QueryRoute: which queues a topic has, and by which way the client gets to them (`overview.md, Routes`)."""

import pytest

from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.embedded import Embedded, RawClient, code
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP


def asked(name: str, **fields: object) -> rpc.QueryRouteRequest:
    return rpc.QueryRouteRequest(topic={"name": name}, **fields)  # type: ignore[arg-type]


async def test_every_queue_is_writable_readable_and_numbered_from_zero(client: RawClient, new_topic: str) -> None:
    await client.create_topic(new_topic, queues=3)
    answer = await client.call("QueryRoute", asked(new_topic))
    assert code(answer) == "OK"
    assert [queue.id for queue in answer.message_queues] == [0, 1, 2]
    assert {queue.permission for queue in answer.message_queues} == {pb.READ_WRITE}
    assert {queue.broker.id for queue in answer.message_queues} == {0}
    assert {queue.broker.name for queue in answer.message_queues} == {"broker-0"}


@pytest.mark.parametrize("kind", [pb.NORMAL, pb.FIFO, pb.DELAY, pb.TRANSACTION, pb.LITE, pb.PRIORITY])
async def test_the_route_names_the_topics_type_and_no_other(
    client: RawClient, new_topic: str, kind: "pb.MessageType"
) -> None:
    await client.create_topic(new_topic, kind=kind)
    answer = await client.call("QueryRoute", asked(new_topic))
    assert [list(queue.accept_message_types) for queue in answer.message_queues] == [[kind]]


async def test_the_topic_is_echoed_with_its_namespace(client: RawClient, topic: str) -> None:
    resource = pb.Resource(name=topic, resource_namespace="tenant")
    answer = await client.call("QueryRoute", topic=resource)
    assert [queue.topic for queue in answer.message_queues] == [resource]


@pytest.mark.parametrize(
    "endpoints",
    [
        pb.Endpoints(scheme=pb.IPv4, addresses=[{"host": "10.1.2.3", "port": 18081}]),
        pb.Endpoints(scheme=pb.IPv6, addresses=[{"host": "fe80::1", "port": 1}, {"host": "fe80::2", "port": 2}]),
        pb.Endpoints(scheme=pb.DOMAIN_NAME, addresses=[{"host": "mq.example.com", "port": 443}]),
    ],
)
async def test_the_endpoints_that_the_client_used_are_echoed_port_and_order_included(
    client: RawClient, topic: str, endpoints: pb.Endpoints
) -> None:
    answer = await client.call("QueryRoute", asked(topic, endpoints=endpoints))
    assert [queue.broker.endpoints for queue in answer.message_queues] == [endpoints]


@pytest.mark.parametrize(
    ("host", "scheme"), [("10.1.2.3", pb.IPv4), ("::1", pb.IPv6), ("mq.example.com", pb.DOMAIN_NAME)]
)
async def test_a_scheme_that_the_client_left_out_is_found_from_its_address(
    client: RawClient, topic: str, host: str, scheme: "pb.AddressScheme"
) -> None:
    endpoints = pb.Endpoints(addresses=[{"host": host, "port": 8081}])
    answer = await client.call("QueryRoute", asked(topic, endpoints=endpoints))
    assert [queue.broker.endpoints.scheme for queue in answer.message_queues] == [scheme]


async def test_a_client_that_names_no_endpoints_gets_those_of_the_server(
    client: RawClient, topic: str, server: Embedded
) -> None:
    answer = await client.call("QueryRoute", asked(topic))
    [queue] = answer.message_queues
    [address] = queue.broker.endpoints.addresses
    assert queue.broker.endpoints.scheme == pb.IPv4
    assert f"{address.host}:{address.port}" == server.grpc


async def is_there(client: RawClient, name: str) -> bool:
    return code(await client.admin("DescribeTopic", name=name)) == "OK"


async def test_a_missing_topic_has_the_route_that_it_will_have_and_is_not_made(
    client: RawClient, new_topic: str
) -> None:
    answer = await client.call("QueryRoute", asked(new_topic))
    assert code(answer) == "OK"
    assert [(queue.id, queue.permission) for queue in answer.message_queues] == [
        (id_, pb.READ_WRITE) for id_ in range(8)
    ]
    for queue in answer.message_queues:
        assert queue.accept_message_types == [pb.NORMAL, pb.FIFO, pb.DELAY, pb.TRANSACTION]
    assert not await is_there(client, new_topic)
    await client.send(new_topic, b"first", message_group="a")
    after = await client.call("QueryRoute", asked(new_topic))
    for queue, before in zip(after.message_queues, answer.message_queues, strict=True):
        assert queue.accept_message_types == [pb.FIFO]
        del queue.accept_message_types[:], before.accept_message_types[:]
        assert queue == before


async def test_a_producer_that_told_its_topics_gets_that_route_too(client: RawClient, new_topic: str) -> None:
    stream = await client.publish_to(pb.Resource(name=new_topic))
    assert code(await client.call("QueryRoute", asked(new_topic))) == "OK"
    assert not await is_there(client, new_topic)
    stream.cancel()


@pytest.mark.parametrize("kind", [pb.PUSH_CONSUMER, pb.SIMPLE_CONSUMER, pb.PULL_CONSUMER])
async def test_a_consumer_is_refused_the_route_of_a_missing_topic(
    client: RawClient, new_topic: str, topic: str, group: str, kind: "pb.ClientType"
) -> None:
    await client.configure(consumer(kind, group, topic))
    answer = await client.call("QueryRoute", asked(new_topic))
    assert (code(answer), len(answer.message_queues)) == ("TOPIC_NOT_FOUND", 0)
    assert f"ternmq topic create {new_topic}" in answer.status.message
    assert code(await client.call("QueryRoute", asked(topic))) == "OK"
    assert not await is_there(client, new_topic)


async def test_a_consumer_that_began_before_its_topic_keeps_the_route_and_reads_when_the_topic_is_there(
    client: RawClient, other: RawClient, new_topic: str, group: str
) -> None:
    await client.configure(consumer(pb.PUSH_CONSUMER, group, new_topic))
    assignment = rpc.QueryAssignmentRequest(topic={"name": new_topic}, group={"name": group})
    for _ in range(2):
        assert code(await client.call("QueryRoute", asked(new_topic))) == "OK"
        assert code(await client.call("QueryAssignment", assignment)) == "TOPIC_NOT_FOUND"
        assert (await client.receive(new_topic, group)).code == "TOPIC_NOT_FOUND"
    assert not await is_there(client, new_topic)
    await other.send(new_topic, b"first")
    assert code(await client.call("QueryAssignment", assignment)) == "OK"
    assert (await client.receive(new_topic, group)).bodies == [b"first"]


def consumer(kind: "pb.ClientType", group: str, topic: str) -> pb.Settings:
    entry = {"topic": {"name": topic}, "expression": {"type": pb.TAG, "expression": "*"}}
    return pb.Settings(client_type=kind, subscription={"group": {"name": group}, "subscriptions": [entry]})


async def test_a_missing_topic_is_not_found_and_not_made_without_auto_create(strict: RawClient, new_topic: str) -> None:
    for _ in range(2):
        answer = await strict.call("QueryRoute", asked(new_topic))
        assert code(answer) == "TOPIC_NOT_FOUND"
        assert new_topic in answer.status.message
        assert not answer.message_queues


@pytest.mark.parametrize("name", ["%DLQ%group", "%RETRY%group"])
async def test_a_topic_that_only_the_broker_makes_is_not_made_by_asking(client: RawClient, name: str) -> None:
    assert code(await client.call("QueryRoute", asked(name))) == "TOPIC_NOT_FOUND"
