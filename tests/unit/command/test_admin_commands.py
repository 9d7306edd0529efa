"""topic, group and version against an admin service: output for people and programs, exit codes, errors of one line."""

import json
import socket

import pytest

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from tests.unit.command.admin_server import AdminServer
from tests.unit.command.conftest import Call
from tests.unit.command.messaging_server import message


def test_a_topic_is_created_once_and_creating_it_again_succeeds(call_server: Call, server: AdminServer) -> None:
    first = call_server("topic", "create", "orders", "--type", "fifo", "--queues", "4")
    assert (first.exit_code, first.stdout) == (0, "topic orders created\n")
    assert (server.topics["orders"].type, server.topics["orders"].queues) == (pb.FIFO, 4)
    again = call_server("topic", "create", "orders", "--type", "fifo", "--queues", "4", "--json")
    assert (again.exit_code, json.loads(again.stdout)) == (0, {"name": "orders", "created": False})


@pytest.mark.parametrize("type_name", ["normal", "fifo", "delay", "transaction", "priority", "lite"])
def test_every_type_of_topic_can_be_asked_for(call_server: Call, server: AdminServer, type_name: str) -> None:
    assert call_server("topic", "create", "t", "--type", type_name).exit_code == 0
    assert server.topics["t"].type == pb.MessageType.Value(type_name.upper())


def test_a_refusal_is_one_line_with_the_name_of_the_code(call_server: Call) -> None:
    call_server("topic", "create", "orders", "--queues", "4")
    refused = call_server("topic", "create", "orders", "--queues", "5")
    assert refused.exit_code == 1
    assert refused.stderr == "ternmq: PRECONDITION_FAILED: topic orders exists with other settings\n"
    assert refused.stdout == ""


def test_a_refusal_of_several_lines_becomes_one(call_server: Call) -> None:
    assert call_server("topic", "describe", "x").stderr == "ternmq: TOPIC_NOT_FOUND: no topic x\n"


def test_topics_are_listed_by_name(call_server: Call) -> None:
    call_server("topic", "create", "zebra")
    call_server("topic", "create", "ant", "--type", "delay", "--queues", "16")
    assert call_server("topic", "list").stdout.splitlines() == [
        "NAME   TYPE    QUEUES  CREATED",
        "ant    delay       16  -",
        "zebra  normal       8  -",
    ]
    assert json.loads(call_server("topic", "list", "--json").stdout)[0] == {
        "name": "ant",
        "type": "delay",
        "queues": 16,
        "created": None,
    }


def test_an_empty_list_is_still_json(call_server: Call) -> None:
    assert json.loads(call_server("topic", "list", "--json").stdout) == []
    people = call_server("topic", "list")
    assert (people.stdout, people.stderr) == ("", "no topics\n")


def test_a_topic_is_described_with_its_queues(call_server: Call, server: AdminServer) -> None:
    call_server("topic", "create", "orders", "--queues", "1")
    for number in range(10):
        server.memory.put("orders", 0, message(f"m{number}"))
    server.memory.queues["orders"][0].remove_before(3)
    described = json.loads(call_server("topic", "describe", "orders", "--json").stdout)
    assert described["message_queues"] == [
        {"broker": "broker-0", "queue": 0, "first_offset": 3, "end_offset": 10, "messages": 7}
    ]
    assert "broker-0      0             3          10         7" in call_server("topic", "describe", "orders").stdout


def test_a_topic_is_described_with_where_it_is_and_what_may_be_done(call_server: Call, server: AdminServer) -> None:
    call_server("topic", "create", "orders", "--brokers", "b, a,")
    assert list(server.topics["orders"].brokers) == ["b", "a"]
    server.topics["orders"].permission = pb.READ
    server.brokers.silent = ["b"]
    result = call_server("topic", "describe", "orders", "--json")
    described = json.loads(result.stdout)
    assert (described["permission"], described["brokers"]) == ("read", ["b", "a"])
    assert result.stderr == "no answer from b\n"
    people = call_server("topic", "describe", "orders").stdout
    assert "permission  read\n" in people
    assert "brokers     b,a\n" in people


def test_a_topic_is_updated_as_the_options_say_and_keeps_the_rest(call_server: Call, server: AdminServer) -> None:
    call_server("topic", "create", "orders", "--queues", "4", "--brokers", "a,b")
    updated = call_server("topic", "update", "orders", "--queues", "6", "--json")
    assert json.loads(updated.stdout) == {
        "name": "orders",
        "type": "normal",
        "queues": 6,
        "created": None,
        "permission": "read-write",
        "brokers": ["a", "b"],
    }
    people = call_server(
        "topic", "update", "orders", "--permission", "read", "--add-broker", "c", "--remove-broker", "a"
    )
    assert "permission  read\n" in people.stdout
    assert (server.topics["orders"].queues, list(server.topics["orders"].brokers)) == (6, ["b", "c"])


def test_a_topic_is_deleted(call_server: Call, server: AdminServer) -> None:
    call_server("topic", "create", "orders")
    assert call_server("topic", "delete", "orders").stdout == "topic orders deleted\n"
    assert not server.topics


def test_groups_are_created_listed_described_and_deleted(call_server: Call, server: AdminServer) -> None:
    assert call_server("group", "create", "g", "--fifo", "--max-attempts", "5").stdout == "group g created\n"
    assert (server.groups["g"].fifo, server.groups["g"].max_attempts) == (True, 5)
    assert call_server("group", "create", "g").exit_code == 0
    listed = call_server("group", "list").stdout.splitlines()[1].split()
    assert listed == ["g", "yes", "5", "default", "auto", "averagely", "-", "99", "-"]
    described = json.loads(call_server("group", "describe", "g", "--json").stdout)
    assert described["clients"] == ["client-1"]
    assert described["progress"][0]["lag"] == 4
    assert call_server("group", "delete", "g").exit_code == 0
    assert not server.groups


def test_a_group_without_a_topic_has_no_lag_to_tell(call_server: Call, server: AdminServer) -> None:
    server.progress = []
    call_server("group", "create", "g", "--consume-from", "earliest")
    assert "lag              no topic yet\n" in call_server("group", "describe", "g").stdout
    server.members = [admin_pb2.Member(client_id="client-1", subscriptions={"orders": "*"})]
    assert "lag              0 messages\n" in call_server("group", "describe", "g").stdout


def test_every_call_carries_a_client_id(call_server: Call, server: AdminServer) -> None:
    call_server("topic", "list")
    call_server("group", "list")
    assert len(set(server.client_ids)) == 2


def test_the_servers_version_is_told_when_asked_for(call_server: Call) -> None:
    assert json.loads(call_server("version", "--server", "--json").stdout)["server"] == "9.9"
    assert "2023-11-14T22:13:20Z" in call_server("version", "--server").stdout


UNANSWERED = (
    ("topic", "list"),
    ("group", "create", "g"),
    ("version", "--server"),
    ("clock", "show"),
    ("clock", "advance", "2h"),
    ("transaction", "list"),
    ("transaction", "show", "id"),
    ("transaction", "commit", "id", "id-2"),
    ("recall", "orders", "handle"),
    ("send", "orders", "later", "--delay", "2h"),
)


def test_without_a_server_the_exit_code_is_3_and_the_line_says_what_to_do(call: Call) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    for arguments in UNANSWERED:
        result = call(*arguments, "--endpoint", f"127.0.0.1:{port}")
        assert result.exit_code == 3
        assert result.stderr == (
            f"ternmq: can't reach a broker at 127.0.0.1:{port} (connection refused); "
            "start one with `ternmq up`, or name another with --endpoint\n"
        )
