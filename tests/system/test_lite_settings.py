"""LITE topics with a TTL of their lite topics, and lite groups: how they are made, shown and changed."""

from pathlib import Path

import pytest
import pytest_asyncio

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.pool import Duration
from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.embedded import Embedded, Proto, RawClient, code, local_settings
from tests.system.conftest import SERVER_LOOP
from tests.system.test_admin import create_group, describe_group
from tests.system.test_admin_consumption import update_group
from tests.system.test_topic_settings import create
from tests.system.test_update_topic import update

pytestmark = SERVER_LOOP
DAY = Duration(seconds=86_400)
LEAST = Duration(seconds=900)
ALL: dict[str, Proto] = {
    "exclusive": True,
    "quota": 7,
    "wildcard": True,
    "resets_when_taken": True,
    "resets_when_unsubscribed": True,
}


def lite(topic: str, **fields: Proto) -> admin_pb2.LiteSettings:
    return admin_pb2.LiteSettings(topic=topic, **fields)


@pytest_asyncio.fixture(loop_scope="session")
async def chats(client: RawClient, new_topic: str) -> str:
    """A LITE topic."""
    return await client.create_topic(new_topic, kind=pb.LITE)


async def has_no_group(client: RawClient, name: str) -> bool:
    answer = await client.admin("ListGroups")
    return name not in [group.name for group in answer.groups]


async def test_a_lite_topic_is_made_with_a_ttl_that_changes(client: RawClient, new_topic: str) -> None:
    asked = admin_pb2.Topic(name=new_topic, type=pb.LITE, lite_ttl=DAY)
    assert code(await create(client, asked)) == "OK"
    assert not (await create(client, asked)).created
    assert code(await create(client, admin_pb2.Topic(name=new_topic, type=pb.LITE))) == "OK"
    refused = await create(client, admin_pb2.Topic(name=new_topic, type=pb.LITE, lite_ttl=LEAST))
    assert "exists with permission read-write, lite ttl 1d; " in refused.status.message
    [listed] = (await client.admin("ListTopics", names=[new_topic])).topics
    assert listed.lite_ttl == DAY
    assert (await update(client, new_topic, queues=listed.queues + 1)).lite_ttl == DAY, "what is not asked for stays"
    assert (await update(client, new_topic, lite_ttl=LEAST)).lite_ttl == LEAST
    assert not (await update(client, new_topic, lite_ttl=Duration())).HasField("lite_ttl")


@pytest.mark.parametrize("ttl", [Duration(seconds=899), Duration(seconds=-1), Duration(seconds=2**40)])
async def test_a_ttl_that_can_not_be_changes_nothing(client: RawClient, new_topic: str, ttl: Duration) -> None:
    assert code(await create(client, admin_pb2.Topic(name=new_topic, type=pb.LITE, lite_ttl=ttl))) == "BAD_REQUEST"
    assert code(await create(client, admin_pb2.Topic(name=new_topic, type=pb.LITE, lite_ttl=LEAST))) == "OK"
    assert code(await client.admin("UpdateTopic", name=new_topic, lite_ttl=ttl, queues=64)) == "BAD_REQUEST"
    [listed] = (await client.admin("ListTopics", names=[new_topic])).topics
    assert (listed.lite_ttl, listed.queues < 64) == (LEAST, True)


async def test_only_a_lite_topic_has_a_ttl(client: RawClient, new_topic: str, topic: str) -> None:
    for kind in (pb.MESSAGE_TYPE_UNSPECIFIED, pb.NORMAL, pb.FIFO):
        refused = await create(client, admin_pb2.Topic(name=new_topic, type=kind, lite_ttl=DAY))
        assert (code(refused), "only for LITE topics" in refused.status.message) == ("BAD_REQUEST", True)
    assert code(await client.admin("UpdateTopic", name=topic, lite_ttl=DAY)) == ("BAD_REQUEST")
    assert not (await update(client, topic, lite_ttl=Duration())).HasField("lite_ttl")


async def test_a_lite_group_is_made_shown_and_changed(client: RawClient, chats: str, group: str) -> None:
    assert code(await create_group(client, name=group, lite=lite(chats))) == "OK"
    assert (await describe_group(client, group)).group.lite == lite(chats, quota=2000)
    assert not (await create_group(client, name=group, lite=lite(chats, quota=2000))).created
    answer = await update_group(client, name=group, fifo=True, max_attempts=3, lite=lite(chats, **ALL))
    assert (answer.group.lite, answer.group.fifo, answer.group.max_attempts) == (lite(chats, **ALL), True, 3)
    [listed] = [each for each in (await client.admin("ListGroups")).groups if each.name == group]
    assert listed.lite == lite(chats, **ALL)
    refused = await create_group(client, name=group, fifo=True, max_attempts=3, lite=lite(chats))
    assert code(refused) == "BAD_REQUEST"
    kept = f"exists with lite {chats},model=exclusive,quota=7,wildcard,reset=taken+unsubscribed; "
    assert kept in refused.status.message


async def test_any_other_group_has_no_lite_settings(client: RawClient, topic: str, group: str) -> None:
    await client.send(topic, b"0")
    await client.receive(topic, group)
    assert not (await describe_group(client, group)).group.HasField("lite")


async def test_a_lite_group_is_bound_to_a_lite_topic_that_is_there(client: RawClient, topic: str, group: str) -> None:
    absent = await create_group(client, name=group, lite=lite("nowhere"))
    assert code(absent) == "TOPIC_NOT_FOUND"
    assert "make it with `ternmq topic create nowhere --type lite`" in absent.status.message
    wrong = await create_group(client, name=group, lite=lite(topic))
    assert code(wrong) == "ILLEGAL_TOPIC"
    assert wrong.status.message == (
        f"a lite group is bound to a LITE topic, which {topic!r} is not: its type is NORMAL"
    )
    assert code(await create_group(client, name=group, lite=lite("a b"))) == "ILLEGAL_TOPIC"
    unnamed = await create_group(client, name=group, lite=lite("", quota=3))
    assert (code(unnamed), "none was named" in unnamed.status.message) == ("BAD_REQUEST", True)
    assert await has_no_group(client, group)


@pytest.mark.parametrize("quota", [-1, 100_001])
async def test_a_quota_that_can_not_be_changes_nothing(client: RawClient, chats: str, group: str, quota: int) -> None:
    assert code(await create_group(client, name=group, lite=lite(chats, quota=quota))) == "BAD_REQUEST"
    assert await has_no_group(client, group)
    await create_group(client, name=group, lite=lite(chats, quota=100_000))
    assert code(await update_group(client, name=group, lite=lite(chats, quota=quota))) == "BAD_REQUEST"
    assert (await describe_group(client, group)).group.lite == lite(chats, quota=100_000)


async def test_a_group_stays_with_its_topic_and_what_it_is(client: RawClient, chats: str, group: str) -> None:
    other = await client.create_topic(f"{chats}-2", kind=pb.LITE)
    await create_group(client, name=group, lite=lite(chats))
    for fields in ({}, {"lite": lite(other)}, {"lite": lite("")}):
        refused = await update_group(client, name=group, max_attempts=3, **fields)
        assert code(refused) == "BAD_REQUEST"
        assert f"is a lite group that is bound to topic {chats!r}, and that can't change" in refused.status.message
    described = (await describe_group(client, group)).group
    assert (described.lite, described.max_attempts) == (lite(chats, quota=2000), 17)
    await create_group(client, name=f"{group}-2")
    for settings in (lite(chats), lite("", quota=3)):
        refused = await update_group(client, name=f"{group}-2", max_attempts=3, lite=settings)
        assert (code(refused), "is no lite group, and that can't change" in refused.status.message) == (
            "BAD_REQUEST",
            True,
        )
    described = (await describe_group(client, f"{group}-2")).group
    assert (described.HasField("lite"), described.max_attempts) == (False, 17)


async def test_lite_settings_outlive_a_restart(tmp_path: Path) -> None:
    settings = local_settings(tmp_path)
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        await create(client, admin_pb2.Topic(name="chats", type=pb.LITE, lite_ttl=DAY))
        await create_group(client, name="agents", lite=lite("chats", **ALL))
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        [listed] = (await client.admin("ListTopics", names=["chats"])).topics
        assert listed.lite_ttl == DAY
        assert (await describe_group(client, "agents")).group.lite == lite("chats", **ALL)
