"""Operators see which member of a group reads and has locked which queue, by which protocol and library, and where."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import ternmq
from ternmq.admin.groups import GroupDescription, QueueProgress
from tests.support.command_line import CommandLine
from tests.support.embedded import Embedded, RawClient
from tests.support.json_api import JsonApi
from tests.support.remoting_client import RemotingClient
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP


async def describe(server: Embedded, group: str) -> GroupDescription:
    async with ternmq.Admin(server.grpc) as admin:
        return await admin.describe_group(group)


def row_of(found: GroupDescription, topic: str, queue_id: int) -> QueueProgress:
    [row] = [each for each in found.progress if (each.topic, each.queue_id) == (topic, queue_id)]
    return row


async def test_a_member_is_shown_with_its_queues_and_locks(server: Embedded) -> None:
    group, topic = "shown-4x", "shown-topic"
    began = datetime.now(UTC) - timedelta(seconds=1)
    async with await RemotingClient.connect(server.remoting) as client:
        await client.send(topic, b"first")
        await client.send(topic, b"second")
        # It is in another group before, so that the proxy knows it by another id in this one.
        await client.heartbeat("shown", consumers={"shown-before-4x": [topic], group: [topic]})
        assert (await client.pull(group, topic, queue_id=0)).code == 0
        assert (await client.pull(group, topic, queue_id=3)).code == 19  # has no message
        [broker] = json.loads((await client.call(304)).body)["topicList"][1:]
        assert await client.lock(group, "shown", (topic, broker, 0)) == [(topic, broker, 0)]
        found = await describe(server, group)
        [member] = found.members
        assert (member.client_id, member.protocol, member.language, member.version) == (
            "shown",
            "remoting",
            "JAVA",
            "4.9.8",
        )
        assert member.address.startswith("127.0.0.1:")
        assert member.since is not None
        assert member.since > began
        assert dict(member.subscriptions) == {topic: "*"}
        read, empty = row_of(found, topic, 0), row_of(found, topic, 3)
        assert read.lag == 2
        assert read.reader is not None
        assert read.lock is not None
        assert (read.reader.client_id, read.lock.client_id) == ("shown", "shown")
        assert read.reader.since is not None
        assert read.reader.last_pull is not None
        assert read.lock.since is not None
        assert read.lock.until is not None
        assert began < read.reader.since <= read.reader.last_pull
        assert timedelta(seconds=50) < read.lock.until - read.lock.since <= timedelta(seconds=61)
        assert empty.reader is not None
        assert (empty.reader.client_id, empty.lock) == ("shown", None)
        assert {each.queue_id for each in found.progress if each.topic == topic} == {0, 3}
        assert (await client.call(15, consumerGroup=group, topic=topic, queueId=0, commitOffset=1)).code == 0
        await client.call(35, clientID="shown", consumerGroup=group)
        found = await describe(server, group)
        assert found.members == ()
        assert row_of(found, topic, 0).reader is None


async def test_the_command_and_the_json_api_show_the_same(server: Embedded) -> None:
    group, topic = "printed-4x", "printed-topic"
    command = CommandLine(server.grpc)
    async with await RemotingClient.connect(server.remoting) as client:
        await client.send(topic, b"first")
        await client.heartbeat("printed", consumers={group: [topic]}, producers=("printed-producers",))
        assert (await client.pull(group, topic)).code == 0
        record = await asyncio.to_thread(command.record, "group", "describe", group)
        [row] = [each for each in record["progress"] if each["topic"] == topic]
        assert (row["reader"]["client"], row["lock"]) == ("printed", None)
        [member] = record["members"]
        assert (member["client"], member["protocol"], member["language"]) == ("printed", "remoting", "java")
        text = (await asyncio.to_thread(command, "group", "describe", group)).output
        assert "READER" in text
        assert "LOCK" not in text
        [listed] = await asyncio.to_thread(command.records, "client", "list", "--group", group)
        assert (listed["client_id"], listed["protocol"], listed["group"]) == ("printed", "remoting", group)
        assert listed["address"] == member["address"]
        described = (await JsonApi(server.http).get(f"/groups/{group}")).json
        [queue] = [each for each in described["progress"] if each["topic"] == topic]
        assert queue["reader"]["client_id"] == "printed"
        assert described["members"][0]["protocol"] == "remoting"


async def test_a_client_is_listed_once_for_each_of_its_groups(server: Embedded) -> None:
    topic, groups = "twice-topic", ["twice-4x-1", "twice-4x-2", "twice-4x-3"]
    command = CommandLine(server.grpc)
    async with await RemotingClient.connect(server.remoting) as client:
        await client.send(topic, b"first")
        await client.heartbeat("twice", consumers={group: [topic] for group in groups})
        records = await asyncio.to_thread(command.records, "client", "list", "--topic", topic)
        assert [(each["client_id"], each["group"]) for each in records] == [("twice", group) for group in groups]


async def test_members_by_grpc_are_shown_with_their_protocol(server: Embedded) -> None:
    group, topic = "shown-5x", "shown-5x-topic"
    async with RawClient(server.grpc) as client:
        await client.send(topic, b"first")
        assert (await client.receive(topic, group)).messages
        found = await describe(server, group)
        [member] = found.members
        assert (member.protocol, member.address.rpartition(":")[0]) == ("grpc", "")
        assert row_of(found, topic, 0).reader is None


async def test_a_tool_that_pulls_and_keeps_no_offset_adds_no_lag(server: Embedded) -> None:
    group, topic = "tool-4x", "tool-topic"
    async with await RemotingClient.connect(server.remoting) as client:
        await client.send(topic, b"first")
        assert (await client.pull(group, topic, subscription="*", sysFlag=4)).code == 0
        assert (await describe(server, group)).progress == ()
