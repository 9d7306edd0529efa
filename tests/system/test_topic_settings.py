"""Topics with a flush mode and a retention of their own: how they are made, shown and changed."""

from datetime import timedelta
from pathlib import Path

import pytest

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.pool import Duration
from tests.support.embedded import Embedded, RawClient, code, local_settings
from tests.system.conftest import SERVER_LOOP
from tests.system.test_update_topic import update

pytestmark = SERVER_LOOP
DAY = Duration(seconds=86_400)


async def create(client: RawClient, topic: admin_pb2.Topic) -> admin_pb2.CreateTopicResponse:
    answer = await client.admin("CreateTopic", topic=topic)
    assert isinstance(answer, admin_pb2.CreateTopicResponse)
    return answer


async def test_a_topic_is_made_with_settings_and_changed(client: RawClient, new_topic: str) -> None:
    asked = admin_pb2.Topic(name=new_topic, flush=admin_pb2.FLUSH_ASYNC, retention=DAY)
    assert code(await create(client, asked)) == "OK"
    assert not (await create(client, asked)).created
    assert code(await create(client, admin_pb2.Topic(name=new_topic))) == "OK", "what is not asked for is as it is"
    [listed] = (await client.admin("ListTopics", names=[new_topic])).topics
    assert (listed.flush, listed.retention) == (admin_pb2.FLUSH_ASYNC, DAY)
    changed = await update(client, new_topic, flush=admin_pb2.FLUSH_BROKER)
    assert (changed.flush, changed.retention) == (admin_pb2.FLUSH_BROKER, DAY)
    changed = await update(client, new_topic, retention=Duration())
    assert not changed.HasField("retention")


async def test_a_topic_that_is_there_with_other_settings_is_refused_with_them(
    client: RawClient, new_topic: str
) -> None:
    await create(client, admin_pb2.Topic(name=new_topic, retention=DAY))
    refused = await create(client, admin_pb2.Topic(name=new_topic, flush=admin_pb2.FLUSH_SYNC))
    assert refused.status.message == (
        f"topic {new_topic!r} exists with permission read-write, flush as each broker has it; "
        "change it with `ternmq topic update`, or ask for the same settings"
    )
    refused = await create(client, admin_pb2.Topic(name=new_topic, retention=Duration(seconds=3600)))
    assert "with permission read-write, retention 1d; " in refused.status.message


@pytest.mark.parametrize("retention", [Duration(seconds=59), Duration(seconds=-1), Duration(seconds=2**40)])
async def test_a_retention_that_can_not_be_is_refused(
    client: RawClient, new_topic: str, topic: str, retention: Duration
) -> None:
    assert code(await create(client, admin_pb2.Topic(name=new_topic, retention=retention))) == "BAD_REQUEST"
    assert code(await client.admin("UpdateTopic", name=topic, retention=retention)) == "BAD_REQUEST"


@pytest.mark.parametrize("flush", [-1, 99])
async def test_a_flush_mode_that_nobody_knows_is_refused(client: RawClient, topic: str, flush: int) -> None:
    assert code(await client.admin("UpdateTopic", name=topic, flush=flush)) == "BAD_REQUEST"


async def test_settings_outlive_a_restart_and_old_messages_go_while_those_of_others_stay(tmp_path: Path) -> None:
    settings = local_settings(tmp_path, test_clock=True, retention_check_interval_ms=1000)
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        await create(client, admin_pb2.Topic(name="short", queues=1, retention=DAY, flush=admin_pb2.FLUSH_ASYNC))
        await client.create_topic("long")
        for topic in ("short", "long"):
            await client.send(topic, b"old")
        await client.advance(timedelta(hours=25).total_seconds())
        for topic in ("short", "long"):
            await client.send(topic, b"new")
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        [listed] = (await client.admin("ListTopics", names=["short"])).topics
        assert (listed.flush, listed.retention) == (admin_pb2.FLUSH_ASYNC, DAY)
        await client.advance(timedelta(hours=25).total_seconds())
        while await first_offset(client, "short") < 2:
            pass  # each look is a call, and retention looks every second
        assert await first_offset(client, "long") == 0
        assert (await client.receive("long", "readers", batch_size=32)).bodies == [b"old", b"new"]
        assert (await client.receive("short", "readers")).code == "MESSAGE_NOT_FOUND"


async def first_offset(client: RawClient, topic: str) -> int:
    described = await client.admin("DescribeTopic", name=topic)
    offset: int = described.queues[0].min_offset
    return offset
