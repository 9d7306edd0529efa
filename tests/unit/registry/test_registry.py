"""Topics and groups as the registry keeps them."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection

from ternmq_common.catalog.cluster import (
    BrokerEntry,
    BrokerLoad,
    DeletedKind,
    QueuePermission,
    RegistryDeletion,
    RegistrySnapshot,
)
from ternmq_common.catalog.lite_group import LiteGroup
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.catalog.retry_backoff import parse_backoff
from ternmq_common.errors import MessagingError, StartupError
from ternmq_common.shard.model import ConsumerGroup, Topic
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_registry import registry as registry_module
from ternmq_registry.members.brokers import brokers_in
from ternmq_registry.registry import Registry
from tests.unit.registry.conftest import Open, Sql

LEASE_MS = 60_000
TOPIC = Topic(name="orders", type=MessageType.PRIORITY, queues=3, created_ms=17)
PLACED = replace(TOPIC, brokers=("b1",))
GROUP = ConsumerGroup(
    name="billing",
    fifo=True,
    max_attempts=5,
    created_ms=18,
    retry_backoff=parse_backoff("exponential:1s,10m,2"),
    consume_from="1785585600000",
    assignment="averagely-by-circle",
    queue_lock_hold_ms=30_000,
    priority_factor=60,
    remoting_pop=True,
)

CHATS = Topic(name="chats", type=MessageType.LITE, lite_ttl_ms=900_000)
AGENTS = ConsumerGroup(name="agents", lite=LiteGroup("chats", True, 7, True, True, True))


def created(registry: Registry, topic: Topic) -> Topic:
    """As the registry has it from now on."""
    made, is_new = registry.create_topic(topic)
    assert is_new
    assert made == replace(topic, created_version=registry.read_snapshot().version)
    return made


def created_group(registry: Registry, group: ConsumerGroup) -> ConsumerGroup:
    """As the registry has it from now on."""
    made, is_new = registry.create_group(group)
    assert is_new
    assert made == replace(group, created_version=registry.read_snapshot().version)
    return made


def test_what_is_made_is_read_back_after_a_restart(open_registry: Open) -> None:
    before = open_registry()
    before.register_broker("b1", "store", "host:1", "1.0", LEASE_MS)
    placed = created(before, PLACED)
    group, plain = created_group(before, GROUP), created_group(before, ConsumerGroup(name="plain"))
    chats, agents = created(before, CHATS), created_group(before, AGENTS)
    before.close()
    after = open_registry()
    assert (after.list_topics(), after.list_groups()) == ([chats, placed], [agents, group, plain])
    snapshot = after.read_snapshot()
    assert snapshot.topics == {"chats": chats, "orders": placed}
    assert snapshot.groups == {"agents": agents, "billing": group, "plain": plain}


def test_making_the_same_again_is_no_error(registry: Registry) -> None:
    topic = created(registry, TOPIC)
    group = created_group(registry, GROUP)
    assert registry.create_topic(replace(TOPIC, created_ms=99)) == (topic, False)
    assert registry.create_group(replace(GROUP, created_ms=99, created_version=99)) == (group, False)


def test_making_the_same_with_other_settings_is_refused(registry: Registry) -> None:
    registry.create_topic(TOPIC)
    group = created_group(registry, GROUP)
    with pytest.raises(MessagingError, match="exists with type PRIORITY and 3 queues") as refused:
        registry.create_topic(replace(TOPIC, queues=4))
    assert refused.value.code == pb.BAD_REQUEST
    with pytest.raises(MessagingError, match="'billing' exists with max_attempts 5, priority_factor 60;"):
        registry.create_group(replace(GROUP, max_attempts=6, priority_factor=0))
    assert registry.list_groups() == [group]


def test_a_group_gets_other_settings(registry: Registry) -> None:
    group, plain = created_group(registry, GROUP), created_group(registry, ConsumerGroup(name="plain"))
    registry.update_group(replace(GROUP, priority_factor=0, created_version=99))  # when it was made doesn't change
    assert registry.list_groups() == [replace(group, priority_factor=0), plain]


def test_a_topic_gets_another_ttl_of_its_lite_topics(registry: Registry) -> None:
    chats = created(registry, CHATS)
    registry.update_topic(replace(CHATS, lite_ttl_ms=0))
    assert registry.list_topics() == [replace(chats, lite_ttl_ms=0)]


def test_a_lite_group_gets_other_settings_and_stays_with_its_topic(registry: Registry) -> None:
    agents, plain = created_group(registry, AGENTS), created_group(registry, ConsumerGroup(name="plain"))
    agents = replace(agents, lite=LiteGroup("chats", quota=9))
    registry.update_group(agents)
    assert registry.list_groups() == [agents, plain]
    for changed, found in (
        (replace(agents, lite=None), "'agents' is a lite group that is bound to topic 'chats', and that can't change"),
        (replace(agents, lite=LiteGroup("games", quota=9)), "'agents' is a lite group that is bound to topic 'chats'"),
        (replace(plain, lite=LiteGroup("chats")), "'plain' is no lite group, and that can't change"),
    ):
        with pytest.raises(MessagingError, match=found) as refused:
            registry.update_group(changed)
        assert refused.value.code == pb.BAD_REQUEST
    assert registry.list_groups() == [agents, plain]
    with pytest.raises(MessagingError, match="'agents' exists with lite chats,quota=9; "):
        registry.create_group(replace(agents, lite=LiteGroup("chats")))
    with pytest.raises(MessagingError, match="'plain' exists with no lite group; "):
        registry.create_group(replace(plain, lite=LiteGroup("chats")))


def test_a_topic_gets_more_queues_another_permission_and_other_brokers(registry: Registry) -> None:
    for name in ("b1", "b2", "b3"):
        registry.register_broker(name, f"store of {name}", "host:1", "1.0", LEASE_MS)
    orders = created(registry, replace(TOPIC, brokers=("b1", "b2")))
    letters = created(registry, Topic(name="letters", type=MessageType.NORMAL, brokers=("b1",)))
    changed = replace(orders, queues=5, permission=QueuePermission.READ, brokers=("b2", "b3"))
    registry.update_topic(
        replace(changed, type=MessageType.FIFO, created_ms=99, created_version=99)
    )  # what it is doesn't change
    assert registry.list_topics() == [letters, changed]


def test_what_a_topic_cannot_become(registry: Registry) -> None:
    with pytest.raises(MessagingError, match="'orders' does not exist") as refused:
        registry.update_topic(TOPIC)
    assert refused.value.code == pb.TOPIC_NOT_FOUND
    topic = created(registry, TOPIC)
    with pytest.raises(MessagingError, match="has 3 queues; queues can be added, not removed") as refused:
        registry.update_topic(replace(TOPIC, queues=2))
    assert refused.value.code == pb.BAD_REQUEST
    with pytest.raises(MessagingError, match="no broker 'b9'"):
        registry.update_topic(replace(TOPIC, brokers=("b9",)))
    assert registry.list_topics() == [topic]


def test_a_topic_is_placed_on_registered_brokers_only(registry: Registry) -> None:
    with pytest.raises(MessagingError, match="no broker 'b1'; `ternmq broker list` shows them") as refused:
        registry.create_topic(PLACED)
    assert refused.value.code == pb.BAD_REQUEST
    assert registry.list_topics() == []


def test_a_group_that_is_gone_gets_no_settings(registry: Registry) -> None:
    with pytest.raises(MessagingError, match="'billing' does not exist") as refused:
        registry.update_group(GROUP)
    assert refused.value.code == pb.CONSUMER_GROUP_NOT_FOUND


def test_what_is_deleted_is_gone(registry: Registry) -> None:
    registry.create_topic(TOPIC)
    registry.create_group(GROUP)
    first = registry.delete_topic("orders")
    second = registry.delete_group("billing")
    assert second == registry.read_snapshot().version > first > 0
    assert (registry.list_topics(), registry.list_groups()) == ([], [])
    assert (registry.delete_topic("orders"), registry.delete_group("billing")) == (0, 0)


def test_a_group_is_deleted_with_its_dead_letters_at_once(registry: Registry) -> None:
    registry.register_broker("b1", "store", "host:1", "1.0", LEASE_MS)
    assert registry.delete_group_with_dead_letters("billing") == (0, 0)
    registry.create_group(GROUP)
    version, letters_version = registry.delete_group_with_dead_letters("billing")
    assert registry.list_deletions(0) == [
        RegistryDeletion(version, DeletedKind.GROUP, "billing"),
        RegistryDeletion(letters_version, DeletedKind.TOPIC, "%DLQ%billing"),
    ]


def test_a_topic_that_is_made_again_begins_anew(registry: Registry) -> None:
    registry.register_broker("b1", "store", "host:1", "1.0", LEASE_MS)
    earlier = created(registry, PLACED)
    deleted = registry.delete_topic("orders")
    later = created(registry, TOPIC)
    assert registry.list_topics() == [later]
    assert earlier.created_version < deleted < later.created_version
    assert earlier.created_ms == later.created_ms
    assert earlier.identity != later.identity


def test_a_group_that_is_made_again_is_a_later_one(registry: Registry) -> None:
    earlier = created_group(registry, GROUP)
    deleted = registry.delete_group("billing")
    later = created_group(registry, GROUP)
    assert registry.list_groups() == [later]
    assert earlier.created_version < deleted < later.created_version


CHANGES: dict[str, Callable[[Registry], object]] = {
    "create topic": lambda registry: registry.create_topic(replace(TOPIC, name="new")),
    "update topic": lambda registry: registry.update_topic(replace(TOPIC, queues=9)),
    "delete topic": lambda registry: registry.delete_topic("orders"),
    "create group": lambda registry: registry.create_group(ConsumerGroup(name="new")),
    "update group": lambda registry: registry.update_group(replace(GROUP, priority_factor=1)),
    "delete group": lambda registry: registry.delete_group("billing"),
    "register": lambda registry: registry.register_broker("b2", "store", "host:2", "1.0", LEASE_MS),
    "register again": lambda registry: registry.register_broker("b1", "store", "host:2", "1.0", LEASE_MS),
    "drain": lambda registry: registry.set_broker("b1", draining=True),
    "forbid": lambda registry: registry.set_broker("b1", permission=QueuePermission.NONE),
    "remove": lambda registry: registry.remove_broker("b1"),
}
OTHER_CALLS: dict[str, Callable[[Registry], object]] = {
    "topic that is there": lambda registry: registry.create_topic(TOPIC),
    "group that is there": lambda registry: registry.create_group(GROUP),
    "topic that isn't there": lambda registry: registry.delete_topic("nowhere"),
    "group that isn't there": lambda registry: registry.delete_group("nowhere"),
    "heartbeat": lambda registry: registry.record_heartbeat(
        "b1", epoch_of_b1(registry), BrokerLoad(transactions=1), LEASE_MS
    ),
    "good-bye": lambda registry: registry.deregister_broker("b1", epoch_of_b1(registry)),
    "applied": lambda registry: registry.set_applied_version("b1", 99),
    "look": lambda registry: registry.read_brokers(),
}


def epoch_of_b1(registry: Registry) -> int:
    return registry.read_brokers()[1]["b1"].epoch


@pytest.fixture
def filled(registry: Registry) -> Registry:
    registry.register_broker("b1", "store", "host:1", "1.0", LEASE_MS)
    registry.create_topic(TOPIC)
    registry.create_group(GROUP)
    return registry


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_raises_the_version(filled: Registry, change: Callable[[Registry], object]) -> None:
    version = filled.read_snapshot().version
    change(filled)
    assert filled.read_brokers()[0] == filled.read_snapshot().version > version


@pytest.mark.parametrize("call", OTHER_CALLS.values(), ids=OTHER_CALLS)
def test_nothing_else_raises_the_version(filled: Registry, call: Callable[[Registry], object]) -> None:
    version = filled.read_snapshot().version
    call(filled)
    assert filled.read_brokers()[0] == filled.read_snapshot().version == version


def test_a_version_is_not_given_twice_by_a_database_that_lost_its_last_changes(filled: Registry, sql: Sql) -> None:
    version, brokers = filled.read_brokers()
    sql("UPDATE registry_version SET version = version - 1")
    assert filled.register_broker("b1", "store", "host:1", "1.0", LEASE_MS) > version > brokers["b1"].epoch


def test_a_clock_that_goes_back_leaves_versions_rising(filled: Registry, sql: Sql) -> None:
    sql("UPDATE registry_version SET version = 9000000000000")
    filled.delete_topic("orders")
    filled.delete_group("billing")
    assert filled.read_brokers()[0] == 9_000_000_000_002


def test_a_change_that_is_refused_raises_no_version(filled: Registry) -> None:
    version = filled.read_snapshot().version
    with pytest.raises(MessagingError):
        filled.update_group(ConsumerGroup(name="nowhere"))
    with pytest.raises(MessagingError):
        filled.set_broker("nowhere", draining=True)
    assert filled.read_brokers()[0] == version


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_snapshot_after_another_is_a_whole_one(filled: Registry, change: Callable[[Registry], object]) -> None:
    known = filled.read_snapshot()
    change(filled)
    newer, whole = filled.read_snapshot(known), filled.read_snapshot()
    assert newer != known
    assert newer == whole


def test_a_snapshot_after_another_is_whole_if_as_much_was_deleted_as_made(filled: Registry) -> None:
    known = filled.read_snapshot()
    for call in ("delete topic", "create topic", "delete group", "create group"):
        CHANGES[call](filled)
    assert filled.read_snapshot(known) == filled.read_snapshot()


def test_a_snapshot_of_a_database_that_went_back_is_a_whole_one(filled: Registry) -> None:
    later = RegistrySnapshot(version=2**60, topics={"gone": replace(TOPIC, name="gone")})
    assert filled.read_snapshot(later) == filled.read_snapshot()


def test_a_snapshot_is_of_one_moment(open_registry: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = open_registry(), open_registry()
    before = reader.read_snapshot()

    def change() -> None:
        writer.register_broker("b1", "store", "host:1", "1.0", LEASE_MS)
        writer.create_topic(PLACED)

    def changed_meanwhile(connection: Connection) -> dict[str, BrokerEntry]:
        found = brokers_in(connection)
        changing.append(thread.submit(change))
        if connection.dialect.name == "postgresql":  # a file's writers wait for its readers
            changing[0].result(10)
        return found

    changing: list[Future[None]] = []
    with ThreadPoolExecutor(1) as thread, monkeypatch.context() as patched:
        patched.setattr(registry_module, "brokers_in", changed_meanwhile)
        assert reader.read_snapshot() == before
        changing[0].result(10)
    assert set(reader.read_snapshot().topics) == {"orders"}


def test_of_creators_at_once_one_makes_it_and_the_others_find_it(open_registry: Open) -> None:
    registries = [open_registry() for _ in range(4)]
    barrier = threading.Barrier(len(registries))

    def create(registry: Registry) -> tuple[tuple[Topic, bool], tuple[ConsumerGroup, bool]]:
        barrier.wait()
        return registry.create_topic(TOPIC), registry.create_group(GROUP)

    with ThreadPoolExecutor(len(registries)) as threads:
        answers = list(threads.map(create, registries))
    (topic,), (group,) = registries[0].list_topics(), registries[0].list_groups()
    assert {answer for answer, _ in answers} == {(topic, True), (topic, False)}
    assert {answer for _, answer in answers} == {(group, True), (group, False)}
    assert [sum(made for _, made in kind) for kind in zip(*answers, strict=True)] == [1, 1]


def test_changes_at_once_have_a_version_each(open_registry: Open) -> None:
    registries = [open_registry() for _ in range(3)]
    before = registries[0].read_snapshot()

    def register(registry: Registry, number: int) -> list[int]:
        return [registry.register_broker(f"b{number}", "store", "host:1", "1.0", LEASE_MS) for _ in range(10)]

    with ThreadPoolExecutor(len(registries)) as threads:
        epochs = list(threads.map(register, registries, range(3)))
    assert all(each == sorted(each) for each in epochs)
    assert len({epoch for each in epochs for epoch in each}) == 30
    after = registries[0].read_snapshot(before)
    assert (after.version, set(after.brokers)) == (max(max(each) for each in epochs), {"b0", "b1", "b2"})


def test_a_file_that_is_no_registry_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "registry.db"
    file.write_text("not a database, but longer than nothing " * 10)
    with pytest.raises(StartupError, match=r"registry\.db is damaged \(file is not a database\): restore it"):
        Registry.open_sqlite(file)
