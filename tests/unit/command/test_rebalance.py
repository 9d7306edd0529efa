"""`ternmq cluster rebalance`: which queues it adds, what it leaves alone, and that it goes on where it was ended."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq.admin.brokers import Broker, BrokerLoad
from ternmq.admin.topics import Topic
from ternmq_command.cluster.plan import NoPlan, plan_rebalance
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from tests.unit.command.admin_server import AdminServer
from tests.unit.command.conftest import Call

OK = pb.Status(code=pb.OK, message="OK")
LOAD = BrokerLoad(messages_in=0, messages_out=0, proxies=0, transactions=0, disk_used=0)
NAMES = ("a", "b", "c", "d")


def broker(name: str, *, live: bool = True, draining: bool = False, permission: str = "read-write") -> Broker:
    return Broker(
        name=name,
        address="",
        live=live,
        permission=permission,
        draining=draining,
        epoch=1,
        version="",
        started=None,
        load=LOAD,
    )


def topic(name: str, *brokers: str, type_name: str = "normal", queues: int = 4) -> Topic:
    return Topic(name=name, type=type_name, queues=queues, permission="read-write", brokers=brokers, created=None)


brokers = st.lists(
    st.builds(
        broker,
        st.sampled_from(NAMES),
        live=st.booleans(),
        draining=st.booleans(),
        permission=st.sampled_from(["read-write", "read", "write", "none"]),
    ),
    unique_by=lambda one: one.name,
    min_size=1,
)
topics = st.lists(
    st.builds(
        lambda name, on, kind, queues: topic(name, *sorted(on), type_name=kind, queues=queues),
        st.sampled_from([f"t{number}" for number in range(6)]),
        st.sets(st.sampled_from(NAMES)),
        st.sampled_from(["normal", "fifo", "delay"]),
        st.integers(1, 16),
    ),
    unique_by=lambda one: one.name,
)


@given(brokers, topics, st.sets(st.sampled_from(NAMES)), st.booleans())
def test_after_a_plan_was_done_there_is_nothing_to_do(
    brokers: list[Broker], topics: list[Topic], off: set[str], fifo: bool
) -> None:
    off &= {one.name for one in brokers}
    try:
        plan = plan_rebalance(brokers, topics, off=off, fifo=fifo)
    except NoPlan:
        return
    takes = {one.name for one in brokers if one.live and not one.draining and "write" in one.permission} - off
    done = {one.topic: (*one.brokers, *one.added) for one in plan.widenings}
    after = [topic(one.name, *done.get(one.name, one.brokers), type_name=one.type, queues=one.queues) for one in topics]
    for one in after:
        assert takes <= set(one.brokers) or (one.type == "fifo" and not fifo and one.name in plan.left)
        assert not off or set(one.brokers) & takes, "nothing may be left without a broker that takes messages"
    drained = [
        broker(one.name, live=one.live, draining=one.draining or one.name in off, permission=one.permission)
        for one in brokers
    ]
    assert plan_rebalance(drained, after, off=off, fifo=fifo).is_nothing
    for name, (before, planned) in plan.shares.items():
        assert before == sum(one.queues for one in topics if name in one.brokers)
        expected = 0 if name in off else sum(one.queues for one in after if name in one.brokers)
        assert planned == expected


def test_a_fifo_topic_is_not_left_without_a_broker() -> None:
    ordered = [topic("ordered", "a", type_name="fifo")]
    with pytest.raises(NoPlan, match=r"ordered.*--fifo"):
        plan_rebalance([broker("a"), broker("b")], ordered, off=["a"], fifo=False)
    plan = plan_rebalance([broker("a"), broker("b")], ordered, off=["a"], fifo=True)
    assert [(one.topic, one.added) for one in plan.widenings] == [("ordered", ("b",))]


def test_the_last_broker_is_not_emptied() -> None:
    with pytest.raises(NoPlan, match="no live broker that accepts"):
        plan_rebalance([broker("a"), broker("b", live=False)], [], off=["a"], fifo=False)


@pytest.fixture
def cluster(server: AdminServer) -> AdminServer:
    for name in ("a", "b"):
        server.brokers.put(name)
    server.topics.clear()
    for name, kind, on in (("orders", pb.NORMAL, "a"), ("ordered", pb.FIFO, "a"), ("wide", pb.NORMAL, "ab")):
        server.topics[name] = admin_pb2.Topic(
            name=name, type=kind, queues=4, permission=pb.READ_WRITE, brokers=sorted(on)
        )
    return server


def test_a_plan_is_shown_and_nothing_done(call_server: Call, cluster: AdminServer) -> None:
    lines = call_server("cluster", "rebalance", "--dry-run").stdout.splitlines()
    assert lines.pop() == "not changed, since they are FIFO and --fifo is not given: ordered"
    assert [line.split() for line in lines] == [
        ["TOPIC", "QUEUES", "ON", "EACH", "IS", "ON", "ALSO", "ON"],
        ["orders", "4", "a", "b"],
        ["BROKER", "QUEUES", "PLANNED"],
        ["a", "12", "12"],
        ["b", "4", "8"],
    ]
    assert list(cluster.topics["orders"].brokers) == ["a"]


def test_without_a_terminal_it_wants_yes(call_server: Call, cluster: AdminServer) -> None:
    result = call_server("cluster", "rebalance")
    assert result.exit_code == 2
    assert "--yes" in result.stderr
    assert list(cluster.topics["orders"].brokers) == ["a"]


def test_topics_get_queues_on_the_new_broker_and_then_there_is_nothing_to_do(
    call_server: Call, cluster: AdminServer
) -> None:
    assert "1 topic changed" in call_server("cluster", "rebalance", "--yes").stdout
    assert list(cluster.topics["orders"].brokers) == ["a", "b"]
    assert list(cluster.topics["ordered"].brokers) == ["a"]
    assert "nothing to do" in call_server("cluster", "rebalance").stdout


def test_only_topics_that_are_named(call_server: Call, cluster: AdminServer) -> None:
    call_server("cluster", "rebalance", "--yes", "--fifo", "--topic", "order?d")
    assert list(cluster.topics["ordered"].brokers) == ["a", "b"]
    assert list(cluster.topics["orders"].brokers) == ["a"]
    missing = call_server("cluster", "rebalance", "--topic", "nothing.*")
    assert (missing.exit_code, missing.stderr) == (1, "ternmq: no topic matches nothing.*\n")


def test_a_broker_is_emptied_after_its_topics_are_elsewhere(call_server: Call, cluster: AdminServer) -> None:
    backlog = admin_pb2.Backlog(group="g", topic="orders", messages=3)
    cluster.brokers.remaining = [
        admin_pb2.BrokerRemainingResponse(status=OK, backlogs=[backlog]),
        admin_pb2.BrokerRemainingResponse(status=OK),
    ]
    result = call_server("cluster", "rebalance", "--off", "a", "--fifo", "--yes", "--json")
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert records[0] == {
        "topics": [
            {"topic": "ordered", "queues": 4, "brokers": ["a"], "added": ["b"]},
            {"topic": "orders", "queues": 4, "brokers": ["a"], "added": ["b"]},
        ],
        "drained": ["a"],
        "left": [],
        "brokers": [{"broker": "a", "queues": 12, "planned": 0}, {"broker": "b", "queues": 4, "planned": 12}],
    }
    assert [record.get("done") for record in records[1:4]] == ["topic", "topic", "drain"]
    assert [len(record["backlogs"]) for record in records[4:]] == [1, 0]
    assert cluster.brokers.all["a"].draining
    again = call_server("cluster", "rebalance", "--off", "a", "--yes")
    assert again.stdout.splitlines()[0].startswith("nothing to do")
    assert again.stdout.splitlines()[-1] == "nothing remains"


def test_a_broker_that_is_not_there_is_named(call_server: Call, cluster: AdminServer) -> None:
    result = call_server("cluster", "rebalance", "--off", "z")
    assert (result.exit_code, result.stderr) == (1, "ternmq: there is no broker z; there are: a, b\n")
    both = call_server("cluster", "rebalance", "--off", "a", "--topic", "orders")
    assert both.exit_code == 2


def test_an_embedded_server_has_nothing_to_balance(call_server: Call, server: AdminServer) -> None:
    server.brokers.put("broker-0")
    server.topics["orders"] = admin_pb2.Topic(name="orders", type=pb.NORMAL, queues=4, permission=pb.READ_WRITE)
    result = call_server("cluster", "rebalance")
    assert (result.exit_code, "only one broker" in result.stderr) == (1, True)
