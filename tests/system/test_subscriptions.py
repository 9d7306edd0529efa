"""What the members of a group subscribe to, where they contradict each other, and where a group begins
(`consuming.md, Subscriptions`)."""

import logging
from collections.abc import Callable

import msgspec
import pytest
import pytest_asyncio

from ternmq_common.limits import HOUR_MS
from ternmq_common.server_settings import ServerSettings
from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.embedded import Embedded, RawClient, code, local_settings
from tests.system.conftest import SERVER_LOOP
from tests.system.test_admin import create_group, describe_group, describe_topic
from tests.system.test_offsets import get, pull
from tests.system.test_retry_and_dead_letters import terminate

pytestmark = SERVER_LOOP


async def subscribe(
    client: RawClient,
    group: str,
    expressions: dict[str, str],
    *,
    kind: "pb.FilterType" = pb.TAG,
    client_type: "pb.ClientType" = pb.PUSH_CONSUMER,
) -> None:
    """Send settings with these filters by topic."""
    entries = [
        {"topic": {"name": topic}, "expression": {"type": kind, "expression": expression}}
        for topic, expression in expressions.items()
    ]
    subscription = {"group": {"name": group}, "subscriptions": entries}
    answer = await client.configure(pb.Settings(client_type=client_type, subscription=subscription))
    assert answer.status.code == pb.OK


async def inconsistencies(client: RawClient, group: str) -> list[str]:
    return list((await describe_group(client, group)).inconsistencies)


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture, group: str) -> Callable[[], list[str]]:
    """The warnings so far that name the group."""
    caplog.set_level(logging.WARNING)
    return lambda: [record.getMessage() for record in caplog.records if group in record.getMessage()]


# --- members and what they read


async def test_a_member_is_described_with_its_kind_and_what_it_reads(
    client: RawClient, other: RawClient, group: str
) -> None:
    await create_group(client, name=group)
    await subscribe(client, group, {"orders": "b || a", "payments": ""})
    await subscribe(other, group, {"refunds": "amount > 5"}, kind=pb.SQL, client_type=pb.SIMPLE_CONSUMER)
    members = {member.client_id: member for member in (await describe_group(client, group)).members}
    assert members.keys() == {client.client_id, other.client_id}
    described = members[client.client_id]
    assert (described.client_type, dict(described.subscriptions)) == (
        pb.PUSH_CONSUMER,
        {"orders": "a || b", "payments": "*"},
    )
    described = members[other.client_id]
    assert (described.client_type, dict(described.subscriptions)) == (pb.SIMPLE_CONSUMER, {"refunds": "amount > 5"})


async def test_a_receive_tells_what_a_member_reads_too(client: RawClient, topic: str, group: str) -> None:
    await client.receive(topic, group, tags="a")
    [member] = (await describe_group(client, group)).members
    assert (member.client_id, dict(member.subscriptions)) == (client.client_id, {topic: "a"})
    await client.receive(topic, group, tags="b")
    [member] = (await describe_group(client, group)).members
    assert member.subscriptions == {topic: "b"}


async def test_a_member_that_left_is_no_more_described(client: RawClient, other: RawClient, group: str) -> None:
    await create_group(client, name=group)
    await subscribe(client, group, {"orders": "a"})
    await subscribe(other, group, {"orders": "a"})
    await terminate(client, group)
    [member] = (await describe_group(other, group)).members
    assert (member.client_id, dict(member.subscriptions)) == (other.client_id, {"orders": "a"})


# --- contradictions


async def test_members_that_filter_a_topic_differently_are_described_and_logged(
    client: RawClient, other: RawClient, group: str, warned: Callable[[], list[str]]
) -> None:
    await create_group(client, name=group)
    await subscribe(client, group, {"orders": "a", "payments": "*"})
    assert (await inconsistencies(client, group), warned()) == ([], [])
    await subscribe(other, group, {"orders": "b", "payments": "*"})
    [found] = await inconsistencies(client, group)
    for part in ("orders", "'a'", "'b'", client.client_id, other.client_id):
        assert part in found
    assert "payments" not in found
    [warning] = warned()
    for part in ("orders", "'a'", "'b'", other.client_id):
        assert part in warning


async def test_receives_that_contradict_each_other_are_found_too(
    client: RawClient, other: RawClient, topic: str, group: str, warned: Callable[[], list[str]]
) -> None:
    await client.receive(topic, group)
    await other.receive(topic, group, filter_expression={"type": pb.SQL, "expression": "a = 1"})
    [found] = await inconsistencies(client, group)
    assert topic in found
    assert "'a = 1'" in found
    assert len(warned()) == 1


@pytest.mark.parametrize(("one", "same"), [("a||b", " b || a "), ("", "*"), ("a", "a||a")])
async def test_the_same_filter_in_other_words_is_no_contradiction(
    client: RawClient, other: RawClient, group: str, one: str, same: str, warned: Callable[[], list[str]]
) -> None:
    await subscribe(client, group, {"orders": one})
    await subscribe(other, group, {"orders": same})
    assert (await inconsistencies(client, group), warned()) == ([], [])


async def test_each_member_is_served_by_its_own_filter_all_the_same(
    client: RawClient, other: RawClient, topic: str, group: str
) -> None:
    await subscribe(client, group, {topic: "a"})
    await subscribe(other, group, {topic: "b"})
    await client.send(topic, b"1", tag="a")
    await client.send(topic, b"2", tag="b")
    assert (await other.receive(topic, group, tags="b")).bodies == [b"2"]
    assert (await client.receive(topic, group, tags="a")).bodies == []  # skipped for good


# --- where a group begins


async def receives_first(client: RawClient, topic: str, group: str, consume_from: str) -> list[bytes]:
    """What a new group finds, and how it goes on."""
    await create_group(client, name=group, consume_from=consume_from)
    found = (await client.receive(topic, group)).bodies
    await client.send(topic, b"new")
    assert (await client.receive(topic, group)).bodies == [b"new"]
    return found


@pytest.mark.parametrize(
    ("consume_from", "expected"),
    [("", [b"0", b"1"]), ("auto", [b"0", b"1"]), ("earliest", [b"0", b"1"]), ("latest", []), ("0", [b"0", b"1"])],
)
async def test_a_new_group_begins_where_it_is_to(
    client: RawClient, topic: str, group: str, consume_from: str, expected: list[bytes]
) -> None:
    await client.send(topic, b"0", b"1")
    assert await receives_first(client, topic, group, consume_from) == expected


@pytest.mark.parametrize(
    ("consume_from", "expected"), [("earliest", [b"0", b"1"]), ("latest", []), ("0", [b"0", b"1"])]
)
async def test_an_ordered_group_begins_where_it_is_to(
    client: RawClient, topic: str, group: str, consume_from: str, expected: list[bytes]
) -> None:
    await client.send(topic, b"0", b"1")
    await create_group(client, name=group, consume_from=consume_from, fifo=True)
    assert (await client.receive(topic, group)).bodies == expected


async def test_a_new_group_begins_with_the_first_message_of_a_time_or_later(
    client: RawClient, topic: str, group: str
) -> None:
    await client.send(topic, b"before")
    times_ms: list[int] = []
    while len(times_ms) < 2:  # until the clock has gone on
        await client.send(topic, b"after")
        messages = (await pull(client, topic, 0)).messages
        stored = [each.system_properties.store_timestamp.ToMilliseconds() for each in messages]
        times_ms = sorted(set(stored))[-2:]
    expected = [each.body for each, stored_ms in zip(messages, stored, strict=True) if stored_ms >= times_ms[1]]
    assert await receives_first(client, topic, group, str(times_ms[1])) == expected
    await create_group(client, name=f"{group}-later", consume_from=str(times_ms[1] + HOUR_MS))
    assert (await client.receive(topic, f"{group}-later")).bodies == []


async def test_where_a_group_begins_is_decided_once_for_each_queue(client: RawClient, topic: str, group: str) -> None:
    await create_group(client, name=group, consume_from="latest")
    assert (await client.receive(topic, group)).bodies == []
    await client.send(topic, b"0", b"1")
    assert (await get(client, topic, group)).offset == 0
    assert (await client.receive(topic, group, batch_size=1)).bodies == [b"0"]
    assert (await client.receive(topic, group)).bodies == [b"1"]


@pytest.mark.parametrize("consume_from", ["first", "-1", "1e9", "LATEST", " latest", "1" * 16])
async def test_a_beginning_that_can_not_be_is_refused(client: RawClient, group: str, consume_from: str) -> None:
    assert code(await create_group(client, name=group, consume_from=consume_from)) == "BAD_REQUEST"


@pytest_asyncio.fixture(loop_scope="session")
async def old_topic(tmp_path_factory: pytest.TempPathFactory) -> "tuple[ServerSettings, str]":
    """A topic of which retention has removed the message b"0", while b"1" is left."""
    folder = tmp_path_factory.mktemp("old-topic")
    settings = local_settings(folder, retention_check_interval_ms=100, test_clock=True)
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        await client.create_topic("orders")
        await client.send("orders", b"0")
        await client.advance(365 * 24 * 3600)
        first = 0
        while not first:
            first = (await describe_topic(client, "orders")).queues[0].min_offset
        await client.send("orders", b"1")
    return settings, "orders"


@pytest.mark.parametrize(("consume_from", "expected"), [("auto", []), ("earliest", [b"1"]), ("0", [b"1"])])
async def test_a_new_group_is_spared_what_is_left_of_an_old_topic(
    old_topic: tuple[ServerSettings, str], consume_from: str, expected: list[bytes]
) -> None:
    settings, topic = old_topic
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        await create_group(client, name="g", consume_from=consume_from)
        assert (await client.receive(topic, "g")).bodies == expected
        await client.send(topic, b"2")
        assert (await client.receive(topic, "g")).bodies == [b"2"]


async def test_where_a_group_began_outlives_a_restart(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = local_settings(tmp_path_factory.mktemp("begun"))
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        await client.create_topic("orders")
        await client.send("orders", b"0")
        await create_group(client, name="g", consume_from="latest")
        assert (await client.receive("orders", "g")).bodies == []
        await client.send("orders", b"1")
    async with Embedded(settings) as server, RawClient(server.grpc) as client:
        group = (await client.admin("ListGroups")).groups[0]
        assert group.consume_from == "latest"
        assert (await client.receive("orders", "g")).bodies == [b"1"]


# --- what waits for them


async def test_a_group_that_only_subscribes_is_described_with_what_waits_for_it(
    client: RawClient, new_topic: str, group: str
) -> None:
    await client.create_topic(new_topic, queues=4)
    await create_group(client, name=group, consume_from="earliest")
    assert list((await describe_group(client, group)).progress) == []
    for _ in range(4):
        await client.send(new_topic, b"1", b"2")
    await subscribe(client, group, {new_topic: "*"})
    progress = (await describe_group(client, group)).progress
    assert [(row.queue_id, row.committed, row.cursor, row.max_offset) for row in progress] == [
        (queue_id, 0, 0, 2) for queue_id in range(4)
    ]
    assert all(row.HasField("oldest_age") for row in progress)


# --- members elsewhere


async def test_members_of_other_proxies_are_described_and_who_is_silent_is_named(
    client: RawClient, group: str, others: dict[str, dict[str, bytes | None]]
) -> None:
    await create_group(client, name=group)
    await subscribe(client, group, {"orders": "a"})
    types = {"~elsewhere": int(pb.SIMPLE_CONSUMER), client.client_id: 0}
    told = msgspec.json.encode([types, {"orders": {"~elsewhere": "b"}}])
    others["members"] = {"proxy-1": told, "gone": None, "odd": b"[1]"}
    described = await describe_group(client, group)
    assert [(member.client_id, member.client_type, dict(member.subscriptions)) for member in described.members] == [
        (client.client_id, pb.PUSH_CONSUMER, {"orders": "a"}),
        ("~elsewhere", pb.SIMPLE_CONSUMER, {"orders": "b"}),
    ]
    [contradiction] = described.inconsistencies
    assert "~elsewhere" in contradiction
    assert list(described.silent) == ["gone", "odd"]
