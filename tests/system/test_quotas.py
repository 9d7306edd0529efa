"""Quotas as clients meet them: sends are refused with a hint, receives wait, and nothing of it is left behind."""

from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from ternmq_common.retry_hint import parse_retry_hint
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.embedded import Embedded, Proto, RawClient, local_settings, message
from tests.support.until import until_answered


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Embedded]:
    async with Embedded(local_settings(tmp_path)) as running:
        yield running


@pytest.fixture
async def client(server: Embedded) -> AsyncIterator[RawClient]:
    async with RawClient(server.grpc) as made:
        yield made


async def put(client: RawClient, kind: str, name: str, **limits: int) -> None:
    quota = admin_pb2.Quota(kind=kind, name=name)
    for limit, value in limits.items():
        setattr(quota, limit, value)
    answer = await client.admin("PutQuota", quota=quota)
    assert answer.status.code == pb.OK, answer.status.message


async def sent(client: RawClient, topic: str, messages: int = 1, **system: Proto) -> pb.Status:
    request = rpc.SendMessageRequest(messages=[message(topic, b"x" * 100, **system) for _ in range(messages)])
    status: pb.Status = (await client.call("SendMessage", request)).status
    return status


@pytest.mark.parametrize(("kind", "name"), [("client", "*"), ("topic", "orders"), ("user", "*")])
async def test_a_send_over_a_quota_is_refused_whole_with_a_hint(client: RawClient, kind: str, name: str) -> None:
    await client.create_topic("orders")
    await put(client, kind, name, messages_in=1)
    assert (await sent(client, "orders", 3)).code == pb.OK
    refused = await sent(client, "orders")
    assert refused.code == pb.TOO_MANY_REQUESTS
    assert 0 < parse_retry_hint(refused.message) <= 4
    assert kind in refused.message
    received = await client.receive("orders", "g", batch_size=32)
    assert len(received.messages) == 3


async def test_messages_that_are_read_by_protobuf_count_as_well(client: RawClient) -> None:
    await put(client, "client", client.client_id, bytes_in=10)
    await client.create_topic("ranked", kind=pb.PRIORITY)
    assert (await sent(client, "ranked", priority=1)).code == pb.OK
    assert (await sent(client, "ranked", priority=1)).code == pb.TOO_MANY_REQUESTS


async def test_another_client_is_not_held_up(server: Embedded, client: RawClient) -> None:
    await client.create_topic("orders")
    await put(client, "client", client.client_id, messages_in=1)
    assert (await sent(client, "orders", 5)).code == pb.OK
    assert (await sent(client, "orders")).code == pb.TOO_MANY_REQUESTS
    async with RawClient(server.grpc) as other:
        assert (await sent(other, "orders")).code == pb.OK


async def test_a_quota_that_is_removed_holds_nobody_any_more(client: RawClient) -> None:
    await client.create_topic("orders")
    await put(client, "topic", "*", messages_in=1)
    assert (await sent(client, "orders", 30)).code == pb.OK
    assert (await sent(client, "orders")).code == pb.TOO_MANY_REQUESTS
    await client.admin("DeleteQuota", kind="topic", name="*")
    assert (await sent(client, "orders")).code == pb.OK
    answer = await client.admin("DeleteQuota", kind="topic", name="*")
    assert answer.status.code == pb.NOT_FOUND


async def test_a_receive_over_its_quota_gets_fewer_messages_and_is_not_refused(client: RawClient) -> None:
    await client.create_topic("orders")
    assert (await sent(client, "orders", 20)).code == pb.OK
    await put(client, "group", "g", messages_out=4)
    first = await client.receive("orders", "g", batch_size=16)
    assert (first.code, len(first.messages)) == ("OK", 4)
    second = await client.receive("orders", "g", batch_size=16, poll_s=5.0)
    # It waited for one, or for as many as a slow machine let come; never for more than a second's.
    assert (second.code, 1 <= len(second.messages) <= 4) == ("OK", True)
    other = await client.receive("orders", "h", batch_size=16)
    assert len(other.messages) == 16


async def test_connections_beyond_the_quota_are_refused_until_one_ends(server: Embedded, client: RawClient) -> None:
    await client.create_topic("orders")
    await put(client, "client", "twin", connections=1)
    metadata = (("x-mq-client-id", "twin"),)
    async with RawClient(server.grpc, metadata=metadata) as second:
        async with RawClient(server.grpc, metadata=metadata) as first:
            assert (await sent(first, "orders")).code == pb.OK
            refused = await sent(second, "orders")
            assert refused.code == pb.TOO_MANY_REQUESTS
            assert "connections" in refused.message
            assert (await sent(first, "orders")).code == pb.OK

        async def code() -> int:
            return (await sent(second, "orders")).code

        await until_answered(code, pb.OK)


async def test_a_telemetry_stream_of_a_connection_beyond_the_quota_is_told_so(
    server: Embedded, client: RawClient
) -> None:
    await client.create_topic("orders")
    await put(client, "client", "twin", connections=1)
    metadata = (("x-mq-client-id", "twin"),)
    async with RawClient(server.grpc, metadata=metadata) as first, RawClient(server.grpc, metadata=metadata) as second:
        assert (await sent(first, "orders")).code == pb.OK
        with pytest.raises(grpc.aio.AioRpcError, match="connections") as refused:
            await second.telemetry().read()
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_topics_that_are_made_by_use_are_counted_once_each(client: RawClient) -> None:
    await put(client, "user", "*", topics_per_hour=2)
    for topic in ("a", "b", "a", "b"):
        assert (await sent(client, topic)).code == pb.OK
    refused = await sent(client, "c")
    assert refused.code == pb.TOO_MANY_REQUESTS
    assert parse_retry_hint(refused.message) > 60
    await client.create_topic("c")
    assert (await sent(client, "c")).code == pb.OK


async def test_the_list_tells_quotas_and_what_is_taken_of_them(client: RawClient) -> None:
    await client.create_topic("orders")
    await put(client, "topic", "*", messages_in=2, bytes_out=1000)
    await sent(client, "orders", 9)
    await sent(client, "orders")
    answer = await client.admin("ListQuotas")
    [quota], [use] = answer.quotas, answer.uses
    assert (quota.kind, quota.name, quota.messages_in, quota.HasField("bytes_in")) == ("topic", "*", 2, False)
    assert (use.name, use.quota, use.refused) == ("orders", "*", 1)
    assert use.share == {"messages_in": 2, "bytes_out": 1000}
    assert use.rate["messages_in"] > 0
    assert (answer.names, answer.proxies) == (1, 1)


NO_QUOTAS = [
    (admin_pb2.Quota(kind="tenant", name="x", messages_in=1), "names no quota"),
    (admin_pb2.Quota(kind="user", name="x"), "sets no limit"),
    (admin_pb2.Quota(kind="group", name="x", messages_in=1), "a group has no messages_in"),
    (admin_pb2.Quota(kind="user", name="x", messages_in=0), "messages_in is 0"),
    (admin_pb2.Quota(kind="user", name="x", in_flight=1), "a user has no in_flight; it is a limit of: group, topic"),
    (admin_pb2.Quota(kind="client", name="x", in_flight=1), "a client has no in_flight"),
    (admin_pb2.Quota(kind="user", name="", messages_in=1), "the name of a quota"),
]


async def test_a_quota_that_makes_no_sense_is_refused(client: RawClient) -> None:
    for quota, why in NO_QUOTAS:
        status = (await client.admin("PutQuota", quota=quota)).status
        assert (why, status.code, why in status.message) == (why, pb.BAD_REQUEST, True)


async def test_quotas_survive_a_restart(tmp_path: Path) -> None:
    settings = local_settings(tmp_path)
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        await put(client, "user", "alice", messages_in=7)
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        answer = await client.admin("ListQuotas")
        assert [quota.messages_in for quota in answer.quotas] == [7]


# --- in flight


@pytest.mark.parametrize(("kind", "name"), [("group", "*"), ("topic", "orders")])
async def test_no_more_is_handed_out_than_a_quota_lets_be_in_flight(client: RawClient, kind: str, name: str) -> None:
    await client.create_topic("orders")
    assert (await sent(client, "orders", 20)).code == pb.OK
    await put(client, kind, name, in_flight=3)
    first = await client.receive("orders", "g", batch_size=16)
    assert (first.code, len(first.messages)) == ("OK", 3)
    second = await client.receive("orders", "g", batch_size=16)
    assert second.code == "MESSAGE_NOT_FOUND"
    assert second.status is not None
    assert f"{kind}:{name} (3)" in second.status.message
    await client.ack("orders", "g", first.messages[0].system_properties.receipt_handle)
    third = await client.receive("orders", "g", batch_size=16)
    assert (third.code, len(third.messages)) == ("OK", 1)


async def test_one_group_in_flight_holds_up_no_other(client: RawClient) -> None:
    await client.create_topic("orders")
    assert (await sent(client, "orders", 5)).code == pb.OK
    await put(client, "group", "*", in_flight=5)
    await put(client, "group", "strict", in_flight=1)
    assert len((await client.receive("orders", "strict", batch_size=16)).messages) == 1
    assert len((await client.receive("orders", "other", batch_size=16)).messages) == 5


async def test_what_is_pulled_by_offset_is_not_in_flight(client: RawClient) -> None:
    await client.create_topic("orders")
    assert (await sent(client, "orders", 5)).code == pb.OK
    await put(client, "topic", "*", in_flight=1)
    assert len((await client.receive("orders", "g", batch_size=16)).messages) == 1
    queue = pb.MessageQueue(topic={"name": "orders"}, id=0)
    stream = client.stream("PullMessage", rpc.PullMessageRequest(message_queue=queue, offset=0, batch_size=32))
    items = [item async for item in stream]
    assert sum(item.WhichOneof("content") == "message" for item in items) == 5
