"""What pages say of brokers and replicas: who may lead, how far each is, and what is lost with it."""

import pytest

from ternmq_console.pages.cluster import broker_facts
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2


def replica(name: str, marks: str = "", position: int = 0) -> admin_pb2.Replica:
    """`marks`: leader, in-sync, live."""
    return admin_pb2.Replica(
        name=name, leader="leader" in marks, in_sync="in-sync" in marks, live="live" in marks, position=position
    )


def shard(*replicas: admin_pb2.Replica, live: bool = True) -> admin_pb2.Broker:
    return admin_pb2.Broker(name="s", epoch=7, live=live, replicas=replicas)


LEADER = replica("a", "leader in-sync live", 500)
FOLLOWER = replica("b", "in-sync live", 480)
AWAY = replica("c", "in-sync", 490)
BEHIND = replica("d", "live", 100)


def test_the_one_broker_of_a_server_is_no_clusters() -> None:
    assert not broker_facts.is_of_cluster(admin_pb2.Broker(name="broker-0", live=True))
    assert broker_facts.is_of_cluster(shard())


def test_what_was_not_counted_yet_is_not_nothing() -> None:
    told = broker_facts.reported_load(admin_pb2.BrokerLoad(messages_in=1.5, transactions=2))
    assert (told.messages, told.unfinished, told.timers, told.clock_skew) == (None, None, None, None)
    assert (told.messages_in, told.transactions) == (1.5, 2)
    told = broker_facts.reported_load(admin_pb2.BrokerLoad(messages=0, unfinished=3, timers=0, clock_skew=-0.25))
    assert (told.messages, told.unfinished, told.timers, told.clock_skew) == (0, 3, 0, -0.25)


@pytest.mark.parametrize(
    ("draining", "load", "is_drained"),
    [
        (True, {"messages": 9, "unfinished": 0, "timers": 0}, True),
        (False, {"messages": 9, "unfinished": 0, "timers": 0}, False),
        (True, {}, False),
        (True, {"unfinished": 1, "timers": 0}, False),
        (True, {"unfinished": 0, "timers": 1}, False),
        (True, {"unfinished": 0, "timers": 0, "transactions": 1}, False),
    ],
)
def test_a_broker_is_drained_when_it_told_that_nobody_would_miss_what_it_has(
    draining: bool, load: dict[str, int], is_drained: bool
) -> None:
    assert broker_facts.is_drained(admin_pb2.Broker(draining=draining, load=admin_pb2.BrokerLoad(**load))) is is_drained


def test_only_who_is_in_sync_and_live_may_lead() -> None:
    assert broker_facts.may_lead(shard(LEADER, FOLLOWER, AWAY, BEHIND)) == ["b"]


def test_a_leader_that_serves_nobody_is_away() -> None:
    assert broker_facts.is_live(LEADER, shard(LEADER))
    assert not broker_facts.is_live(LEADER, shard(LEADER, live=False))
    assert broker_facts.is_live(FOLLOWER, shard(LEADER, FOLLOWER, live=False))
    assert not broker_facts.is_live(AWAY, shard(LEADER, AWAY))


def test_how_far_one_is_behind_is_known_by_the_leader_alone() -> None:
    assert broker_facts.behind(BEHIND, shard(LEADER, BEHIND)) == 400
    assert broker_facts.behind(replica("e", "live", 501), shard(LEADER)) == 0, "told after the leader did"
    assert broker_facts.behind(BEHIND, shard(FOLLOWER, BEHIND)) is None


def test_one_that_is_not_in_sync_is_elected_only_while_none_leads() -> None:
    away = shard(LEADER, FOLLOWER, AWAY, BEHIND, live=False)
    assert [broker_facts.is_electable(each, away) for each in away.replicas] == [False, False, False, True]
    assert not broker_facts.is_electable(BEHIND, shard(LEADER, BEHIND))
    assert not broker_facts.is_electable(replica("d", "", 100), away)


def test_what_is_lost_is_what_those_in_sync_told_that_they_have_more() -> None:
    assert broker_facts.known_loss(BEHIND, shard(AWAY, BEHIND, replica("e", "live", 900), live=False)) == 390
    assert broker_facts.known_loss(replica("d", "live", 495), shard(AWAY, live=False)) == 0
    assert broker_facts.known_loss(BEHIND, shard(BEHIND, live=False)) == 0


def test_permission_and_replication_are_named() -> None:
    broker = admin_pb2.Broker(permission=definition_pb2.READ, replication=admin_pb2.REPLICATION_ASYNC)
    assert broker_facts.permission_of(broker) == "READ"
    assert broker_facts.is_async(broker)
    assert not broker_facts.is_async(shard())
