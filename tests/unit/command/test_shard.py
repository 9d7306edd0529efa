"""`ternmq shard`: what operators see of replicas, and what they are asked before messages may be lost."""

import json
from collections.abc import Callable

import pytest

from tests.unit.command.admin_server import AdminServer
from tests.unit.command.conftest import Call

TIMES = ("2023-11-14T22:13:20Z", "2023-11-14T22:23:20Z")


@pytest.fixture(autouse=True)
def shards(server: AdminServer) -> None:
    """`s` with a leader, one in sync, one behind and away; and a broker without replicas."""
    server.brokers.put_replicas("s", a=1000, b=900, c=300)
    behind = server.brokers.replica("s", "c")
    behind.in_sync = behind.live = False
    server.brokers.put("plain")


def happens(server: AdminServer, *then: Callable[[], object]) -> None:
    server.brokers.then = list(then)


def nothing() -> None:
    """Between two looks."""


def test_shards_are_listed_with_what_each_replica_is(call_server: Call, server: AdminServer) -> None:
    lines = call_server("shard", "list").stdout.splitlines()
    assert lines[0].split() == ["SHARD", "EPOCH", "LEADER", "MODE", "MIN", "IN", "SYNC", "REPLICAS"]
    assert lines[1].split() == ["plain", "7", "-", "-", "-", "none"]
    assert lines[2].split() == ["s", "7", "a", "sync", "2", "a:leader", "b:in-sync", "c:behind,away"]
    server.brokers.all["s"].live = False
    assert "a:leader,away" in call_server("shard", "list").stdout


def test_a_list_for_programs_has_all_of_it(call_server: Call) -> None:
    plain, shard = json.loads(call_server("shard", "list", "--json").stdout)
    assert (plain["shard"], plain["leader"], plain["mode"], plain["replicas"]) == ("plain", None, None, [])
    replicas = shard.pop("replicas")
    assert shard == {
        "shard": "s",
        "epoch": 7,
        "live": True,
        "leader": "a",
        "moving_to": None,
        "mode": "sync",
        "in_sync": 2,
        "min_in_sync": 2,
        "replicas_wanted": 3,
    }
    assert replicas[1] == {
        "replica": "b",
        "address": "b.example:10911",
        "leader": False,
        "in_sync": True,
        "live": True,
        "position": 900,
        "behind": 100,
        "version": "1.0",
        "started": "2023-11-14T22:13:20Z",
        "lease_end": "2023-11-14T22:23:20Z",
        "store": "store-b",
    }


def test_a_shard_is_shown_with_a_line_for_each_replica(call_server: Call) -> None:
    lines = call_server("shard", "show", "s").stdout.splitlines()
    assert [line.split() for line in lines[-4:]] == [
        [
            "REPLICA",
            "ADDRESS",
            "LEADER",
            "IN",
            "SYNC",
            "LIVE",
            "POSITION",
            "BEHIND",
            "VERSION",
            "STARTED",
            "LEASE",
            "END",
        ],
        ["a", "a.example:10911", "yes", "yes", "yes", "1000", "0", "1.0", *TIMES],
        ["b", "b.example:10911", "no", "yes", "yes", "900", "100", "1.0", *TIMES],
        ["c", "c.example:10911", "no", "no", "no", "300", "700", "1.0", *TIMES],
    ]
    assert json.loads(call_server("shard", "show", "s", "--json").stdout)["leader"] == "a"


def test_a_broker_without_replicas_is_shown_as_one(call_server: Call) -> None:
    assert call_server("shard", "show", "plain").stdout.endswith("it has no replicas\n")


def test_a_shard_that_is_not_there_is_told_with_what_is_near(call_server: Call) -> None:
    result = call_server("shard", "show", "plian")
    assert (result.exit_code, result.stderr) == (1, "ternmq: there is no shard 'plian'; did you mean 'plain'?\n")
    assert "`ternmq shard list` shows all" in call_server("shard", "show", "zzz").stderr


def test_moving_the_leader_waits_until_it_leads(call_server: Call, server: AdminServer) -> None:
    happens(server, nothing, nothing, lambda: server.brokers.lead("s", "b"))
    result = call_server("shard", "move-leader", "s", "b")
    assert (result.exit_code, result.stdout) == (0, "replica b leads shard s, in epoch 8\n")
    assert server.brokers.then == []
    happens(server, lambda: server.brokers.lead("s", "a"))
    assert json.loads(call_server("shard", "move-leader", "s", "a", "--json").stdout)["leader"] == "a"


def test_moving_the_leader_ends_when_it_does_not_come_about(call_server: Call, server: AdminServer) -> None:
    result = call_server("shard", "move-leader", "s", "b", "--timeout", "0")
    assert result.exit_code == 1
    assert (
        "replica b does not lead shard s after 0 s; the request stays in force; `ternmq shard show s` shows"
        in result.stderr
    )
    happens(server, lambda: server.brokers.lead("s", "c"))
    result = call_server("shard", "move-leader", "s", "b")
    assert (result.exit_code, result.stderr) == (1, "ternmq: shard s is led by replica c now; repeat the command\n")


def test_what_the_server_refuses_is_told(call_server: Call) -> None:
    result = call_server("shard", "move-leader", "s", "c")
    assert (result.exit_code, result.stderr) == (1, "ternmq: BAD_REQUEST: replica c is not in sync\n")


@pytest.mark.usefixtures("terminal")
def test_an_election_says_what_is_lost_and_asks(call_server: Call, server: AdminServer) -> None:
    result = call_server("shard", "elect", "--unclean", "s", "c", stdin="n\n")
    assert result.exit_code != 0
    assert server.brokers.all["s"].epoch == 7
    assert result.stderr.splitlines()[:4] == [
        "replica c has the log up to byte 300, before it went away",
        "replica a, which is in sync, had it up to byte 1000",
        "replica b, which is in sync, had it up to byte 900",
        "at least 700 bytes of messages are lost, and those stored after these reports",
    ]
    assert "Make replica c the leader of shard s, and lose the messages that it does not have? [y/N]" in result.stderr
    result = call_server("shard", "elect", "--unclean", "s", "c", stdin="y\n")
    assert result.stdout == "replica c leads shard s, in epoch 8; 700 bytes of the log, at least, are lost\n"


def test_an_election_of_one_that_had_as_much_says_that_it_is_not_known(call_server: Call, server: AdminServer) -> None:
    server.brokers.replica("s", "c").position = 1000
    result = call_server("shard", "elect", "--unclean", "s", "c", "--yes", "--json")
    assert "it is not known what is lost: messages stored after these reports" in result.stderr
    assert (json.loads(result.stdout)["leader"], json.loads(result.stdout)["lost_bytes"]) == ("c", 0)
    assert "is in sync: it has all that was ack" in call_server("shard", "elect", "--unclean", "s", "c", "--yes").stderr


def test_an_election_must_be_meant(call_server: Call, server: AdminServer) -> None:
    result = call_server("shard", "elect", "s", "c", "--yes")
    assert (result.exit_code, "give --unclean" in result.stderr) == (2, True)
    result = call_server("shard", "elect", "--unclean", "s", "c")
    assert (result.exit_code, "there is no terminal to ask at" in result.stderr) == (2, True)
    result = call_server("shard", "elect", "--unclean", "s", "d", "--yes")
    assert (result.exit_code, result.stderr) == (1, "ternmq: shard s has no replica 'd'; it has a, b, c\n")
    assert server.brokers.all["s"].epoch == 7


def test_a_replica_is_added_and_its_process_named(call_server: Call, server: AdminServer) -> None:
    result = call_server("shard", "add-replica", "s")
    assert result.stdout == (
        "shard s may have 4 replicas, and has 3: start another one with\n"
        "  ternmq broker --broker-name s --replicas 4 --replica-name NAME --data-dir DIR ...\n"
    )
    assert json.loads(call_server("shard", "add-replica", "s", "--json").stdout)["replicas_wanted"] == 5
    assert server.brokers.all["s"].replicas_wanted == 5


@pytest.mark.usefixtures("terminal")
def test_a_replica_is_removed_when_it_is_meant(call_server: Call, server: AdminServer) -> None:
    result = call_server("shard", "remove-replica", "s", "b", stdin="n\n")
    assert "Remove replica b of shard s with its copy, and keep 1 in sync? [y/N]" in result.stderr
    assert len(server.brokers.all["s"].replicas) == 3
    result = call_server("shard", "remove-replica", "s", "b", "--yes")
    assert result.stdout == "replica b of shard s removed; it has 2 replicas now\n"
    told = json.loads(call_server("shard", "remove-replica", "s", "c", "--yes", "--json").stdout)
    assert [each["replica"] for each in told["replicas"]] == ["a"]
