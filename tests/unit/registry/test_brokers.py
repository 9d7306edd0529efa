"""Leases, epochs, and what operators say of brokers. No test waits for a lease: they let it end by SQL."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from ternmq_common.catalog.cluster import BrokerEntry, BrokerLoad, QueuePermission
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import MessagingError, StartupError
from ternmq_common.shard.model import Topic
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_registry.registry import Registry
from tests.unit.registry.conftest import Open, Sql

LEASE_MS = 60_000
LEASE_RUNS_OUT = "UPDATE brokers SET lease_end_ms = lease_end_ms - 60001"
LOAD = BrokerLoad(messages_in=1.5, messages_out=2.5, proxies=3, transactions=5, disk_used=0.25)


def registered(registry: Registry, name: str = "b1", store_id: str = "store", address: str = "host:1") -> int:
    return registry.register_broker(name, store_id, address, "1.0", LEASE_MS)


def offered(registry: Registry, store_id: str = "another", *, is_empty: bool, instead_of: str = "") -> int:
    """By a process that would be b1."""
    return registry.register_broker("b1", store_id, "host:2", "1.0", LEASE_MS, is_empty=is_empty, instead_of=instead_of)


def broker(registry: Registry, name: str = "b1") -> BrokerEntry:
    return registry.read_brokers()[1][name]


def test_a_broker_that_registers_is_live_at_its_address(registry: Registry) -> None:
    epoch = registered(registry)
    found = broker(registry)
    assert found == BrokerEntry(
        name="b1",
        address="host:1",
        epoch=epoch,
        version="1.0",
        started_ms=found.started_ms,
        store_id="store",
        lease_end_ms=found.lease_end_ms,
    )
    assert found.started_ms > 1_700_000_000_000
    assert found.lease_end_ms - found.started_ms >= LEASE_MS
    assert registry.read_snapshot().brokers == {"b1": found}


def test_a_lease_that_runs_out_ends_by_the_databases_clock(registry: Registry, sql: Sql) -> None:
    epoch = registered(registry)
    sql(LEASE_RUNS_OUT)
    assert not broker(registry).live
    assert registry.record_heartbeat("b1", epoch, LOAD, LEASE_MS)  # late is better than never
    assert broker(registry).live


def test_a_heartbeat_brings_the_load(registry: Registry) -> None:
    epoch = registered(registry)
    assert registry.record_heartbeat("b1", epoch, LOAD, LEASE_MS)
    assert broker(registry).load == LOAD


def test_a_load_of_another_version_is_read_as_far_as_it_is_known(registry: Registry, sql: Sql) -> None:
    registered(registry)
    sql("""UPDATE brokers SET load = '{"transactions": 7, "moons"\\:  2}'""")
    assert broker(registry).load == BrokerLoad(transactions=7)


def test_what_a_process_says_at_its_end_is_known_afterwards(registry: Registry) -> None:
    first = registered(registry)
    last = BrokerLoad(messages=7, unfinished=5, timers=3, transactions=2)
    registry.deregister_broker("b1", first)
    registry.report_load("b1", first, last)
    assert (broker(registry).load, broker(registry).live) == (last, False)
    registered(registry)
    registry.report_load("b1", first, last)
    assert broker(registry).load == BrokerLoad()  # of a process that is not the broker any more nobody listens


def test_a_clean_stop_ends_the_lease_now(registry: Registry) -> None:
    epoch = registered(registry)
    registry.deregister_broker("b1", epoch)
    assert not broker(registry).live
    assert registered(registry) > epoch


def test_the_same_store_takes_over_at_once_and_the_other_process_is_fenced(registry: Registry) -> None:
    first = registered(registry)
    second = registered(registry, address="host:2")
    assert second > first
    assert not registry.record_heartbeat("b1", first, LOAD, LEASE_MS)
    registry.deregister_broker("b1", first)
    assert broker(registry).live
    assert (broker(registry).address, broker(registry).load) == ("host:2", BrokerLoad())
    assert registry.record_heartbeat("b1", second, LOAD, LEASE_MS)


@pytest.mark.parametrize("instead_of", ["", "store"])
def test_another_store_cannot_have_the_name_of_a_live_broker(registry: Registry, instead_of: str) -> None:
    epoch = registered(registry)
    with pytest.raises(StartupError, match="broker 'b1' is running at host:1, with another store"):
        offered(registry, is_empty=True, instead_of=instead_of)
    assert broker(registry).address == "host:1"
    assert registry.record_heartbeat("b1", epoch, LOAD, LEASE_MS)


@pytest.mark.parametrize("instead_of", ["", "a third"])
def test_an_empty_store_has_no_brokers_name_by_itself(registry: Registry, sql: Sql, instead_of: str) -> None:
    epoch = registered(registry)
    sql(LEASE_RUNS_OUT)
    with pytest.raises(
        StartupError, match=r"'b1' has store store, .* an empty one, another: .* once with --accept-empty-store store"
    ):
        offered(registry, is_empty=True, instead_of=instead_of)
    assert registry.record_heartbeat("b1", epoch, LOAD, LEASE_MS)  # nothing was changed


def test_an_empty_store_takes_the_place_of_one_that_an_operator_gives_up(registry: Registry, sql: Sql) -> None:
    epoch = registered(registry)
    sql(LEASE_RUNS_OUT)
    accepted = offered(registry, is_empty=True, instead_of="store")
    assert accepted > epoch
    assert broker(registry).store_id == "another"
    assert not registry.record_heartbeat("b1", epoch, LOAD, LEASE_MS)
    # What was said of the first loss says nothing of another one.
    assert offered(registry, is_empty=False, instead_of="store") > accepted
    sql(LEASE_RUNS_OUT)
    with pytest.raises(StartupError, match=r"'b1' has store another, .*--accept-empty-store store does not name"):
        offered(registry, "a third", is_empty=True, instead_of="store")


@pytest.mark.parametrize("instead_of", ["", "store"])
def test_a_store_with_messages_has_no_other_stores_name(registry: Registry, sql: Sql, instead_of: str) -> None:
    registered(registry)
    sql(LEASE_RUNS_OUT)
    with pytest.raises(StartupError, match=r"has store store, .* has another store, another, with messages: .*wrong"):
        offered(registry, is_empty=False, instead_of=instead_of)
    assert broker(registry).store_id == "store"


def test_a_store_of_another_broker_is_called_by_its_name(registry: Registry, sql: Sql) -> None:
    registered(registry)
    registered(registry, "b2", "another")
    sql(LEASE_RUNS_OUT)
    with pytest.raises(StartupError, match="has the store of broker 'b2', another, with messages"):
        offered(registry, is_empty=False)


def test_of_two_stores_that_want_a_name_at_once_one_gets_it(open_registry: Open) -> None:
    registries = [open_registry() for _ in range(2)]
    barrier = threading.Barrier(2)

    def register(number: int) -> bool:
        barrier.wait()
        try:
            registered(registries[number], store_id=f"store {number}")
        except StartupError:
            return False
        return True

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(register, range(2))) == [False, True]


def test_what_operators_say_outlives_a_restart_of_the_broker(registry: Registry) -> None:
    registered(registry)
    registry.set_broker("b1", permission=QueuePermission.READ)
    registry.set_broker("b1", draining=True)
    registered(registry)
    found = broker(registry)
    assert (found.permission, found.draining) == (QueuePermission.READ, True)
    registry.set_broker("b1", permission=QueuePermission.READ_WRITE, draining=False)
    assert broker(registry) == replace(found, permission=QueuePermission.READ_WRITE, draining=False)


def test_who_is_unknown_cannot_be_changed_or_removed(registry: Registry) -> None:
    with pytest.raises(MessagingError, match="there is no broker 'b9'") as refused:
        registry.set_broker("b9", draining=True)
    assert refused.value.code == pb.NOT_FOUND
    with pytest.raises(MessagingError, match="there is no broker 'b9'") as refused:
        registry.remove_broker("b9")
    assert refused.value.code == pb.NOT_FOUND
    with pytest.raises(MessagingError, match="nothing to change") as refused:
        registry.set_broker("b9")
    assert refused.value.code == pb.BAD_REQUEST
    assert not registry.record_heartbeat("b9", 1, LOAD, LEASE_MS)


def test_a_broker_that_is_removed_is_on_no_topic_and_fenced(registry: Registry) -> None:
    first, _ = registered(registry), registered(registry, "b2", "store 2")
    topic, _ = registry.create_topic(Topic(name="orders", type=MessageType.NORMAL, brokers=("b1", "b2")))
    registry.remove_broker("b1")
    assert registry.read_brokers()[1].keys() == {"b2"}
    assert registry.list_topics() == [replace(topic, brokers=("b2",))]
    assert not registry.record_heartbeat("b1", first, LOAD, LEASE_MS)
    again = registered(registry, store_id="store 3")
    assert again > first
    assert not registry.record_heartbeat(
        "b1", first, LOAD, LEASE_MS
    )  # what was removed stays fenced when the name returns


@pytest.mark.parametrize("name", ["b1", "b2"])
def test_a_store_that_was_removed_does_not_come_back_by_itself(registry: Registry, name: str) -> None:
    registered(registry)
    registry.remove_broker("b1")
    with pytest.raises(StartupError, match=r"was that of broker 'b1', which was removed.*--rejoin"):
        registered(registry, name)
    assert registry.read_brokers()[1] == {}
    epoch = registry.register_broker(name, "store", "host:1", "1.0", LEASE_MS, rejoin=True)
    assert registry.record_heartbeat(name, epoch, LOAD, LEASE_MS)
    assert registered(registry, name) > epoch  # it belongs to the cluster again


@pytest.mark.parametrize("name", ["b1", "b3"])
def test_a_broker_that_rejoins_is_on_its_topics_again(registry: Registry, name: str) -> None:
    for each in ("b1", "b2"):
        registered(registry, each, f"store {each}")
    for topic in ("kept", "deleted", "anew", "moved"):
        registry.create_topic(Topic(name=topic, type=MessageType.NORMAL, brokers=("b1", "b2")))
    registry.create_topic(Topic(name="alone", type=MessageType.NORMAL, brokers=("b1",)))
    registry.update_topic(replace(registry.read_snapshot().topics["moved"], brokers=("b2",)))
    registry.remove_broker("b1", force=True)
    for topic in ("deleted", "anew"):
        registry.delete_topic(topic)
    registry.create_topic(Topic(name="anew", type=MessageType.NORMAL, brokers=("b2",)))
    known = registry.read_snapshot()
    assert registry.list_deleted_topics("store b1") == ["anew", "deleted"]
    assert registry.list_deleted_topics("store b2") == []
    registry.register_broker(name, "store b1", "host:1", "1.0", LEASE_MS, rejoin=True)
    assert {topic.name: topic.brokers for topic in registry.read_snapshot(known).topics.values()} == {
        "kept": tuple(sorted((name, "b2"))), "alone": (name,), "anew": ("b2",), "moved": ("b2",)
    }  # fmt: skip
    assert registry.list_deleted_topics("store b1") == []


def test_who_has_the_name_meanwhile_keeps_its_own_topics(registry: Registry) -> None:
    registered(registry)
    registry.create_topic(Topic(name="orders", type=MessageType.NORMAL, brokers=("b1",)))
    registry.remove_broker("b1", force=True)
    registered(registry, store_id="another")
    with pytest.raises(StartupError, match="is running at host:1, with another store"):
        registry.register_broker("b1", "store", "host:2", "1.0", LEASE_MS, rejoin=True)
    assert registry.list_deleted_topics("store") == []
    registry.register_broker("b2", "store", "host:2", "1.0", LEASE_MS, rejoin=True)
    assert registry.list_topics()[0].brokers == ("b2",)


def test_a_store_that_an_older_version_removed_rejoins_without_topics(registry: Registry, sql: Sql) -> None:
    registered(registry)
    registry.create_topic(Topic(name="orders", type=MessageType.NORMAL, brokers=("b1",)))
    registry.remove_broker("b1", force=True)
    sql("UPDATE removed_stores SET topics = NULL")
    assert registry.list_deleted_topics("store") == []
    registry.register_broker("b1", "store", "host:1", "1.0", LEASE_MS, rejoin=True)
    assert registry.list_topics()[0].brokers == ()


def test_the_only_broker_of_a_topic_is_not_removed_unless_by_force(registry: Registry) -> None:
    registered(registry)
    for number in range(7):
        registry.create_topic(Topic(name=f"t{number}", type=MessageType.NORMAL, brokers=("b1",)))
    with pytest.raises(
        MessagingError, match=r"only one with 7 topic\(s\) \(t0, t1, t2, t3, t4, \.\.\.\): add"
    ) as refused:
        registry.remove_broker("b1")
    assert refused.value.code == pb.BAD_REQUEST
    assert broker(registry).live
    registry.remove_broker("b1", force=True)
    assert registry.read_brokers()[1] == {}
    assert {topic.brokers for topic in registry.list_topics()} == {()}
