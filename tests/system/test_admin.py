"""Our Admin service: topics, groups and progress for tools."""

import time

import pytest

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.pool import Timestamp
from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.embedded import Embedded, Proto, RawClient, code, local_settings
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP


async def create_topic(client: RawClient, **fields: Proto) -> admin_pb2.CreateTopicResponse:
    answer = await client.admin("CreateTopic", topic=fields)
    assert isinstance(answer, admin_pb2.CreateTopicResponse)
    return answer


async def create_group(client: RawClient, **fields: Proto) -> admin_pb2.CreateGroupResponse:
    answer = await client.admin("CreateGroup", group=fields)
    assert isinstance(answer, admin_pb2.CreateGroupResponse)
    return answer


async def describe_topic(client: RawClient, name: str) -> admin_pb2.DescribeTopicResponse:
    answer = await client.admin("DescribeTopic", name=name)
    assert isinstance(answer, admin_pb2.DescribeTopicResponse)
    return answer


async def describe_group(client: RawClient, name: str) -> admin_pb2.DescribeGroupResponse:
    answer = await client.admin("DescribeGroup", name=name)
    assert isinstance(answer, admin_pb2.DescribeGroupResponse)
    return answer


async def delete_topic(client: RawClient, name: str) -> str:
    return code(await client.admin("DeleteTopic", name=name))


async def test_no_client_id_is_needed(server: Embedded) -> None:
    async with RawClient(server.grpc, metadata=()) as tool:
        assert code(await tool.admin("ListTopics")) == "OK"


async def test_a_topic_is_made_once_and_its_settings_kept(client: RawClient, new_topic: str) -> None:
    settings = {"name": new_topic, "queues": 3, "type": pb.DELAY}
    made = await create_topic(client, **settings)
    assert (code(made), made.created) == ("OK", True)
    again = await create_topic(client, **settings)
    assert (code(again), again.created) == ("OK", False)
    described = (await describe_topic(client, new_topic)).topic
    assert (described.name, described.queues, described.type) == (new_topic, 3, pb.DELAY)
    assert abs(described.created.ToSeconds() - time.time()) < 60


@pytest.mark.parametrize("change", [{"queues": 4}, {"type": pb.FIFO}])
async def test_a_topic_that_exists_otherwise_stays_as_it_is(
    client: RawClient, new_topic: str, change: dict[str, int]
) -> None:
    settings = {"name": new_topic, "queues": 3, "type": pb.DELAY}
    await create_topic(client, **settings)
    refused = await create_topic(client, **{**settings, **change})
    assert (code(refused), refused.created) == ("BAD_REQUEST", False)
    assert "DELAY" in refused.status.message
    described = (await describe_topic(client, new_topic)).topic
    assert (described.queues, described.type) == (3, pb.DELAY)


async def test_what_is_left_out_is_the_servers_default(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("defaults")
    async with Embedded(local_settings(folder, default_queues=2)) as server, RawClient(server.grpc) as client:
        await create_topic(client, name="orders")
        await create_group(client, name="readers")
        topic = (await describe_topic(client, "orders")).topic
        group = (await describe_group(client, "readers")).group
    assert (topic.queues, topic.type) == (2, pb.NORMAL)
    assert (group.fifo, group.max_attempts) == (False, 17)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"name": "a b"}, "ILLEGAL_TOPIC"),
        ({"name": ""}, "ILLEGAL_TOPIC"),
        ({"name": "TBW102"}, "ILLEGAL_TOPIC"),
        ({"name": "good", "queues": -1}, "BAD_REQUEST"),
        ({"name": "good", "queues": 1025}, "BAD_REQUEST"),
        ({"name": "good", "type": 99}, "BAD_REQUEST"),
    ],
)
async def test_a_topic_that_can_not_be_is_refused(client: RawClient, fields: dict[str, Proto], expected: str) -> None:
    assert code(await create_topic(client, **fields)) == expected


async def test_the_most_queues_that_a_topic_may_have_can_be_made(client: RawClient, new_topic: str) -> None:
    assert code(await create_topic(client, name=new_topic, queues=1024)) == "OK"
    assert len((await describe_topic(client, new_topic)).queues) == 1024


async def test_topics_are_listed_by_name(client: RawClient, new_topic: str) -> None:
    names = [f"{new_topic}-{letter}" for letter in "cab"]
    for name in names:
        await create_topic(client, name=name)
    listed = await client.admin("ListTopics")
    all_names = [topic.name for topic in listed.topics]
    assert all_names == sorted(all_names)
    assert set(names) <= set(all_names)


async def test_a_described_topic_tells_what_each_queue_holds(client: RawClient, new_topic: str) -> None:
    await create_topic(client, name=new_topic, queues=2)
    await client.send(new_topic, b"1", b"2", b"3")
    queues = (await describe_topic(client, new_topic)).queues
    assert [(queue.broker, queue.queue_id, queue.min_offset) for queue in queues] == [
        ("broker-0", 0, 0),
        ("broker-0", 1, 0),
    ]
    assert sorted(queue.max_offset for queue in queues) == [0, 3]


async def test_a_topic_made_again_goes_on_with_its_offsets_and_shows_nothing_old(
    client: RawClient, topic: str, group: str
) -> None:
    await client.send(topic, b"old", b"old", b"old")
    assert len((await client.receive(topic, group, batch_size=1)).messages) == 1
    assert await delete_topic(client, topic) == "OK"
    assert code(await describe_topic(client, topic)) == "TOPIC_NOT_FOUND"
    await client.create_topic(topic)
    assert (await client.receive(topic, group)).bodies == []
    assert [entry.offset for entry in (await client.send(topic, b"new")).entries] == [3]
    assert (await client.receive(topic, group)).bodies == [b"new"]
    [queue] = (await describe_topic(client, topic)).queues
    assert (queue.min_offset, queue.max_offset) == (3, 4)


async def test_a_group_is_made_once_and_its_settings_kept(client: RawClient, group: str) -> None:
    settings = {"name": group, "fifo": True, "max_attempts": 5}
    made = await create_group(client, **settings)
    assert (code(made), made.created) == ("OK", True)
    again = await create_group(client, **settings)
    assert (code(again), again.created) == ("OK", False)
    for change in ({"fifo": False}, {"max_attempts": 6}):
        assert code(await create_group(client, **{**settings, **change})) == "BAD_REQUEST"
    described = (await describe_group(client, group)).group
    assert (described.name, described.fifo, described.max_attempts) == (group, True, 5)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"name": "a b"}, "ILLEGAL_CONSUMER_GROUP"),
        ({"name": "CID_RMQ_SYS_mine"}, "ILLEGAL_CONSUMER_GROUP"),
        ({"name": "good", "max_attempts": -1}, "BAD_REQUEST"),
        ({"name": "good", "max_attempts": 1001}, "BAD_REQUEST"),
    ],
)
async def test_a_group_that_can_not_be_is_refused(client: RawClient, fields: dict[str, Proto], expected: str) -> None:
    assert code(await create_group(client, **fields)) == expected


async def test_a_described_group_tells_how_far_it_is(client: RawClient, topic: str, group: str) -> None:
    await client.send(topic, *[b"body"] * 5)
    received = await client.receive(topic, group, batch_size=3)
    await client.ack(topic, group, received.messages[0].system_properties.receipt_handle)
    described = await describe_group(client, group)
    [progress] = described.progress
    assert (progress.topic, progress.broker, progress.queue_id) == (topic, "broker-0", 0)
    assert (progress.committed, progress.cursor, progress.in_flight, progress.max_offset) == (1, 3, 2, 5)
    assert list(described.client_ids) == [client.client_id]


async def test_a_deleted_group_starts_over(client: RawClient, other: RawClient, topic: str, group: str) -> None:
    await client.send(topic, b"body")
    received = await client.receive(topic, group)
    await client.ack(topic, group, received.messages[0].system_properties.receipt_handle)
    assert code(await client.admin("DeleteGroup", name=group)) == "OK"
    assert code(await describe_group(client, group)) == "CONSUMER_GROUP_NOT_FOUND"
    assert (await other.receive(topic, group)).attempts == [1]


async def test_topics_groups_and_messages_outlive_a_restart(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = local_settings(tmp_path_factory.mktemp("restarted"))
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        await client.create_topic("orders")
        await client.send("orders", b"1", b"2")
        received = await client.receive("orders", "readers")
        await client.ack("orders", "readers", received.messages[0].system_properties.receipt_handle)
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        assert (await describe_topic(client, "orders")).topic.queues == 1
        [progress] = (await describe_group(client, "readers")).progress
        assert (progress.committed, progress.in_flight) == (1, 1)
        # The handle from before the restart still is the right to settle the message.
        answer = await client.ack("orders", "readers", received.messages[1].system_properties.receipt_handle)
        assert code(answer) == "OK"
        [progress] = (await describe_group(client, "readers")).progress
        assert (progress.committed, progress.in_flight) == (2, 0)


async def identity(client: RawClient, name: str) -> str:
    [topic] = (await client.admin("ListTopics", names=[name])).topics
    assert topic.identity == (await describe_topic(client, name)).topic.identity
    return str(topic.identity)


async def test_a_topic_has_an_identity_that_outlives_changes_and_restarts_and_no_other_has(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    settings = local_settings(tmp_path_factory.mktemp("identities"))
    letters = "%DLQ%readers"
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        for name in ("orders", "payments"):
            await create_topic(client, name=name)
        await create_group(client, name="readers")
        before = {name: await identity(client, name) for name in ("orders", "payments", letters)}
        assert all(before.values())
        assert before["orders"] != before["payments"]
        await client.admin("UpdateTopic", name="orders", queues=3)
        await client.admin("UpdateGroup", group={"name": "readers", "max_attempts": 3})
        await create_topic(client, name="orders", queues=3)
        await delete_topic(client, "payments")
        await create_topic(client, name="payments")
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        after = {name: await identity(client, name) for name in before}
        assert (after["orders"], after[letters]) == (before["orders"], before[letters])
        assert after["payments"] not in before.values()
        await client.admin("DeleteGroup", name="readers")
        await create_group(client, name="readers")
        assert await identity(client, letters) != before[letters]


async def test_topics_are_listed_by_their_names_as_far_as_they_are_there(client: RawClient, new_topic: str) -> None:
    await create_topic(client, name=new_topic)
    request = admin_pb2.ListTopicsRequest(names=["nowhere", new_topic, "%DLQ%nobody", new_topic])
    assert [topic.name for topic in (await client.admin("ListTopics", request)).topics] == [new_topic]
    assert code(await client.admin("ListTopics", names=["a b"])) == "ILLEGAL_TOPIC"


# --- purging


async def purge(client: RawClient, name: str, **fields: Proto) -> admin_pb2.PurgeTopicResponse:
    answer = await client.admin("PurgeTopic", name=name, **fields)
    assert isinstance(answer, admin_pb2.PurgeTopicResponse)
    return answer


def purged(answer: admin_pb2.PurgeTopicResponse) -> int:
    """How many messages went, or would go."""
    assert code(answer) == "OK", answer.status.message
    return sum(queue.after - queue.first for queue in answer.queues)


async def held(client: RawClient, name: str) -> int:
    return sum(queue.max_offset - queue.min_offset for queue in (await describe_topic(client, name)).queues)


async def test_a_topic_is_purged_for_all_groups_and_goes_on(client: RawClient, new_topic: str, group: str) -> None:
    for number in range(5):
        await client.send(new_topic, b"old %d" % number)
    assert purged(await purge(client, new_topic, dry_run=True)) == 5
    assert await held(client, new_topic) == 5
    answer = await purge(client, new_topic)
    assert (purged(answer), len(answer.queues)) == (5, len((await describe_topic(client, new_topic)).queues))
    assert await held(client, new_topic) == 0
    await client.send(new_topic, b"new")
    assert [received.body for received in (await client.receive(new_topic, group)).messages] == [b"new"]


async def test_a_purge_before_a_time_leaves_what_was_stored_since(client: RawClient, new_topic: str) -> None:
    await client.send(new_topic, b"a")
    before = Timestamp()
    before.FromMilliseconds(int(time.time() * 1000) - 3_600_000)
    assert purged(await purge(client, new_topic, before=before)) == 0
    before.FromMilliseconds(int(time.time() * 1000) + 3_600_000)
    assert purged(await purge(client, new_topic, before=before)) == 1
    assert await held(client, new_topic) == 0


async def test_a_purge_leaves_what_is_for_later(client: RawClient, new_topic: str, group: str) -> None:
    await create_topic(client, name=new_topic, type=pb.DELAY)
    due = Timestamp()
    due.FromMilliseconds(int(time.time() * 1000) + 500)
    await client.send(new_topic, b"later", delivery_timestamp=due)
    assert purged(await purge(client, new_topic)) == 0
    received = await client.receive(new_topic, group, poll_s=20)
    assert [each.body for each in received.messages] == [b"later"]


async def test_what_is_no_topic_to_purge_is_refused(client: RawClient, new_topic: str, group: str) -> None:
    assert code(await purge(client, new_topic)) == "TOPIC_NOT_FOUND"
    await create_group(client, name=group)
    assert code(await purge(client, f"%RETRY%{group}")) == "ILLEGAL_TOPIC"
    assert purged(await purge(client, f"%DLQ%{group}")) == 0
