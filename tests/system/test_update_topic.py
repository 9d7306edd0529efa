"""UpdateTopic as clients see it: what they may not do any more, and queues that were added under them."""

import pytest

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.embedded import Proto, RawClient, code, message
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP


async def update(client: RawClient, topic: str, **fields: Proto) -> admin_pb2.Topic:
    answer = await client.admin("UpdateTopic", name=topic, **fields)
    assert code(answer) == "OK", answer.status.message
    assert isinstance(answer.topic, admin_pb2.Topic)
    return answer.topic


async def permissions(client: RawClient, topic: str) -> list[str]:
    answer = await client.call("QueryRoute", topic={"name": topic})
    assert code(answer) in ("OK", "FORBIDDEN")
    return [pb.Permission.Name(queue.permission) for queue in answer.message_queues]


async def send(client: RawClient, topic: str, **system: Proto) -> rpc.SendMessageResponse:
    answer = await client.call("SendMessage", messages=[message(topic, **system)])
    assert isinstance(answer, rpc.SendMessageResponse)
    return answer


@pytest.mark.parametrize("kind", [pb.NORMAL, pb.FIFO, pb.DELAY, pb.TRANSACTION, pb.PRIORITY])
async def test_a_read_only_topic_gives_out_what_it_has_and_takes_nothing(
    client: RawClient, new_topic: str, group: str, kind: "pb.MessageType"
) -> None:
    await client.create_topic(new_topic, kind=kind)
    by_kind: dict[int, dict[str, Proto]] = {
        pb.NORMAL: {},
        pb.FIFO: {"message_group": "m"},
        pb.DELAY: {"delivery_timestamp": {"seconds": 1}},
        pb.TRANSACTION: {"message_type": pb.TRANSACTION},
        pb.PRIORITY: {"priority": 0},
    }
    system = by_kind[kind]
    assert code(await send(client, new_topic, **system)) == "OK"
    assert (await update(client, new_topic, permission=pb.READ)).permission == pb.READ
    refused = await send(client, new_topic, **system)
    assert code(refused) == "FORBIDDEN"
    assert refused.status.message == f"topic {new_topic!r} takes no messages: its permission is read"
    assert await permissions(client, new_topic) == ["READ"]
    assert len((await client.receive(new_topic, group)).messages) == (kind != pb.TRANSACTION)
    await update(client, new_topic, permission=pb.READ_WRITE)
    assert code(await send(client, new_topic, **system)) == "OK"


@pytest.mark.parametrize(("permission", "shown"), [(pb.WRITE, ["WRITE"]), (pb.NONE, [])])
async def test_a_topic_that_can_not_be_read_is_received_by_nobody(
    client: RawClient, topic: str, group: str, permission: "pb.Permission", shown: list[str]
) -> None:
    await client.send(topic, b"kept")
    await update(client, topic, permission=permission)
    received = await client.receive(topic, group)
    assert (received.code, received.bodies) == ("FORBIDDEN", [])
    assert received.status is not None
    assert "can't be read: its permission is " in received.status.message
    assert await permissions(client, topic) == shown
    assert code(await client.call("QueryAssignment", topic={"name": topic}, group={"name": group})) == "FORBIDDEN"
    assert code(await send(client, topic)) == ("OK" if permission == pb.WRITE else "FORBIDDEN")
    await update(client, topic, permission=pb.READ)
    assert (await client.receive(topic, group)).bodies[0] == b"kept"


async def test_queues_that_are_added_take_messages_and_groups_go_on(client: RawClient, topic: str, group: str) -> None:
    await client.send(topic, b"before")
    received = await client.receive(topic, group)
    await client.ack(topic, group, *[each.system_properties.receipt_handle for each in received.messages])
    assert (await update(client, topic, queues=3)).queues == 3
    for number in range(3):
        await client.send(topic, b"%d" % number)
    answer = await client.admin("DescribeTopic", name=topic)
    assert [queue.max_offset for queue in answer.queues] == [2, 1, 1]
    assert sorted((await client.receive(topic, group)).bodies) == [b"0", b"1", b"2"]
    assert await permissions(client, topic) == ["READ_WRITE"] * 3


async def test_a_change_of_one_thing_keeps_the_others(client: RawClient, topic: str) -> None:
    """And the same change again is fine."""
    await update(client, topic, permission=pb.READ)
    for _ in range(2):
        changed = await update(client, topic, queues=2)
        assert (changed.permission, changed.queues, changed.type) == (pb.READ, 2, pb.NORMAL)
    listed = (await client.admin("ListTopics")).topics
    assert [each for each in listed if each.name == topic] == [changed]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"queues": 0}, "BAD_REQUEST"),
        ({"queues": -1}, "BAD_REQUEST"),
        ({"queues": 1025}, "BAD_REQUEST"),
        ({"permission": 0}, "BAD_REQUEST"),
        ({"permission": 77}, "BAD_REQUEST"),
        ({"name": "%RETRY%group"}, "ILLEGAL_TOPIC"),
        ({"name": "TBW102"}, "ILLEGAL_TOPIC"),
        ({"name": "no-such-topic", "queues": 2}, "TOPIC_NOT_FOUND"),
    ],
)
async def test_a_change_that_can_not_be_is_refused(
    client: RawClient, topic: str, fields: dict[str, Proto], expected: str
) -> None:
    assert code(await client.admin("UpdateTopic", **{"name": topic, **fields})) == expected
