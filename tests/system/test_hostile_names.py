"""What a client says of itself, where a server remembers or shows it: no control characters, and no more of it than is
of use to anybody."""

import logging
import tracemalloc

import pytest

from ternmq_common.errors import MessagingError
from ternmq_common.limits import SETTINGS_TOPICS_MAX
from ternmq_common.pacing.log_throttle import REMEMBERED_MAX
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from ternmq_proxy.call import Call
from ternmq_proxy.fronts.grpc.activities.telemetry import read_settings
from ternmq_proxy.processors.client_limits import ClientLimits
from ternmq_proxy.processors.clients import ClientRegistry
from ternmq_proxy.processors.subscriptions import GroupSubscriptions, find_contradictions
from tests.support.embedded import Embedded, RawClient, code, message
from tests.support.hand_clock import Clock
from tests.system.conftest import SERVER_LOOP

FORGED = "x\n2026-08-01 12:00:00,000 ERROR   ternmq: the disk is gone\x1b[2J"
CONTROLS = ["\n", "\r", "\x00", "\x1b[2J", "\x7f", "\x9b31m"]


def settings_of(*topics: str, expression: str = "*", group: str = "g", hostname: str = "") -> pb.Settings:
    entries = [{"topic": {"name": topic}, "expression": {"expression": expression}} for topic in topics]
    return pb.Settings(
        client_type=pb.PUSH_CONSUMER,
        subscription={"group": {"name": group}, "subscriptions": entries},
        user_agent={"hostname": hostname},
    )


def publishing(*topics: str) -> pb.Settings:
    return pb.Settings(client_type=pb.PRODUCER, publishing={"topics": [{"name": topic} for topic in topics]})


# --- messages


@SERVER_LOOP
@pytest.mark.parametrize("control", CONTROLS)
async def test_a_message_id_with_a_control_character_is_refused(client: RawClient, topic: str, control: str) -> None:
    sent = message(topic, b"x", message_id=f"id{control}x")
    answer = await client.call("SendMessage", messages=[sent])
    assert code(answer) == "ILLEGAL_MESSAGE_ID"
    assert answer.status.message.isprintable()


@SERVER_LOOP
@pytest.mark.parametrize("born_host", [f"host{control}x" for control in CONTROLS] + ["h" * 257])
async def test_an_illegal_place_of_birth_is_the_address_of_the_peer(
    client: RawClient, topic: str, group: str, born_host: str
) -> None:
    await client.send(topic, b"x", born_host=born_host)
    [received] = (await client.receive(topic, group)).messages
    assert received.system_properties.born_host.startswith("127.0.0.1:")


@SERVER_LOOP
async def test_a_refusal_repeats_no_more_than_a_little_of_what_was_sent(client: RawClient, topic: str) -> None:
    long = "x" * 1_000_000 + "\n"
    for refused in (
        message(topic, b"x", tag=long),
        message(topic, b"x", keys=[long]),
        message(topic, b"x", message_id=long),
        message(topic, b"x", lite_topic=long),
        message(topic, b"x", tag="|" * 1_000_000),
    ):
        answer = await client.call("SendMessage", messages=[refused])
        assert code(answer).startswith("ILLEGAL_")
        assert len(answer.status.message) < 400


# --- ids of clients and calls


@pytest.mark.parametrize("client_id", [*CONTROLS, FORGED, "c" * 257, "日" * 86])
def test_a_client_id_that_cannot_be_shown_is_refused(client_id: str) -> None:
    """The front refuses such headers before; this is for every other way in."""
    with pytest.raises(MessagingError) as refused:
        Call(client_id=f"a{client_id}").require_client()
    assert refused.value.code == pb.BAD_REQUEST
    assert refused.value.message.isprintable()
    assert len(refused.value.message) < 500


def test_client_ids_as_the_official_clients_make_them_are_taken() -> None:
    for client_id in ("host.example@1@0@1kx2n3", "日本@1", "c" * 256, "with space"):
        assert Call(client_id=client_id).require_client() == client_id


@SERVER_LOOP
async def test_a_long_client_id_is_refused_by_every_front(server: Embedded, topic: str, group: str) -> None:
    async with RawClient(server.grpc, metadata=(("x-mq-client-id", "c" * 257),)) as client:
        assert code(await client.call("SendMessage", messages=[message(topic, b"x")])) == "BAD_REQUEST"
        assert (await client.receive(topic, group)).code == "BAD_REQUEST"


@SERVER_LOOP
async def test_an_attempt_id_is_a_name_too(client: RawClient, topic: str, group: str) -> None:
    assert (await client.receive(topic, group, attempt_id="a" * 257)).code == "BAD_REQUEST"


# --- settings


async def refusal(client: RawClient, settings: pb.Settings) -> str:
    stream = client.telemetry()
    await stream.write(rpc.TelemetryCommand(settings=settings))
    return f"{(await stream.code()).name}: {await stream.details()}"


@SERVER_LOOP
async def test_settings_that_no_client_has_are_refused(client: RawClient, group: str) -> None:
    many = [f"t{number}" for number in range(1025)]
    too_much = "RESOURCE_EXHAUSTED: TOO_MANY_REQUESTS: the settings"
    for settings, allowed in (
        (settings_of(*many, group=group), "1024 are allowed"),
        (publishing(*many), "1024 are allowed"),
        (settings_of(group=group, hostname="h" * (1 << 20)), "bytes; 1048576 are allowed"),
    ):
        refused = await refusal(client, settings)
        assert refused.startswith(too_much)
        assert allowed in refused
    assert "control character" in await refusal(client, settings_of(FORGED, group=group))
    assert "longer than 256 bytes" in await refusal(client, settings_of("t" * 257, group=group))
    sql = settings_of("t", group=group)
    sql.subscription.subscriptions[0].expression.type = pb.SQL
    sql.subscription.subscriptions[0].expression.expression = f"a = '{'x' * 8192}'"
    assert "longer than 8192 bytes" in await refusal(client, sql)
    assert (await client.configure(settings_of(*many[:1024], group=group))).status.code == pb.OK


def test_only_so_many_clients_are_known() -> None:
    registry = ClientRegistry(Clock(0.0), expiry_s=120, limits=ClientLimits(clients_max=3))
    for name in "abc":
        registry.note_call(name)
    for _ in range(2):
        with pytest.raises(MessagingError, match="TOO_MANY_REQUESTS: 3 clients are connected already"):
            registry.note_call("d")
        with pytest.raises(MessagingError, match="TOO_MANY_REQUESTS: 3 clients are connected already"):
            registry.take_settings("d", read_settings(settings_of()))
    registry.note_call("a")
    registry.forget_client("b")
    registry.note_call("d")


def test_only_so_many_topics_of_settings_are_remembered() -> None:
    registry = ClientRegistry(Clock(0.0), expiry_s=120, limits=ClientLimits(entries_max=4))
    registry.take_settings("a", read_settings(publishing("t1", "t2")))
    registry.take_settings("b", read_settings(settings_of("t1", "t2")))
    with pytest.raises(MessagingError, match="TOO_MANY_REQUESTS"):
        registry.take_settings("c", read_settings(publishing("t1")))
    assert registry.find_client("c") is None
    registry.take_settings("a", read_settings(publishing("t3", "t4")))
    with pytest.raises(MessagingError, match="TOO_MANY_REQUESTS"):
        registry.take_settings("a", read_settings(publishing("t1", "t2", "t3")))
    registry.take_settings("a", read_settings(publishing("t1")))
    registry.take_settings("c", read_settings(publishing("t1")))
    for name in "abc":
        registry.forget_client(name)
    registry.take_settings("d", read_settings(publishing("t1", "t2", "t3", "t4")))


def test_only_so_many_bytes_of_settings_are_remembered() -> None:
    registry = ClientRegistry(Clock(0.0), expiry_s=120, limits=ClientLimits(settings_bytes_max=2500))
    for name in "ab":
        registry.take_settings(name, read_settings(settings_of(hostname=name * 1000)))
    with pytest.raises(MessagingError, match="TOO_MANY_REQUESTS"):
        registry.take_settings("c", read_settings(settings_of(hostname="c" * 1000)))
    registry.take_settings("a", read_settings(settings_of(hostname="a" * 1000)))
    registry.take_settings("c", read_settings(settings_of(hostname="a" * 1000)))
    registry.forget_client("b")
    registry.take_settings("d", read_settings(settings_of(hostname="d" * 1000)))


# --- filters


def test_members_that_contradict_each_other_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Each receive with another filter of 8 KiB once listed all of them."""
    seconds = Clock(0.0)
    found = GroupSubscriptions(seconds)
    with caplog.at_level(logging.WARNING):
        for minute in range(3):
            seconds.now_s = 60.0 * minute
            for number in range(1000):
                found.note_filter("g", f"c{number}", "t", f"{minute} {number} {'x' * 8000}")
    assert len(caplog.records) == 3
    assert all(len(record.getMessage()) < 1000 for record in caplog.records)
    assert "1000 members of group g filter topic t differently" in caplog.records[-1].getMessage()
    [sentence] = find_contradictions(found.group_filters("g"))
    assert len(sentence) < 1500
    assert "and 995 more filters" in sentence


def test_groups_without_an_end_do_not_make_the_log_grow_without_one(caplog: pytest.LogCaptureFixture) -> None:
    found = GroupSubscriptions(Clock(0.0))
    with caplog.at_level(logging.WARNING):
        for number in range(2 * REMEMBERED_MAX):
            found.note_filter(f"g{number}", "a", "t", "1")
            found.note_filter(f"g{number}", "b", "t", "2")
    assert len(caplog.records) == REMEMBERED_MAX + 1, "all beyond share a line"


def test_of_a_long_filter_no_more_is_kept_than_tells_it_from_others() -> None:
    found = GroupSubscriptions(Clock(0.0))
    tracemalloc.start()
    try:
        for number in range(2000):
            found.note_filter("g", f"c{number}", "t", "x" * 8000 + str(number))
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert size < 2_000_000
    assert found.member_filters("g", "c7")["t"].startswith("x" * 100 + "... (8001 characters, SHA-256 ")
    agreeing = GroupSubscriptions(Clock(0.0))
    for name in "ab":
        agreeing.note_filter("g", name, "t", "x" * 8000)
    assert find_contradictions(agreeing.group_filters("g")) == []
    agreeing.note_filter("g", "c", "t", "x" * 7999 + "y")
    assert len(find_contradictions(agreeing.group_filters("g"))) == 1


def test_of_one_client_the_topics_that_it_used_last_are_remembered() -> None:
    found = GroupSubscriptions(Clock(0.0))
    for number in range(SETTINGS_TOPICS_MAX + 10):
        found.note_filter("g", "c", f"t{number}", "*")
    assert len(found) == len(found.member_filters("g", "c")) == SETTINGS_TOPICS_MAX
    assert "t9" not in found.member_filters("g", "c")
    assert "t10" in found.member_filters("g", "c")
    found.forget_client("c")
    assert (len(found), find_contradictions(found.group_filters("g"))) == (0, [])


def test_of_all_clients_only_so_many_subscriptions_are_remembered() -> None:
    found = GroupSubscriptions(Clock(0.0), entries_max=3)
    for name in "abc":
        found.note_filter("g", name, "t", "1")
    with pytest.raises(MessagingError, match="TOO_MANY_REQUESTS"):
        found.note_filter("g", "d", "t", "1")
    found.note_filter("g", "a", "t", "2")
    found.forget_client("b")
    found.note_filter("g", "d", "t", "1")
    assert len(found) == 3
