"""`ternmq broker list`, `drain`, `resume`, `permission` and `remove`: what operators see of brokers, and tell them."""

import json

import pytest

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from tests.unit.command.admin_server import AdminServer
from tests.unit.command.conftest import Call

OK = pb.Status(code=pb.OK, message="OK")


@pytest.fixture(autouse=True)
def brokers(server: AdminServer) -> None:
    server.brokers.put("b", live=False)
    server.brokers.put(
        "a",
        load=admin_pb2.BrokerLoad(messages_in=1234.4, messages_out=99.6, proxies=2, disk_used=0.25, clock_skew=-0.25),
    )


def remains(
    *backlogs: tuple[str, str, int], timers: int = 0, transactions: int = 0
) -> admin_pb2.BrokerRemainingResponse:
    listed = [admin_pb2.Backlog(group=group, topic=topic, messages=count) for group, topic, count in backlogs]
    return admin_pb2.BrokerRemainingResponse(status=OK, backlogs=listed, timers=timers, transactions=transactions)


def test_brokers_are_listed_by_name(call_server: Call, server: AdminServer) -> None:
    server.brokers.all["b"].draining = True
    lines = call_server("broker", "list").stdout.splitlines()
    assert lines[0].split() == [
        "NAME",
        "ADDRESS",
        "LIVE",
        "PERMISSION",
        "DRAINING",
        "VERSION",
        "LEASE",
        "END",
        "CLOCK",
        "IN/S",
        "OUT/S",
    ]
    shown = [
        "a",
        "a.example:10911",
        "yes",
        "read-write",
        "no",
        "1.0",
        "2023-11-14T22:23:20Z",
        "-0.2",
        "s",
        "1234",
        "100",
    ]
    assert lines[1].split() == shown
    assert lines[2].split()[:5] == ["b", "b.example:10911", "no", "read-write", "yes"]
    assert json.loads(call_server("broker", "list", "--json").stdout)[0] == {
        "name": "a",
        "address": "a.example:10911",
        "live": True,
        "permission": "read-write",
        "draining": False,
        "epoch": 7,
        "version": "1.0",
        "started": "2023-11-14T22:13:20Z",
        "lease_end": "2023-11-14T22:23:20Z",
        "load": {
            "messages_in": 1234.4,
            "messages_out": 99.6,
            "proxies": 2,
            "transactions": 0,
            "disk_used": 0.25,
            "messages": None,
            "unfinished": None,
            "timers": None,
            "clock_skew_s": -0.25,
        },
    }


def test_a_cluster_without_brokers_says_so(call_server: Call, server: AdminServer) -> None:
    server.brokers.all.clear()
    result = call_server("broker", "list")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no brokers\n")


def test_draining_shows_what_remains_and_does_not_wait_for_it(call_server: Call, server: AdminServer) -> None:
    server.brokers.remaining = [remains(("g", "orders", 3), ("h", "orders", 1), timers=1, transactions=2)]
    result = call_server("broker", "drain", "a")
    assert (result.exit_code, server.brokers.all["a"].draining, server.brokers.looks) == (0, True, 1)
    assert result.stdout.splitlines() == [
        "broker a is draining",
        "remaining:",
        "  3 messages of topic orders for group g",
        "  1 message of topic orders for group h",
        "  1 timed message",
        "  2 open transactions",
    ]


def test_draining_waits_until_nothing_remains_and_says_what_changes(call_server: Call, server: AdminServer) -> None:
    first, second = remains(("g", "orders", 3)), remains(timers=1)
    server.brokers.remaining = [first, first, second, second, remains()]
    result = call_server("broker", "drain", "a", "--wait")
    assert (result.exit_code, server.brokers.looks) == (0, 5)
    assert result.stdout.splitlines() == [
        "broker a is draining",
        "remaining:",
        "  3 messages of topic orders for group g",
        "remaining:",
        "  1 timed message",
        "nothing remains",
    ]


def test_a_broker_takes_messages_again(call_server: Call, server: AdminServer) -> None:
    server.brokers.all["a"].draining = True
    assert call_server("broker", "resume", "a").stdout == "broker a stores messages again\n"
    assert not server.brokers.all["a"].draining


@pytest.mark.parametrize(
    ("name", "value"), [("read-write", pb.READ_WRITE), ("read", pb.READ), ("write", pb.WRITE), ("none", pb.NONE)]
)
def test_a_broker_gets_a_permission_and_keeps_the_rest(
    call_server: Call, server: AdminServer, name: str, value: int
) -> None:
    server.brokers.all["a"].draining = True
    assert call_server("broker", "permission", "a", name).stdout == f"broker a has permission {name}\n"
    assert (server.brokers.all["a"].permission, server.brokers.all["a"].draining) == (value, True)


def test_a_broker_is_removed(call_server: Call, server: AdminServer) -> None:
    assert call_server("broker", "remove", "--yes", "a").stdout == "broker a removed\n"
    assert call_server("broker", "remove", "--yes", "b", "--force").exit_code == 0
    assert server.brokers.removed == [("a", False), ("b", True)]


def test_what_is_lost_by_force_is_told(call_server: Call, server: AdminServer) -> None:
    server.brokers.topics = ["orders", "payments"]
    server.brokers.put("c", live=False, load=admin_pb2.BrokerLoad(messages=8, unfinished=2, timers=1, transactions=3))
    result = call_server("broker", "remove", "c", "--force", "--yes")
    assert (result.stdout, result.stderr) == (
        "broker c removed\n",
        "lost with it: its queues of 2 topics (orders, payments); by its last report, 8 messages in them, of which "
        "groups have 2 to finish, 1 timed message and 3 open transactions\n",
    )
    assert "it never reported any" in call_server("broker", "remove", "b", "--force", "--yes").stderr
    server.brokers.put("d", load=admin_pb2.BrokerLoad(messages=0, unfinished=0, timers=0))
    assert call_server("broker", "remove", "d", "--force", "--yes").stderr == ""


def test_programs_hear_what_is_lost(call_server: Call, server: AdminServer) -> None:
    server.brokers.topics = ["orders"]
    server.brokers.put("c", load=admin_pb2.BrokerLoad(messages=8, unfinished=2))
    told = json.loads(call_server("broker", "remove", "c", "--force", "--yes", "--json").stdout)
    assert (told["removed"], told["topics"], told["lost"]["unfinished"], told["lost"]["timers"]) == (
        True, ["orders"], 2, None
    )  # fmt: skip
    told = json.loads(call_server("broker", "remove", "a", "--yes", "--json").stdout)
    assert told == {"name": "a", "removed": True, "topics": ["orders"], "lost": None}


@pytest.mark.usefixtures("terminal")
def test_a_person_is_asked_before_a_broker_is_removed(call_server: Call, server: AdminServer) -> None:
    refused = call_server("broker", "remove", "a", stdin="n\n")
    assert (refused.exit_code, server.brokers.removed) == (130, [])
    assert "Remove broker a from the cluster, with what it holds?" in refused.stderr
    assert call_server("broker", "remove", "a", "--yes").exit_code == 0


@pytest.mark.parametrize("arguments", [("drain", "c", "--wait"), ("resume", "c"), ("permission", "c", "read"),
                                       ("remove", "c", "--yes")])  # fmt: skip
def test_a_broker_that_is_not_there_is_one_line(call_server: Call, arguments: tuple[str, ...]) -> None:
    result = call_server("broker", *arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "ternmq: NOT_FOUND: no broker c\n"
