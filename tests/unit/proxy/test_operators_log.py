"""What the log tells an operator: who made, changed and deleted what, and who was refused."""

import logging

import pytest

from ternmq_common.model import Group
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_proxy.change_log import PER_MINUTE, ChangeLog
from tests.support.embedded import Embedded, RawClient
from tests.unit.proxy.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP


def said(caplog: pytest.LogCaptureFixture, containing: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if containing in record.getMessage()]


@pytest.fixture(autouse=True)
def info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


async def test_a_topic_that_is_made_changed_and_deleted_is_told_with_who_did_it(
    client: RawClient, new_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    await client.create_topic(new_topic, queues=2, kind=pb.DELAY)
    await client.create_topic(new_topic, queues=2, kind=pb.DELAY)  # it is there: nothing happens
    await client.admin("UpdateTopic", admin_pb2.UpdateTopicRequest(name=new_topic, queues=4, permission=pb.READ))
    await client.admin("DeleteTopic", admin_pb2.DeleteTopicRequest(name=new_topic))
    made, changed, deleted = said(caplog, new_topic)
    who = f"by client {client.client_id} at 127.0.0.1:"
    assert made.startswith(f"topic {new_topic} was made {who}")
    assert made.endswith(": type DELAY, queues 2")
    assert changed.startswith(f"topic {new_topic} was changed {who}")
    assert "queues 2 to 4" in changed
    assert "permission" in changed
    assert "type" not in changed
    assert deleted.startswith(f"topic {new_topic} was deleted {who}")


async def test_a_group_that_is_made_changed_and_deleted_is_told_with_who_did_it(
    client: RawClient, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    asked = admin_pb2.Group(name=group, max_attempts=7)
    await client.admin("CreateGroup", admin_pb2.CreateGroupRequest(group=asked))
    asked.max_attempts = 9
    await client.admin("UpdateGroup", admin_pb2.UpdateGroupRequest(group=asked))
    await client.admin("DeleteGroup", admin_pb2.DeleteGroupRequest(name=group))
    made, changed, deleted = said(caplog, group)
    who = f"by client {client.client_id} at 127.0.0.1:"
    assert made.startswith(f"group {group} was made {who}")
    assert made.endswith(": max_attempts 7")
    assert changed.startswith(f"group {group} was changed {who}")
    assert changed.endswith(": max_attempts 7 to 9")
    assert deleted.startswith(f"group {group} was deleted {who}")


async def test_what_is_made_by_its_use_is_told_with_who_used_it(
    client: RawClient, other: RawClient, new_topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    await client.send(new_topic, b"1")
    await client.send(new_topic, b"2")
    await other.receive(new_topic, group)
    await other.receive(new_topic, group)
    (topic_made,) = said(caplog, f"topic {new_topic}")
    (group_made,) = said(caplog, f"group {group}")
    assert topic_made.startswith(f"topic {new_topic} was made on first use by client {client.client_id} at 127.0.0.1:")
    assert group_made.startswith(f"group {group} was made on first use by client {other.client_id} at 127.0.0.1:")


async def test_who_calls_is_escaped_and_cut(server: Embedded, new_topic: str, caplog: pytest.LogCaptureFixture) -> None:
    async with RawClient(server.grpc, metadata=(("x-mq-client-id", "x" * 5000),)) as client:
        await client.admin("CreateTopic", admin_pb2.CreateTopicRequest(topic=admin_pb2.Topic(name=new_topic)))
    (line,) = said(caplog, new_topic)
    assert len(line) < 400


async def test_whoever_makes_and_deletes_without_end_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    log = ChangeLog(lambda: now[0])
    for number in range(PER_MINUTE + 5):
        log.made(Group(name=f"filler{number}"), by_use=False)
    assert len(said(caplog, "filler")) == PER_MINUTE
    now[0] += 60
    log.deleted("group", "filler")
    assert said(caplog, "filler")[-1] == "group filler was deleted by the server; 5 times more since it was said last"
