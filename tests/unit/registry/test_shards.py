"""Replicas of a shard: who may join, who may lead, and who is in sync. Leases end by SQL, as in `test_brokers`."""

from dataclasses import replace

import pytest

from ternmq_common.catalog.cluster import REPLICAS_MAX, BrokerEntry, BrokerLoad, ReplicaEntry, ReplicationMode
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import MessagingError, StartupError
from ternmq_common.shard.model import Topic
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_registry.members.shards import JoiningReplica
from ternmq_registry.registry import Registry
from tests.unit.registry.conftest import Open, Sql

LEASE_MS = 60_000
LEADERS_LEASE_RUNS_OUT = "UPDATE brokers SET lease_end_ms = lease_end_ms - 60001"
LEASE_RUNS_OUT = "UPDATE replicas SET lease_end_ms = 0 WHERE name = '{}'"


def joined(
    registry: Registry, name: str, store_id: str = "", *, replicas: int = 3, rejoin: bool = False
) -> BrokerEntry:
    replica = JoiningReplica(store_id=store_id or f"store-{name}", name=name, address=f"host-{name}:1", version="1.0")
    return registry.join_shard(
        "b1", replica, LEASE_MS, replicas=replicas, min_insync=0, replication=ReplicationMode.SYNC, rejoin=rejoin
    )


def led(registry: Registry, name: str, epoch: int = 0, *, min_insync: int = 0, keeps_move: bool = True) -> int | None:
    return registry.take_leadership(
        "b1",
        f"store-{name}",
        epoch,
        LEASE_MS,
        min_insync=min_insync,
        replication=ReplicationMode.SYNC,
        keeps_move=keeps_move,
    )


def shard(registry: Registry) -> BrokerEntry:
    return registry.read_brokers()[1]["b1"]


def replica(registry: Registry, name: str) -> ReplicaEntry:
    return next(each for each in shard(registry).replicas if each.name == name)


def in_sync(registry: Registry) -> set[str]:
    return {each.name for each in shard(registry).replicas if each.in_sync}


def stores(names: str) -> frozenset[str]:
    return frozenset(f"store-{name}" for name in names)


def replicated(registry: Registry, names: str = "abc", synced: str = "abc", *, min_insync: int = 0) -> int:
    """A shard that the first of them leads; its epoch."""
    for name in names:
        joined(registry, name, replicas=max(3, len(names)))
    epoch = led(registry, names[0], min_insync=min_insync)
    assert epoch is not None
    assert registry.set_in_sync("b1", epoch, stores(names[0]), stores(synced))
    return epoch


def refused(code: int, registry: Registry, call: str, *arguments: str) -> str:
    before = registry.read_snapshot()
    with pytest.raises(MessagingError) as error:
        getattr(registry, call)(*arguments)
    assert error.value.code == code
    assert registry.read_snapshot() == before
    return str(error.value)


def test_who_comes_first_makes_the_shard_and_may_lead_it(registry: Registry) -> None:
    made = joined(registry, "a")
    (only,) = made.replicas
    assert only == ReplicaEntry(
        name="a",
        store_id="store-a",
        address="host-a:1",
        in_sync=True,
        live=True,
        version="1.0",
        started_ms=only.started_ms,
        lease_end_ms=only.lease_end_ms,
    )
    assert only.lease_end_ms - only.started_ms >= LEASE_MS
    assert made.lease_end_ms == 0  # nobody leads yet
    assert (made.store_id, made.live, made.replicas_wanted, made.min_insync) == ("store-a", False, 3, 2)
    assert made == shard(registry)
    assert registry.read_snapshot().brokers == {"b1": made}
    epoch = led(registry, "a")
    found = shard(registry)
    assert (found.epoch, found.live, found.address, found.version) == (epoch, True, "host-a:1", "1.0")
    assert found.epoch > made.epoch
    assert registry.record_heartbeat("b1", found.epoch, BrokerLoad(), LEASE_MS)
    assert not registry.record_heartbeat("b1", made.epoch, BrokerLoad(), LEASE_MS)


def test_others_join_behind_the_leader_and_have_to_be_made_in_sync(registry: Registry) -> None:
    epoch = replicated(registry, synced="a")
    assert in_sync(registry) == {"a"}
    assert [each.name for each in shard(registry).replicas] == ["a", "b", "c"]
    assert led(registry, "b", epoch) is None
    assert registry.set_in_sync("b1", epoch, stores("a"), stores("ab"))
    assert in_sync(registry) == {"a", "b"}


def test_every_change_but_leases_and_positions_raises_the_version(registry: Registry, sql: Sql) -> None:
    versions = [registry.read_snapshot().version]

    def raised() -> bool:
        versions.append(registry.read_snapshot().version)
        return versions[-1] > versions[-2]

    joined(registry, "a")
    assert raised()
    epoch = led(registry, "a")
    assert epoch is not None
    assert raised()
    joined(registry, "b")
    assert raised()
    assert registry.set_in_sync("b1", epoch, stores("a"), stores("ab"))
    assert raised()
    registry.request_handover("b1", "b")
    assert raised()
    registry.add_replica("b1")
    assert raised()
    joined(registry, "b")
    assert raised()
    assert registry.set_in_sync("b1", epoch, stores("ab"), stores("ab"))
    assert registry.heartbeat_replica("b1", "store-b", 7, LEASE_MS) is not None
    assert registry.record_heartbeat("b1", epoch, BrokerLoad(), LEASE_MS)
    registry.leave_shard("b1", "store-b")
    assert led(registry, "b", epoch) is None  # nothing is changed by who may not
    sql(LEADERS_LEASE_RUNS_OUT)
    assert not raised()
    assert led(registry, "b", epoch)
    assert raised()


def test_a_replica_follows_when_the_leaders_lease_has_run_out(registry: Registry, sql: Sql) -> None:
    epoch = replicated(registry)
    assert led(registry, "b", epoch) is None  # it is live
    sql(LEADERS_LEASE_RUNS_OUT)
    assert led(registry, "b", epoch - 1) is None
    following = led(registry, "b", epoch)
    assert following is not None
    assert following > epoch
    found = shard(registry)
    assert (found.store_id, found.address, found.epoch, found.live) == ("store-b", "host-b:1", following, True)
    assert not registry.record_heartbeat("b1", epoch, BrokerLoad(), LEASE_MS)
    assert in_sync(registry) == {"b", "c"}
    sql(LEADERS_LEASE_RUNS_OUT)
    assert led(registry, "a", following) is None  # it is not in sync any more
    assert led(registry, "c", epoch) is None  # somebody led since then


def test_a_heartbeat_that_is_late_is_better_than_an_election(registry: Registry, sql: Sql) -> None:
    epoch = replicated(registry)
    sql(LEADERS_LEASE_RUNS_OUT)
    assert registry.record_heartbeat("b1", epoch, BrokerLoad(), LEASE_MS)
    assert led(registry, "b", epoch) is None
    assert shard(registry).store_id == "store-a"


@pytest.mark.parametrize(("min_insync", "left"), [(0, {"b", "c"}), (1, {"b", "c"}), (3, {"a", "b", "c"})])
def test_the_leader_before_stays_in_sync_only_if_too_few_are_left(
    registry: Registry, sql: Sql, min_insync: int, left: set[str]
) -> None:
    epoch = replicated(registry, min_insync=min_insync)
    sql(LEADERS_LEASE_RUNS_OUT)
    assert led(registry, "b", epoch, min_insync=min_insync)
    assert in_sync(registry) == left
    assert shard(registry).min_insync == (min_insync or 2)


def test_the_leader_of_record_leads_again_at_once_and_fences_itself(registry: Registry) -> None:
    epoch = replicated(registry, synced="ab")
    again = led(registry, "a", epoch=0)
    assert again is not None
    assert again > epoch
    assert not registry.record_heartbeat("b1", epoch, BrokerLoad(), LEASE_MS)
    assert in_sync(registry) == {"a", "b"}


def test_settings_of_the_shard_are_those_of_its_leader(registry: Registry) -> None:
    replicated(registry)
    assert registry.take_leadership("b1", "store-a", 0, LEASE_MS, min_insync=3, replication=ReplicationMode.ASYNC)
    assert (shard(registry).min_insync, shard(registry).replication) == (3, ReplicationMode.ASYNC)
    joined(registry, "b")
    assert (shard(registry).min_insync, shard(registry).replication) == (3, ReplicationMode.ASYNC)


def test_who_is_no_replica_does_not_lead(registry: Registry) -> None:
    assert led(registry, "a") is None
    registry.register_broker("b1", "store-a", "host:1", "1.0", LEASE_MS)
    assert led(registry, "a") is None
    assert registry.heartbeat_replica("b1", "store-a", 0, LEASE_MS) is None
    assert registry.hand_over("b1", shard(registry).epoch, "store-a", LEASE_MS) is None
    assert not registry.set_in_sync("b2", 1, stores("a"), stores("a"))


def test_a_replica_tells_its_position_and_hears_which_deletions_are_done(registry: Registry, sql: Sql) -> None:
    replicated(registry)
    topic, _ = registry.create_topic(Topic(name="orders", type=MessageType.NORMAL, brokers=("b1",)))
    deleted = registry.delete_topic(topic.name)
    registry.set_applied_version("b1", deleted)
    sql(LEASE_RUNS_OUT.format("b"))
    assert not replica(registry, "b").live
    assert registry.heartbeat_replica("b1", "store-b", 4711, LEASE_MS) == deleted
    assert (replica(registry, "b").live, replica(registry, "b").position) == (True, 4711)
    registry.leave_shard("b1", "store-b")
    assert (replica(registry, "b").live, in_sync(registry)) == (False, {"a", "b", "c"})
    assert shard(registry).live


def test_a_change_of_the_set_that_comes_late_changes_nothing(registry: Registry) -> None:
    """A leader that heard no answer asks again. Its first call must not be done when the set is the expected one again:
    the leader would acknowledge what `c` has not, and `c` could lead next. The simulation of running replicas found
    it."""
    epoch = replicated(registry, synced="ab")
    seen, _ = registry.read_brokers()
    assert registry.set_in_sync("b1", epoch, stores("ab"), stores("abc"), version=seen)
    now, _ = registry.read_brokers()
    assert registry.set_in_sync("b1", epoch, stores("abc"), stores("ab"), version=now)
    assert not registry.set_in_sync("b1", epoch, stores("ab"), stores("abc"), version=seen)
    assert in_sync(registry) == {"a", "b"}


def test_the_set_is_changed_by_the_leader_that_knows_it_only(registry: Registry, sql: Sql) -> None:
    epoch = replicated(registry, synced="ab")
    assert not registry.set_in_sync("b1", epoch, stores("abc"), stores("a"))  # it is another set
    assert not registry.set_in_sync("b1", epoch - 1, stores("ab"), stores("a"))
    assert not registry.set_in_sync("b1", epoch, stores("ab"), stores("abx"))  # no replica
    assert in_sync(registry) == {"a", "b"}
    sql(LEADERS_LEASE_RUNS_OUT)
    assert led(registry, "b", epoch)
    assert not registry.set_in_sync("b1", epoch, stores("ab"), stores("a"))
    assert "b" in in_sync(registry)


def test_who_is_asked_for_while_another_one_begins_to_lead_is_to_lead_after_it(registry: Registry) -> None:
    epoch = replicated(registry, synced="abc")
    following = registry.hand_over("b1", epoch, "store-b", LEASE_MS)
    registry.request_handover("b1", "c")
    assert led(registry, "b", following or 0)
    assert shard(registry).move_to == "store-c"
    assert led(registry, "b", keeps_move=False)  # it has tried
    assert shard(registry).move_to == ""
    registry.request_handover("b1", "c")
    assert registry.hand_over("b1", shard(registry).epoch, "store-c", LEASE_MS)
    assert led(registry, "c")
    assert shard(registry).move_to == ""


def test_leadership_is_handed_over_without_waiting_and_nobody_leaves(registry: Registry) -> None:
    epoch = replicated(registry, synced="ab")
    assert registry.hand_over("b1", epoch, "store-c", LEASE_MS) is None  # not in sync
    assert registry.hand_over("b1", epoch, "store-a", LEASE_MS) is None
    assert registry.hand_over("b1", epoch - 1, "store-b", LEASE_MS) is None
    registry.request_handover("b1", "b")
    assert shard(registry).move_to == "store-b"
    following = registry.hand_over("b1", epoch, "store-b", LEASE_MS)
    found = shard(registry)
    assert (found.store_id, found.epoch, found.live, found.move_to) == ("store-b", following, True, "")
    assert in_sync(registry) == {"a", "b"}
    assert not registry.record_heartbeat("b1", epoch, BrokerLoad(), LEASE_MS)
    assert led(registry, "a", following or 0) is None
    assert led(registry, "b")


def test_who_is_asked_to_lead_can(registry: Registry, sql: Sql) -> None:
    replicated(registry, synced="ab")
    assert "leads already" in refused(pb.BAD_REQUEST, registry, "request_handover", "b1", "a")
    assert "is not in sync" in refused(pb.BAD_REQUEST, registry, "request_handover", "b1", "c")
    assert "has no replica 'd'; it has a, b, c" in refused(pb.NOT_FOUND, registry, "request_handover", "b1", "d")
    assert "there is no broker 'b2'" in refused(pb.NOT_FOUND, registry, "request_handover", "b2", "a")
    sql(LEASE_RUNS_OUT.format("b"))
    assert "is not running" in refused(pb.BAD_REQUEST, registry, "request_handover", "b1", "b")


def test_an_unclean_election_says_what_is_known_to_be_lost(registry: Registry, sql: Sql) -> None:
    epoch = replicated(registry, synced="ab")
    for name, position in (("a", 1000), ("b", 900), ("c", 300)):
        registry.heartbeat_replica("b1", f"store-{name}", position, LEASE_MS)
    assert "move-leader b1 c" in refused(pb.BAD_REQUEST, registry, "elect_unclean", "b1", "c")
    sql(LEADERS_LEASE_RUNS_OUT)
    elected = registry.elect_unclean("b1", "c")
    assert (elected.elected.name, elected.elected.position, elected.lost_bytes) == ("c", 300, 700)
    assert [(each.name, each.position) for each in elected.in_sync] == [("a", 1000), ("b", 900)]
    found = shard(registry)
    assert (found.store_id, found.epoch, found.live) == ("store-c", elected.epoch, False)
    assert in_sync(registry) == {"c"}
    assert led(registry, "b", elected.epoch) is None
    assert not registry.record_heartbeat("b1", epoch, BrokerLoad(), LEASE_MS)
    assert led(registry, "c")


def test_an_unclean_election_needs_a_replica_that_runs(registry: Registry, sql: Sql) -> None:
    replicated(registry, synced="ab")
    sql(LEADERS_LEASE_RUNS_OUT)
    sql(LEASE_RUNS_OUT.format("c"))
    assert "is not running; start it first" in refused(pb.BAD_REQUEST, registry, "elect_unclean", "b1", "c")
    assert registry.elect_unclean("b1", "b", lease_ms=LEASE_MS).lost_bytes == 0
    assert shard(registry).live


def test_a_shard_takes_no_more_replicas_than_are_wanted(registry: Registry) -> None:
    replicated(registry)
    with pytest.raises(StartupError, match=r"has its 3 replicas \(a, b, c\): .*add-replica b1.*remove-replica b1"):
        joined(registry, "d", replicas=4)
    registry.add_replica("b1")
    assert joined(registry, "d").replicas_wanted == 4
    assert [each.name for each in shard(registry).replicas] == ["a", "b", "c", "d"]
    registry.add_replica("b1")
    assert shard(registry).replicas_wanted == REPLICAS_MAX
    assert "the most there can be" in refused(pb.BAD_REQUEST, registry, "add_replica", "b1")
    assert "there is no broker 'b2'" in refused(pb.NOT_FOUND, registry, "add_replica", "b2")


def test_a_replica_that_is_removed_does_not_come_back_by_itself(registry: Registry) -> None:
    replicated(registry)
    registry.request_handover("b1", "c")
    assert "give leadership to another one first" in refused(pb.BAD_REQUEST, registry, "remove_replica", "b1", "a")
    registry.remove_replica("b1", "c")
    found = shard(registry)
    assert ([each.name for each in found.replicas], found.replicas_wanted, found.move_to) == (["a", "b"], 2, "")
    assert registry.heartbeat_replica("b1", "store-c", 0, LEASE_MS) is None
    with pytest.raises(StartupError, match=r"was that of broker 'b1', which was removed.*--rejoin"):
        joined(registry, "c")
    with pytest.raises(StartupError, match="has its 2 replicas"):
        joined(registry, "c", rejoin=True)
    registry.add_replica("b1")
    joined(registry, "c", rejoin=True)
    assert in_sync(registry) == {"a", "b"}
    assert "has no replica 'd'" in refused(pb.NOT_FOUND, registry, "remove_replica", "b1", "d")


def test_a_replica_that_is_missed_is_not_removed(registry: Registry) -> None:
    epoch = replicated(registry, min_insync=2)
    assert registry.set_in_sync("b1", epoch, stores("abc"), stores("ab"))
    text = refused(pb.BAD_REQUEST, registry, "remove_replica", "b1", "b")
    assert "without replica 'b' broker 'b1' has 1 in sync, and 2 are needed" in text
    registry.remove_replica("b1", "c")  # it was not counted
    assert "restart its leader with a lower --min-insync" in refused(
        pb.BAD_REQUEST, registry, "remove_replica", "b1", "b"
    )


def test_of_a_shard_that_lost_its_followers_one_broker_is_left(registry: Registry) -> None:
    """The way out when there are too few in sync, and the others never come back."""
    replicated(registry, synced="a")
    registry.remove_replica("b1", "b")
    registry.remove_replica("b1", "c")
    found = shard(registry)
    assert (found.min_insync, found.replicas_wanted) == (1, 1)
    epoch = registry.register_broker("b1", "store-a", "host:9", "1.0", LEASE_MS)
    assert shard(registry).replicas == ()
    assert registry.record_heartbeat("b1", epoch, BrokerLoad(), LEASE_MS)


def test_a_replica_does_not_register_as_a_broker_without_others(registry: Registry, sql: Sql) -> None:
    replicated(registry)
    sql(LEADERS_LEASE_RUNS_OUT)
    for store in ("store-a", "another"):
        with pytest.raises(StartupError, match=r"has replicas \(a, b, c\): start it with --replicas 3"):
            registry.register_broker("b1", store, "host:9", "1.0", LEASE_MS)


def test_a_broker_becomes_a_shard_by_its_own_store_only(registry: Registry, sql: Sql) -> None:
    epoch = registry.register_broker("b1", "store-a", "host:1", "1.0", LEASE_MS)
    sql(LEADERS_LEASE_RUNS_OUT)
    with pytest.raises(StartupError, match=r"'b1' at host:1 has no replicas.*restart it with --replicas 3 first"):
        joined(registry, "b")
    assert shard(registry).replicas == ()
    assert "restart it with --replicas" in refused(pb.BAD_REQUEST, registry, "add_replica", "b1")
    found = joined(registry, "a")
    assert (found.replicas_wanted, found.min_insync, found.epoch) == (3, 2, epoch)
    assert in_sync(registry) == {"a"}
    joined(registry, "b")
    assert led(registry, "a")


def test_a_replica_that_comes_back_is_as_it_was(registry: Registry, sql: Sql) -> None:
    replicated(registry, synced="ab")
    registry.heartbeat_replica("b1", "store-b", 77, LEASE_MS)
    sql(LEASE_RUNS_OUT.format("b"))
    back = JoiningReplica(store_id="store-b", name="b2", address="host-9:1", version="2.0")
    registry.join_shard("b1", back, LEASE_MS, replicas=2, min_insync=2, replication=ReplicationMode.ASYNC)
    found = replica(registry, "b2")
    assert (found.address, found.version, found.in_sync, found.live, found.position) == (
        "host-9:1",
        "2.0",
        True,
        True,
        77,
    )
    assert shard(registry).replicas_wanted == 3
    with pytest.raises(StartupError, match=r"replica 'c' of broker 'b1' is running at host-c:1, with another store"):
        joined(registry, "c", "store-b")


def test_a_new_disk_takes_the_place_of_the_replica_of_its_name(registry: Registry, sql: Sql) -> None:
    replicated(registry)
    with pytest.raises(StartupError, match=r"replica 'b' of broker 'b1' is running at host-b:1, with another store"):
        joined(registry, "b", "new")
    sql(LEASE_RUNS_OUT.format("b"))
    joined(registry, "b", "new")
    assert (replica(registry, "b").store_id, in_sync(registry)) == ("new", {"a", "c"})
    assert registry.heartbeat_replica("b1", "store-b", 0, LEASE_MS) is None
    with pytest.raises(StartupError, match="replica 'b' of broker 'b1' is running at host-b:1"):
        joined(registry, "b", "store-b")


def test_a_leader_with_a_new_disk_is_none_any_more(registry: Registry, sql: Sql) -> None:
    epoch = replicated(registry)
    sql(LEASE_RUNS_OUT.format("a"))
    with pytest.raises(StartupError, match="replica 'a' of broker 'b1' was at host-a:1"):
        joined(registry, "a", "new")  # the leader's lease counts too
    sql(LEADERS_LEASE_RUNS_OUT)
    joined(registry, "a", "new")
    assert not registry.record_heartbeat(
        "b1", epoch, BrokerLoad(), LEASE_MS
    )  # the process of before, had it been asleep
    assert led(registry, "a", epoch) is None
    assert led(registry, "b", shard(registry).epoch)
    assert in_sync(registry) == {"b", "c"}


def test_the_only_one_in_sync_is_not_replaced(registry: Registry, sql: Sql) -> None:
    replicated(registry, synced="a")
    sql(LEADERS_LEASE_RUNS_OUT)
    sql(LEASE_RUNS_OUT.format("a"))
    before = shard(registry)
    with pytest.raises(StartupError, match=r"only replica 'a' of broker 'b1' has all.*elect --unclean b1 NAME"):
        joined(registry, "a", "new")
    assert shard(registry) == before
    registry.elect_unclean("b1", "b")
    joined(registry, "a", "new")
    assert in_sync(registry) == {"b"}


def test_a_broker_that_is_removed_takes_its_replicas_along(registry: Registry) -> None:
    replicated(registry)
    registry.remove_broker("b1")
    assert registry.read_brokers()[1] == {}
    for name in "abc":
        assert registry.heartbeat_replica("b1", f"store-{name}", 0, LEASE_MS) is None
        with pytest.raises(StartupError, match="was that of broker 'b1', which was removed"):
            joined(registry, name)
    joined(registry, "b", rejoin=True)
    assert in_sync(registry) == {"b"}


def test_a_shard_that_rejoins_is_on_its_topics_again(registry: Registry) -> None:
    replicated(registry)
    registry.create_topic(Topic(name="orders", type=MessageType.NORMAL, brokers=("b1",)))
    registry.remove_broker("b1", force=True)
    joined(registry, "b", rejoin=True)
    assert registry.list_topics()[0].brokers == ("b1",)
    registry.update_topic(Topic(name="orders", type=MessageType.NORMAL))
    joined(registry, "a", rejoin=True)
    assert registry.list_topics()[0].brokers == ()  # the shard was back already


def test_brokers_and_shards_stand_side_by_side(open_registry: Open) -> None:
    registry, other = open_registry(), open_registry()
    replicated(registry)
    registry.register_broker("b0", "store", "host:1", "1.0", LEASE_MS)
    registry.register_broker("b2", "store-2", "host:2", "1.0", LEASE_MS)
    found = other.read_snapshot().brokers
    assert {name: len(each.replicas) for name, each in found.items()} == {"b0": 0, "b1": 3, "b2": 0}


def test_a_topic_has_a_replication_of_its_own(open_registry: Open) -> None:
    registry = open_registry()
    plain, _ = registry.create_topic(Topic(name="plain", type=MessageType.NORMAL))
    fast, _ = registry.create_topic(Topic(name="fast", type=MessageType.NORMAL, replication=ReplicationMode.ASYNC))
    assert open_registry().read_snapshot().topics == {"plain": plain, "fast": fast}
    registry.update_topic(replace(plain, replication=ReplicationMode.SYNC))
    registry.update_topic(replace(fast, replication=None))
    found = open_registry().read_snapshot().topics
    assert (found["plain"].replication, found["fast"].replication) == (ReplicationMode.SYNC, None)
