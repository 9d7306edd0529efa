"""What the log tells an operator: who made, changed and deleted what, and who was refused."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import grpc.aio
import pytest
import pytest_asyncio

from ternmq_common.shard.model import ConsumerGroup
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_proxy.catalog.change_log import PER_MINUTE, ChangeLog
from ternmq_proxy.fronts.refusals import RefusalLog
from tests.support.embedded import Embedded, Proto, RawClient, code, local_settings, message
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP


def said(caplog: pytest.LogCaptureFixture, containing: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if containing in record.getMessage()]


@pytest.fixture(autouse=True)
def info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    """Instead of that of all tests, which make more in a minute than is logged of one host."""
    async with Embedded(local_settings(tmp_path_factory.mktemp("told"))) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def fresh(tmp_path: Path) -> AsyncIterator[RawClient]:
    """A client of a server that has refused nobody yet, and makes nothing by itself."""
    async with Embedded(local_settings(tmp_path, auto_create=False)) as server, RawClient(server.grpc) as client:
        yield client


async def test_a_topic_that_is_made_changed_and_deleted_is_told_with_who_did_it(
    client: RawClient, new_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    await client.create_topic(new_topic, queues=2, kind=pb.DELAY)
    await client.create_topic(new_topic, queues=2, kind=pb.DELAY)  # it is there: nothing happens
    await client.admin("UpdateTopic", name=new_topic, queues=4, permission=pb.READ)
    await client.admin("DeleteTopic", name=new_topic)
    made, changed, deleted = said(caplog, new_topic)
    who = f"by client {client.client_id} at 127.0.0.1:"
    assert made.startswith(f"topic {new_topic} was created {who}")
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
    await client.admin("CreateGroup", group=asked)
    asked.max_attempts = 9
    await client.admin("UpdateGroup", group=asked)
    await client.admin("DeleteGroup", name=group)
    made, changed, deleted = said(caplog, group)
    who = f"by client {client.client_id} at 127.0.0.1:"
    assert made.startswith(f"group {group} was created {who}")
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
    assert topic_made.startswith(
        f"topic {new_topic} was created on first use by client {client.client_id} at 127.0.0.1:"
    )
    assert group_made.startswith(f"group {group} was created on first use by client {other.client_id} at 127.0.0.1:")


async def test_a_long_client_id_is_cut(server: Embedded, new_topic: str, caplog: pytest.LogCaptureFixture) -> None:
    async with RawClient(server.grpc, metadata=(("x-mq-client-id", "x" * 5000),)) as client:
        await client.admin("CreateTopic", topic=admin_pb2.Topic(name=new_topic))
    (line,) = said(caplog, new_topic)
    assert len(line) < 400


async def test_whoever_makes_and_deletes_without_end_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    log = ChangeLog(lambda: now[0])
    for number in range(PER_MINUTE + 5):
        log.log_created(ConsumerGroup(name=f"filler{number}"), by_use=False)
    assert len(said(caplog, "filler")) == PER_MINUTE
    now[0] += 60
    log.log_deleted("group", "filler")
    assert said(caplog, "filler")[-1] == "group filler was deleted by the server; 5 times more since it was logged last"


async def test_a_host_is_told_of_once_a_minute_for_each_kind_of_refusal(
    fresh: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        assert code(await fresh.call("SendMessage", messages=[message("typo", b"x")])) == "TOPIC_NOT_FOUND"
    (line,) = said(caplog, "was refused")
    assert line.startswith(f"SendMessage of client {fresh.client_id} at 127.0.0.1:")
    assert " was refused: TOPIC_NOT_FOUND: topic 'typo' does not exist" in line
    received = await fresh.receive("typo", "g")
    assert received.code == "TOPIC_NOT_FOUND"
    assert said(caplog, "was refused")[1].startswith(f"ReceiveMessage of client {fresh.client_id} at 127.0.0.1:")


async def test_the_number_left_out_is_told_with_the_next_refusal(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    refusals = RefusalLog(lambda: now[0])
    for port in range(5):
        refusals.log_refusal("SendMessage", pb.TOPIC_NOT_FOUND, "no topic", client_id="c", peer=f"h:{port}")
    refusals.log_refusal("SendMessage", pb.TOO_MANY_REQUESTS, "x" * 1000, client_id="", peer="h:5")
    now[0] = 61.0
    refusals.log_refusal("SendMessage", pb.TOPIC_NOT_FOUND, "no topic", client_id="c", peer="h:6")
    first, other, second = said(caplog, "was refused")
    assert first == "SendMessage of client c at h:0 was refused: TOPIC_NOT_FOUND: no topic"
    assert other.startswith("SendMessage of client without a name at h:5 was refused: TOO_MANY_REQUESTS: xxx")
    assert len(other) < 500
    assert second == f"{first.replace('h:0', 'h:6')}; 4 times more since it was logged last"


REFUSED = [
    ("QueryRoute", rpc.QueryRouteRequest(topic={"name": "a b"}), "ILLEGAL_TOPIC"),
    ("SendMessage", rpc.SendMessageRequest(messages=[message("a b", b"x")]), "ILLEGAL_TOPIC"),
    ("Heartbeat", rpc.HeartbeatRequest(), "UNRECOGNIZED_CLIENT_TYPE"),
    ("SyncLiteSubscription", rpc.SyncLiteSubscriptionRequest(), "ILLEGAL_TOPIC"),
    ("AckMessage", rpc.AckMessageRequest(entries=[rpc.AckMessageEntry()] * 2000), "TOO_MANY_REQUESTS"),
]


@pytest.mark.parametrize(("name", "request_", "refusal"), REFUSED)
async def test_a_call_that_is_refused_is_told_with_its_client_and_why(
    fresh: RawClient, caplog: pytest.LogCaptureFixture, name: str, request_: Proto, refusal: str
) -> None:
    assert code(await fresh.call(name, request_)) == refusal
    (line,) = said(caplog, "was refused")
    assert line.startswith(f"{name} of client {fresh.client_id} at 127.0.0.1:")
    assert f" was refused: {refusal}: " in line


async def test_settings_that_are_refused_are_told(fresh: RawClient, caplog: pytest.LogCaptureFixture) -> None:
    settings = pb.Settings(client_type=pb.PUSH_CONSUMER, subscription={"group": {"name": "a b"}})
    stream = fresh.telemetry()
    await stream.write(rpc.TelemetryCommand(settings=settings))
    with pytest.raises(grpc.aio.AioRpcError):
        await stream.read()
    (line,) = said(caplog, "Telemetry of client")
    assert "ILLEGAL_CONSUMER_GROUP" in line


async def test_what_is_no_mistake_is_not_told(
    client: RawClient, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    await client.send(topic, b"1")
    received = await client.receive(topic, group)
    await client.ack(topic, group, received.messages[0].system_properties.receipt_handle)
    assert (await client.receive(topic, group)).code == "MESSAGE_NOT_FOUND"
    await client.call("GetOffset", group={"name": group}, message_queue={"topic": {"name": topic}})
    assert said(caplog, "was refused") == []


async def test_nothing_is_told_of_a_message(
    client: RawClient, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    await client.receive(topic, group)  # makes the group
    caplog.clear()
    for _ in range(20):
        await client.send(topic, b"1")
        received = await client.receive(topic, group)
        await client.ack(topic, group, received.messages[0].system_properties.receipt_handle)
    # The server is shared: it may notice meanwhile that clients of other tests are gone.
    assert [record for record in caplog.records if not record.getMessage().startswith("disappeared")] == []
