"""Topics and groups from a file."""

import json
from pathlib import Path

import pytest

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from tests.unit.command.admin_server import AdminServer
from tests.unit.command.conftest import Call

YAML = """
topics:
  - {name: orders, type: fifo, queues: 4}
  - {name: audit}
groups:
  - {name: billing, fifo: true, max_attempts: 5}
"""
TOML = """
topics = [{name = "orders", type = "fifo", queues = 4}, {name = "audit"}]
groups = [{name = "billing", fifo = true, max_attempts = 5}]
"""
JSON = """{"topics": [{"name": "orders", "type": "fifo", "queues": 4}, {"name": "audit"}],
           "groups": [{"name": "billing", "fifo": true, "max_attempts": 5}]}"""


def written(tmp_path: Path, text: str, ending: str = "yaml") -> str:
    file = tmp_path / f"topics.{ending}"
    file.write_text(text)
    return str(file)


@pytest.mark.parametrize(("ending", "text"), [("yaml", YAML), ("yml", YAML), ("toml", TOML), ("json", JSON)])
def test_all_that_a_file_declares_is_created(
    call_server: Call, server: AdminServer, tmp_path: Path, ending: str, text: str
) -> None:
    result = call_server("apply", "-f", written(tmp_path, text, ending), "--json")
    assert [record["outcome"] for record in json.loads(result.stdout)] == ["created"] * 3
    assert (server.topics["orders"].type, server.topics["orders"].queues) == (pb.FIFO, 4)
    assert server.topics["audit"].type == pb.NORMAL
    assert (server.groups["billing"].fifo, server.groups["billing"].max_attempts) == (True, 5)


def test_applying_again_changes_nothing(call_server: Call, tmp_path: Path) -> None:
    file = written(tmp_path, YAML)
    call_server("apply", "-f", file)
    result = call_server("apply", "-f", file)
    assert result.exit_code == 0
    assert result.stdout.count("unchanged") == 3


def test_what_the_server_refuses_all_the_same_does_not_stop_the_others(
    call_server: Call, server: AdminServer, tmp_path: Path
) -> None:
    server.full = {"orders"}
    result = call_server("apply", "-f", written(tmp_path, YAML))
    assert result.exit_code == 1
    assert result.stderr == (
        "ternmq: 1 of 3 were refused; the first: topic orders: TOO_MANY_REQUESTS: no room for orders\n"
    )
    assert set(server.topics) == {"audit"}
    assert set(server.groups) == {"billing"}


def test_a_dash_is_standard_input(call_server: Call, server: AdminServer) -> None:
    assert call_server("apply", "-f", "-", stdin=YAML).exit_code == 0
    assert set(server.topics) == {"orders", "audit"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("topicz: []", "unknown key 'topicz'; did you mean 'topics'?"),
        ("topics: [{name: a, queue: 3}]", "topics[0]: unknown key 'queue'; did you mean 'queues'?"),
        ("topics: [{name: a, type: fofo}]", "topics[0]: type 'fofo'; did you mean 'fifo'?"),
        ("topics: [{type: fifo}]", "topics[0]: a name is needed"),
        ("topics: [{name: a}, {name: b, queues: 0}]", "topics[1]: queues must be a whole number from 1 to 1024"),
        ("topics: [{name: a, queues: yes}]", "queues must be a whole number"),
        ("groups: [{name: a, fifo: 1}]", "groups[0]: fifo must be true or false"),
        ("groups: {name: a}", "groups: a list is needed"),
        ("groups: [a]", "groups[0]: a table with name, fifo, max_attempts, retry_backoff, "),
        ("[]", "a table with topics, groups, users, quotas is needed"),
        ("a: [", "topics.yaml"),
        ("topics: [{name: a}, {name: b}, {name: a}]", "topics[0] and topics[2] both declare 'a'"),
        ("groups: [{name: a}, {name: a}]", "groups[0] and groups[1] both declare 'a'"),
        ("topics: [{name: a b}]", "topics[0]: topic 'a b': letters, digits"),
        ("topics: [{name: '%DLQ%a'}]", "belongs to its consumer group"),
        ("topics: [{name: TBW102}]", "is reserved for the broker"),
        ("topics: [{name: a, queues: 1025}]", "from 1 to 1024, not 1025"),
        ("topics: [{name: a, permission: wread}]", "permission 'wread'; did you mean 'read'?"),
        ("topics: [{name: a, replication: asink}]", "topics[0]: replication 'asink'; did you mean 'async'?"),
        ("topics: [{name: a, flush: asink}]", "topics[0]: flush 'asink'; did you mean 'async'?"),
        ("topics: [{name: a, retention: long}]", "topics[0]: retention 'long': "),
        ("topics: [{name: a, type: lite, lite_ttl: 1m}]", "topics[0]: lite_ttl '1m': 15m to 3650d are allowed, none"),
        ("topics: [{name: a, lite_ttl: never}]", "topics[0]: lite_ttl 'never': "),
        ("groups: [{name: a, lite_bind: b c}]", "groups[0]: topic 'b c': letters, digits"),
        ("groups: [{name: a, lite_bind: [b]}]", "groups[0]: a lite_bind is needed, as text"),
        ("groups: [{name: a, lite_quota: 3}]", "groups[0]: lite_ settings are for lite groups: lite_bind is"),
        ("groups: [{name: a, lite_bind: b, lite_model: own}]", "groups[0]: lite_model 'own'; known are exclusive, sh"),
        ("groups: [{name: a, lite_bind: b, lite_quota: 0}]", "lite_quota must be a whole number from 1 to 100000"),
        ("groups: [{name: a, lite_bind: b, lite_wildcard: all}]", "lite_wildcard must be true or false, not 'all'"),
        ("groups: [{name: a, lite_bind: b, lite_reset: now}]", "lite_reset 'now': taken, unsubscribed, both with a"),
        ("topics: [{name: a, replication: 2}]", "topics[0]: replication 2; known are async, shard, sync"),
        ("groups: [{name: a, max_attempts: 1001}]", "from 1 to 1000, not 1001"),
        ("groups: [{name: a, assignment: random}]", "assignment 'random': the assignment strategy can't be used"),
        ("groups: [{name: a, queue_lock_hold: 5ms}]", "queue_lock_hold '5ms': 1s to 12h are allowed"),
    ],
)
def test_a_mistake_in_the_file_is_one_line_and_nothing_is_created(
    call_server: Call, server: AdminServer, tmp_path: Path, text: str, problem: str
) -> None:
    result = call_server("apply", "-f", written(tmp_path, text))
    assert result.exit_code == 2
    assert problem in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not server.topics


@pytest.mark.parametrize("ending", ["json", "toml"])
def test_a_file_that_is_not_what_its_ending_says_is_one_line(call: Call, tmp_path: Path, ending: str) -> None:
    result = call("apply", "-f", written(tmp_path, "{", ending))
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)


# --- what is there already


def test_what_can_change_is_updated_and_the_rest_stays(call_server: Call, server: AdminServer, tmp_path: Path) -> None:
    call_server("topic", "create", "orders", "--type", "fifo", "--queues", "2")
    call_server("topic", "create", "audit", "--queues", "3")
    call_server("group", "create", "billing", "--fifo", "--retry-backoff", "exponential:1s,10m,2")
    file = written(tmp_path, YAML)
    result = call_server("apply", "-f", file, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout) == [
        {
            "kind": "topic",
            "name": "orders",
            "outcome": "updated",
            "reason": "",
            "changes": {"queues": {"from": 2, "to": 4}},
        },
        {"kind": "topic", "name": "audit", "outcome": "unchanged", "reason": "", "changes": {}},
        {
            "kind": "group",
            "name": "billing",
            "outcome": "updated",
            "reason": "",
            "changes": {"max_attempts": {"from": 17, "to": 5}},
        },
    ]
    assert (server.topics["orders"].queues, server.topics["audit"].queues) == (4, 3)
    assert (server.groups["billing"].max_attempts, server.groups["billing"].fifo) == (5, True)
    assert server.groups["billing"].retry_backoff == "exponential:1s,10m,2"
    assert call_server("apply", "-f", file, "--dry-run").stdout == "nothing to do\n"


def test_people_see_what_was_updated(call_server: Call, tmp_path: Path) -> None:
    call_server("topic", "create", "orders", "--type", "fifo", "--queues", "2")
    text = "topics: [{name: orders, queues: 4, permission: READ}, {name: audit}]"
    lines = call_server("apply", "-f", written(tmp_path, text)).stdout.splitlines()
    assert lines[1].split(maxsplit=3) == ["topic", "orders", "updated", "queues 2 -> 4, permission read-write -> read"]
    assert lines[2].split() == ["topic", "audit", "created"]


def test_a_topic_s_flush_mode_retention_and_replication_are_made_and_changed(
    call_server: Call, server: AdminServer, tmp_path: Path
) -> None:
    clicks = "topics: [{{name: clicks, flush: {}, retention: {}, replication: {}}}, {{name: audit}}]"
    file = written(tmp_path, clicks.format("async", "1d", "async"))
    assert call_server("apply", "-f", file).exit_code == 0
    topic = server.topics["clicks"]
    assert (topic.flush, topic.replication) == (admin_pb2.FLUSH_ASYNC, admin_pb2.REPLICATION_ASYNC)
    assert not server.topics["audit"].replication
    assert call_server("apply", "-f", file, "--dry-run").stdout == "nothing to do\n"
    file = written(tmp_path, clicks.format("broker", "broker", "Shard"))
    rehearsed = call_server("apply", "-f", file, "--dry-run").stdout
    assert rehearsed.startswith("update topic clicks: ")
    changes = {"flush async -> broker", "retention 1d -> broker", "replication async -> shard"}
    assert set(rehearsed.removeprefix("update topic clicks: ").strip().split(", ")) == changes
    assert call_server("apply", "-f", file).exit_code == 0
    topic = server.topics["clicks"]
    assert (topic.flush, topic.retention.seconds) == (admin_pb2.FLUSH_BROKER, 0)
    assert topic.replication == admin_pb2.REPLICATION_SHARD
    assert call_server("apply", "-f", file, "--dry-run").stdout == "nothing to do\n"


def test_a_lite_topic_and_its_group_are_made_and_changed(
    call_server: Call, server: AdminServer, tmp_path: Path
) -> None:
    both = "topics: [{{name: chats, type: lite, lite_ttl: {}}}]\ngroups: [{{name: agents, lite_bind: chats{}}}]"
    file = written(tmp_path, both.format("1d", ", lite_model: exclusive, lite_quota: 7, lite_reset: taken"))
    assert call_server("apply", "-f", file).exit_code == 0
    lite = admin_pb2.LiteSettings(topic="chats", exclusive=True, quota=7, resets_when_taken=True)
    assert (server.topics["chats"].lite_ttl.seconds, server.groups["agents"].lite) == (86_400, lite)
    assert call_server("apply", "-f", file, "--dry-run").stdout == "nothing to do\n"
    assert call_server("apply", "-f", written(tmp_path, both.format("1d", "")), "--dry-run").stdout == "nothing to do\n"
    file = written(tmp_path, both.format("none", ", lite_wildcard: true, lite_reset: none"))
    assert call_server("apply", "-f", file, "--dry-run").stdout.splitlines() == [
        "update topic chats: lite_ttl 1d -> none",
        "update group agents: lite_wildcard no -> yes, lite_reset taken -> none",
    ]
    assert call_server("apply", "-f", file).exit_code == 0
    assert server.topics["chats"].lite_ttl.seconds == 0
    assert server.groups["agents"].lite == admin_pb2.LiteSettings(
        topic="chats", exclusive=True, quota=7, wildcard=True, resets_when_taken=False, resets_when_unsubscribed=False
    )
    file = written(tmp_path, "topics: [{name: orders, lite_ttl: none}]")  # which it has as it is
    assert call_server("apply", "-f", file).exit_code == 0
    assert call_server("apply", "-f", file, "--dry-run").stdout == "nothing to do\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("groups: [{name: plain, lite_bind: chats}]", "refuse group plain: it is no lite group, and that can't change"),
        (
            "topics: [{name: games, type: lite}]\ngroups: [{name: agents, lite_bind: games}]",
            "refuse group agents: it is a lite group of topic chats, and that can't change",
        ),
        (
            "groups: [{name: new, lite_bind: orders}]",
            "refuse group new: a lite group is bound to a topic of type lite, and orders has type normal",
        ),
        (
            "topics: [{name: made}]\ngroups: [{name: new, lite_bind: made}]",
            "refuse group new: a lite group is bound to a topic of type lite, and made has type normal",
        ),
        ("groups: [{name: new, lite_bind: away}]", "refuse group new: a lite group is bound to a topic of type lite, "),
        (
            "topics: [{name: orders, lite_ttl: 1d}]",
            "refuse topic orders: its type is normal, and only topics of type lite have a lite_ttl",
        ),
        (
            "topics: [{name: made, type: fifo, lite_ttl: 1d}]",
            "refuse topic made: its type is fifo, and only topics of type lite have a lite_ttl",
        ),
    ],
)
def test_what_no_lite_group_and_no_lite_topic_can_be_changes_nothing(
    call_server: Call, server: AdminServer, tmp_path: Path, text: str, problem: str
) -> None:
    call_server("topic", "create", "chats", "--type", "lite")
    call_server("topic", "create", "orders")
    call_server("group", "create", "agents", "--lite-bind", "chats")
    call_server("group", "create", "plain")
    before = ({**server.topics}, {**server.groups})
    refused = call_server("apply", "-f", written(tmp_path, text))
    assert refused.exit_code == 1
    assert problem.removeprefix("refuse ") in refused.stdout + refused.stderr
    assert (server.topics, server.groups) == before


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "topics: [{name: new}, {name: orders, queues: 1}]",
            "topic orders: it has 2 queues on each broker; queues can be added, not removed",
        ),
        (
            "topics: [{name: new}, {name: orders, type: fifo, queues: 4}]",
            "topic orders: its type is normal, and a topic's type can't change; "
            "`ternmq topic delete orders` deletes it with its messages",
        ),
        (
            "{topics: [{name: new}], groups: [{name: billing, fifo: true, max_attempts: 3}]}",
            "group billing: it is not FIFO; `ternmq group update billing --fifo` changes that before its first message",
        ),
    ],
)
def test_what_can_not_change_is_refused_before_anything_is_changed(
    call_server: Call, server: AdminServer, tmp_path: Path, text: str, reason: str
) -> None:
    call_server("topic", "create", "orders", "--queues", "2")
    call_server("group", "create", "billing")
    file = written(tmp_path, text)
    result = call_server("apply", "-f", file)
    assert result.exit_code == 1
    assert result.stderr == f"ternmq: 1 of 2 were refused, so nothing was changed; the first: {reason}\n"
    assert "new" not in result.stdout
    assert (set(server.topics), server.topics["orders"].queues) == ({"orders"}, 2)
    assert not server.groups["billing"].max_attempts
    rehearsed = call_server("apply", "-f", file, "--dry-run")
    assert (rehearsed.exit_code, rehearsed.stderr) == (1, result.stderr)
    assert rehearsed.stdout.splitlines() == ["create topic new", f"refuse {reason}"]


def test_a_dry_run_prints_the_plan_and_changes_nothing(call_server: Call, server: AdminServer, tmp_path: Path) -> None:
    call_server("topic", "create", "orders", "--type", "fifo", "--queues", "2")
    file = written(tmp_path, YAML)
    result = call_server("apply", "-f", file, "--dry-run")
    assert (result.exit_code, result.stdout.splitlines()) == (
        0,
        ["update topic orders: queues 2 -> 4", "create topic audit", "create group billing: fifo yes, max_attempts 5"],
    )
    told = json.loads(call_server("apply", "-f", file, "--dry-run", "--json").stdout)
    assert [(each["kind"], each["name"], each["outcome"]) for each in told] == [
        ("topic", "orders", "update"),
        ("topic", "audit", "create"),
        ("group", "billing", "create"),
    ]
    assert told[2]["changes"] == {"fifo": {"from": None, "to": True}, "max_attempts": {"from": None, "to": 5}}
    assert (set(server.topics), server.topics["orders"].queues, server.groups) == ({"orders"}, 2, {})


def test_a_plan_with_nothing_in_it_says_so(call_server: Call, tmp_path: Path) -> None:
    file = written(tmp_path, YAML)
    call_server("apply", "-f", file)
    assert call_server("apply", "-f", file, "--dry-run").stdout == "nothing to do\n"
    assert call_server("apply", "-f", file, "--dry-run", "--json").stdout == "[]\n"


def test_a_beginning_some_time_ago_counts_from_when_the_group_is_made(
    call_server: Call, server: AdminServer, tmp_path: Path
) -> None:
    file = written(tmp_path, "groups: [{name: report, consume_from: 2h}]")
    assert call_server("apply", "-f", file).exit_code == 0
    began = server.groups["report"].consume_from
    assert began.isdigit()
    assert call_server("apply", "-f", file).stdout.count("unchanged") == 1
    assert server.groups["report"].consume_from == began


# --- files that are to do harm

DEPTH = 100_000
BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
MERGES = "a0: &a0 {k: v}\n" + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 30))


@pytest.mark.parametrize(
    ("ending", "text", "reason"),
    [
        ("yaml", "[" * DEPTH, "nested too deeply"),
        ("yaml", "topics: " + "[" * DEPTH + "]" * DEPTH, "nested too deeply"),
        ("yaml", "topics: " + "{a: " * 500 + "1" + "}" * 500, "nested too deeply"),
        ("json", '{"topics": ' + "[" * DEPTH + "]" * DEPTH + "}", "nested too deeply"),
        ("json", '{"a":' * DEPTH, "nested too deeply"),
        ("toml", "topics = " + "[" * DEPTH + "]" * DEPTH, "nested too deeply"),
        ("yaml", BOMB, "aliases expand to more than 1000000 values"),
        ("yaml", MERGES, "aliases expand to more than 1000000 values"),
        ("yaml", "topics: &a [*a]", "an alias contains itself"),
        ("yaml", "topics: [{name: 2026-13-45}]", "month must be in 1..12"),
        (
            "yaml",
            "topics: [{name: a}]\ntopics: [{name: b}]",
            "line 2, column 1: this table already has the key 'topics'",
        ),
        (
            "yaml",
            "topics: [{name: a, name: b}]",
            "line 1, column 20: this table already has the key 'name'",
        ),
        ("json", '{"topics": [{"name": "a"}], "topics": []}', "an object has the key 'topics' twice"),
        ("yaml", "topics: [{name: a, queues: 010}]", "line 1, column 28: 010 is not the same number in all versions"),
        (
            "yaml",
            "topics: [{name: a, retention: 1:30}]",
            "line 1, column 31: 1:30 is not the same number in all",
        ),
        ("json", f'{{"{"k" * 100_000}": 1, "{"k" * 100_000}": 1}}', "an object has the key"),
        ("yaml", f"topics: [{{name: a, queues: 0{'1' * 100_000}}}]", "is not the same number"),
        ("yaml", "topics: [{name: a, queues: 0b11}]", "0b11 is not the same number"),
        ("yaml", "topics: [{name: a, queues: 1_0}]", "1_0 is not the same number"),
        ("yaml", "topics: [{name: a, queues: 1:30.5}]", "1:30.5 is not the same number"),
        ("yaml", f"topics: [{{name: a, type: {'x' * 100_000}}}]", "type"),
        ("json", f'{{"{"k" * 100_000}": 1}}', "unknown key"),
    ],
)
def test_a_file_that_is_to_do_harm_is_refused_in_one_line(
    call_server: Call, server: AdminServer, tmp_path: Path, ending: str, text: str, reason: str
) -> None:
    result = call_server("apply", "-f", written(tmp_path, text, ending))
    assert result.exit_code == 2, result.exception
    assert reason in result.stderr
    assert result.stderr.count("\n") == 1
    assert len(result.stderr) < 1000
    assert not server.topics


def test_a_file_without_an_end_is_not_read_to_its_end(call: Call) -> None:
    result = call("apply", "-f", "/dev/zero")
    assert result.exit_code == 2
    assert "longer than 16777216 bytes" in result.stderr


def test_a_text_that_looks_like_a_number_may_be_quoted(call_server: Call, server: AdminServer, tmp_path: Path) -> None:
    text = "topics:\n  - {name: '010', queues: 8}\n  - {name: a, queues: 0x10}\n"
    assert call_server("apply", "-f", written(tmp_path, text)).exit_code == 0
    assert {name: topic.queues for name, topic in server.topics.items()} == {"010": 8, "a": 16}


def test_an_alias_is_what_it_stands_for(call_server: Call, server: AdminServer, tmp_path: Path) -> None:
    text = "topics:\n  - &first {name: orders, queues: 4}\n  - {<<: *first, name: audit}\n"
    assert call_server("apply", "-f", written(tmp_path, text)).exit_code == 0
    assert {name: topic.queues for name, topic in server.topics.items()} == {"orders": 4, "audit": 4}
