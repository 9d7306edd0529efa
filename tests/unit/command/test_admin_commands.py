"""topic, group and version against an admin service: output for people and programs, exit codes, errors of one line."""

import json
import shlex
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


def test_a_refusal_is_one_line_with_the_name_of_the_code(call_server: Call, server: AdminServer) -> None:
    server.full = {"orders"}
    refused = call_server("topic", "create", "orders")
    assert refused.exit_code == 1
    assert refused.stderr == "ternmq: TOO_MANY_REQUESTS: no room for orders\n"
    assert refused.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("topic", "create", "orders", "--queues", "5"),
            "PRECONDITION_FAILED: topic orders exists: queues 4 -> 5; "
            "to change it: `ternmq topic update orders --queues 5`",
        ),
        (
            ("topic", "create", "orders", "--queues", "3"),
            "PRECONDITION_FAILED: topic orders exists: it has 4 queues on each broker; "
            "queues can be added, not removed",
        ),
        (
            ("topic", "create", "orders"),
            "PRECONDITION_FAILED: topic orders exists: it has other settings than the defaults; see "
            "`ternmq topic describe orders`, and change it with `ternmq topic update orders`, or give its settings",
        ),
        (
            ("topic", "create", "orders", "--type", "fifo"),
            "PRECONDITION_FAILED: topic orders exists: its type is normal, and a topic's type can't change; "
            "`ternmq topic delete orders` deletes it with its messages",
        ),
        (
            ("group", "create", "g", "--max-attempts", "5", "--retry-backoff", "customized:1s,5s"),
            "PRECONDITION_FAILED: group g exists: max_attempts 3 -> 5, retry_backoff customized:1s -> "
            "customized:1s,5s; to change it: `ternmq group update g --max-attempts 5 --retry-backoff customized:1s,5s`",
        ),
        (
            ("group", "create", "g", "--fifo"),
            "PRECONDITION_FAILED: group g exists: it is not FIFO; "
            "`ternmq group update g --fifo` changes that before its first message",
        ),
    ],
)
def test_creating_what_is_there_otherwise_tells_the_command_that_changes_it(
    call_server: Call, arguments: tuple[str, ...], told: str
) -> None:
    call_server("topic", "create", "orders", "--queues", "4")
    call_server("group", "create", "g", "--max-attempts", "3", "--retry-backoff", "customized:1s")
    refused = call_server(*arguments)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == f"ternmq: {told}\n"
    if "`ternmq" in told and " update " in told and "change it:" in told:
        assert call_server(*shlex.split(told.partition("`ternmq ")[2].rstrip("`"))).exit_code == 0
        assert call_server(*arguments).exit_code == 0


def test_the_command_that_changes_it_goes_to_the_same_endpoint(call: Call, server: AdminServer) -> None:
    create = ("topic", "create", "orders", "--endpoint", server.endpoint)
    assert call(*create, "--queues", "4").exit_code == 0
    told = call(*create, "--queues", "5").stderr
    assert told.endswith(f"`ternmq topic update orders --queues 5 --endpoint {server.endpoint}`\n")


def test_a_refusal_of_several_lines_becomes_one(call_server: Call, server: AdminServer) -> None:
    server.memory.before = lambda method, _: pb.Status(code=pb.BAD_REQUEST, message=f"{method}\nno")
    assert call_server("recall", "orders", "handle").stderr == "ternmq: BAD_REQUEST: RecallMessage no\n"


NAMED = [
    ("topic", "describe"),
    ("topic", "update", "--queues", "9"),
    ("topic", "delete", "--yes"),
    ("group", "describe"),
    ("group", "update", "--max-attempts", "9"),
    ("group", "delete", "--yes"),
]
CODES = {"topic": "TOPIC_NOT_FOUND", "group": "CONSUMER_GROUP_NOT_FOUND"}


@pytest.mark.parametrize("words", NAMED, ids=" ".join)
def test_what_is_not_there_is_told_with_near_names(call_server: Call, words: tuple[str, ...]) -> None:
    kind, verb, *flags = words
    for name in ("orders", "orders-2", "payments"):
        call_server(kind, "create", name)
    near = call_server(kind, verb, "order", *flags)
    assert (near.exit_code, near.stdout) == (1, "")
    assert near.stderr == (f"ternmq: {CODES[kind]}: there is no {kind} 'order'; did you mean 'orders' or 'orders-2'?\n")
    far = call_server(kind, verb, "nope", *flags)
    assert far.stderr == f"ternmq: {CODES[kind]}: there is no {kind} 'nope'; `ternmq {kind} list` shows all\n"


def test_a_name_of_any_length_is_told_at_once(call_server: Call) -> None:
    call_server("topic", "create", "orders")
    result = call_server("topic", "delete", "o" * 100_000, "--yes")
    assert result.exit_code == 1
    assert len(result.stderr) < 1000


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
        "lite_ttl": None,
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
    assert "permission   read\n" in people
    assert "brokers      b,a\n" in people


def test_a_topic_is_updated_as_the_options_say_and_keeps_the_rest(call_server: Call, server: AdminServer) -> None:
    call_server("topic", "create", "orders", "--queues", "4", "--brokers", "a,b")
    updated = call_server("topic", "update", "orders", "--queues", "6", "--json")
    assert json.loads(updated.stdout) == {
        "name": "orders",
        "type": "normal",
        "queues": 6,
        "created": None,
        "lite_ttl": None,
        "permission": "read-write",
        "replication": "shard",
        "flush": "broker",
        "retention": "broker",
        "brokers": ["a", "b"],
    }
    people = call_server(
        "topic", "update", "orders", "--permission", "read", "--add-broker", "c", "--remove-broker", "a"
    )
    assert "permission   read\n" in people.stdout
    assert (server.topics["orders"].queues, list(server.topics["orders"].brokers)) == (6, ["b", "c"])


def test_a_topic_says_itself_when_its_sends_are_answered(call_server: Call, server: AdminServer) -> None:
    call_server("topic", "create", "clicks", "--replication", "async")
    assert server.topics["clicks"].replication == admin_pb2.REPLICATION_ASYNC
    for name in ("sync", "shard"):
        told = json.loads(call_server("topic", "update", "clicks", "--replication", name, "--json").stdout)
        assert told["replication"] == name
    refused = call_server("topic", "update", "clicks", "--replication", "both")
    assert refused.exit_code == 2
    call_server("topic", "create", "orders")
    assert not server.topics["orders"].replication


def test_a_topic_has_a_flush_mode_and_a_retention_of_its_own(call_server: Call, server: AdminServer) -> None:
    call_server("topic", "create", "clicks", "--flush", "async", "--retention", "90m")
    clicks = server.topics["clicks"]
    assert (clicks.flush, clicks.retention.ToMilliseconds()) == (admin_pb2.FLUSH_ASYNC, 90 * 60_000)
    told = json.loads(call_server("topic", "update", "clicks", "--retention", "7d", "--json").stdout)
    assert (told["flush"], told["retention"]) == ("async", "7d")
    told = json.loads(
        call_server("topic", "update", "clicks", "--flush", "broker", "--retention", "0s", "--json").stdout
    )
    assert (told["flush"], told["retention"]) == ("broker", "broker")
    assert call_server("topic", "update", "clicks", "--flush", "both").exit_code == 2


def test_the_ttl_of_lite_topics_is_set_shown_and_changed(call_server: Call, server: AdminServer) -> None:
    call_server("topic", "create", "chats", "--type", "lite", "--lite-ttl", "1d")
    assert server.topics["chats"].lite_ttl.ToMilliseconds() == 86_400_000
    call_server("topic", "create", "orders")
    assert not server.topics["orders"].HasField("lite_ttl")
    lines = [line.split() for line in call_server("topic", "list").stdout.splitlines()]
    assert [line[-2:] for line in lines] == [["LITE", "TTL"], ["-", "1d"], ["-", "-"]]
    assert call_server("topic", "list", "--format", "{name} {lite_ttl}").stdout.splitlines()[0] == "chats 1d"
    assert "lite ttl     1d\n" in call_server("topic", "describe", "chats").stdout
    assert "lite ttl" not in call_server("topic", "describe", "orders").stdout
    told = json.loads(call_server("topic", "update", "chats", "--lite-ttl", "2h", "--json").stdout)
    assert told["lite_ttl"] == "2h"
    again = call_server("topic", "create", "chats", "--type", "lite", "--queues", "9", "--lite-ttl", "0s").stderr
    assert "to change it: `ternmq topic update chats --queues 9 --lite-ttl 0s`" in again
    told = json.loads(call_server("topic", "update", "chats", "--lite-ttl", "0s", "--json").stdout)
    assert (told["lite_ttl"], server.topics["chats"].queues) == ("none", 8)


def test_a_mixed_topic_is_one_of_type_mixed(call_server: Call, server: AdminServer) -> None:
    call_server("topic", "create", "all", "--type", "mixed")
    assert (server.topics["all"].type, server.topics["all"].mixed) == (pb.NORMAL, True)
    assert json.loads(call_server("topic", "describe", "all", "--json").stdout)["type"] == "mixed"
    call_server("topic", "create", "orders")
    assert not server.topics["orders"].mixed


def test_a_topic_is_deleted(call_server: Call, server: AdminServer) -> None:
    call_server("topic", "create", "orders")
    assert call_server("topic", "delete", "orders", "--yes").stdout == "topic orders deleted\n"
    assert not server.topics


def test_groups_are_created_listed_described_and_deleted(call_server: Call, server: AdminServer) -> None:
    assert call_server("group", "create", "g", "--fifo", "--max-attempts", "5").stdout == "group g created\n"
    assert (server.groups["g"].fifo, server.groups["g"].max_attempts) == (True, 5)
    assert call_server("group", "create", "g", "--fifo", "--max-attempts", "5").exit_code == 0
    listed = call_server("group", "list").stdout.splitlines()[1].split()
    assert listed == ["g", "yes", "5", "default", "auto", "averagely", "-", "99", "no", "-"]
    described = json.loads(call_server("group", "describe", "g", "--json").stdout)
    assert described["clients"] == ["client-1"]
    assert described["progress"][0]["lag"] == 4
    assert call_server("group", "delete", "g", "--yes").stdout == (
        "group g deleted (4 messages waiting, 1 member, no dead letters)\n"
    )
    assert not server.groups


def test_the_deletion_of_a_group_names_its_dead_letters_and_keeps_them(call_server: Call, server: AdminServer) -> None:
    call_server("topic", "create", "%DLQ%g", "--queues", "1")
    for text in ("one", "two"):
        server.memory.put("%DLQ%g", 0, message(text))
    call_server("group", "create", "g")
    assert call_server("group", "delete", "g", "--yes").stdout == (
        "group g deleted (4 messages waiting, 1 member, 2 dead letters kept (--with-dead-letters deletes them))\n"
    )
    assert server.deleted_groups == {"g": False}
    call_server("group", "create", "g")
    deleted = json.loads(call_server("group", "delete", "g", "--with-dead-letters", "--yes", "--json").stdout)
    assert deleted == {
        "name": "g",
        "deleted": True,
        "messages": 4,
        "members": 1,
        "dead_letters": 2,
        "dead_letters_deleted": True,
    }
    assert server.deleted_groups == {"g": True}


def test_a_group_is_deleted_by_a_user_who_may_not_look_at_it(call_server: Call, server: AdminServer) -> None:
    call_server("group", "create", "g")
    server.describes = False
    assert call_server("group", "delete", "g", "--yes").stdout == "group g deleted (dead letters stay)\n"


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
    told = json.loads(call_server("version", "--server", "--json").stdout)
    assert (told["server"], told["server_resident_bytes"]) == ("9.9", 123)
    assert "2023-11-14T22:13:20Z" in call_server("version", "--server").stdout


UNANSWERED = (
    ("topic", "list"),
    ("group", "create", "g"),
    ("version", "--server"),
    ("clock", "show"),
    ("clock", "advance", "2h"),
    ("transaction", "list"),
    ("transaction", "show", "id"),
    ("transaction", "commit", "--yes", "id", "id-2"),
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


def test_an_answer_that_makes_no_sense_is_a_line(call_server: Call, server: AdminServer) -> None:
    call_server("topic", "create", "orders")
    server.topics["orders"].created.seconds = 10**15
    listed = call_server("topic", "list")
    assert (listed.exit_code, listed.stdout) == (1, "")
    assert listed.stderr.startswith("ternmq: INTERNAL_ERROR: ")
    assert "the answer of ListTopics makes no sense" in listed.stderr


@pytest.mark.usefixtures("terminal")
def test_a_purge_says_how_many_messages_before_it_asks(call_server: Call, server: AdminServer) -> None:
    call_server("topic", "create", "orders", "--queues", "2")
    for queue_id in (0, 0, 1):
        server.memory.put("orders", queue_id, message("x"))
    refused = call_server("topic", "purge", "orders", stdin="n\n")
    assert "Remove 3 messages of topic orders for good? [y/N]" in refused.stderr
    done = call_server("topic", "purge", "orders", "--before", "2026-08-01T12:00Z", stdin="y\n")
    assert done.stdout.endswith("removed 3 messages of topic orders stored before 2026-08-01T12:00:00Z\n")
    asked, removed = server.purges[-2:]
    assert (asked.dry_run, removed.dry_run) == (True, False)
    assert asked.before == removed.before
    assert removed.before.ToJsonString() == "2026-08-01T12:00:00Z"


def test_a_dry_run_of_a_purge_needs_no_yes(call_server: Call, server: AdminServer) -> None:
    call_server("topic", "create", "orders", "--queues", "1")
    server.memory.put("orders", 0, message("x"))
    told = call_server("topic", "purge", "orders", "--dry-run", "--json")
    assert json.loads(told.stdout) == {
        "topic": "orders",
        "dry_run": True,
        "messages": 1,
        "queues": [{"broker": "broker-0", "queue": 0, "first_offset": 1, "removed": 1}],
    }
    assert [request.dry_run for request in server.purges] == [True]


def test_a_purge_of_what_is_not_there_is_refused(call_server: Call, server: AdminServer) -> None:
    call_server("topic", "create", "orders")
    refused = call_server("topic", "purge", "ordres", "--yes")
    assert (refused.exit_code, server.purges) == (1, [])
    assert "TOPIC_NOT_FOUND" in refused.stderr
    assert "orders" in refused.stderr
    refused = call_server("dlq", "purge", "nobody", "--yes")
    assert (refused.exit_code, server.purges) == (1, [])
    assert "CONSUMER_GROUP_NOT_FOUND" in refused.stderr
