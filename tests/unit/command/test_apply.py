"""Topics and groups from a file."""

import json
from pathlib import Path

import pytest

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


def test_a_refused_item_does_not_stop_the_others(call_server: Call, server: AdminServer, tmp_path: Path) -> None:
    call_server("topic", "create", "orders", "--queues", "2")
    result = call_server("apply", "-f", written(tmp_path, YAML))
    assert result.exit_code == 1
    assert "1 of 3 were refused; the first: PRECONDITION_FAILED" in result.stderr
    assert {"audit"} < set(server.topics)
    assert "billing" in server.groups


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
        ("topics: [{name: a}, {name: b, queues: 0}]", "topics[1]: queues must be a whole number above 0"),
        ("topics: [{name: a, queues: yes}]", "queues must be a whole number"),
        ("groups: [{name: a, fifo: 1}]", "groups[0]: fifo must be true or false"),
        ("groups: {name: a}", "groups: a list is needed"),
        ("groups: [a]", "groups[0]: a table with name, fifo, max_attempts, retry_backoff, "),
        ("[]", "a table with topics, groups is needed"),
        ("a: [", "topics.yaml"),
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
        ("yaml", BOMB, "aliases stand for more than 1000000 values"),
        ("yaml", MERGES, "aliases stand for more than 1000000 values"),
        ("yaml", "topics: &a [*a]", "an alias stands for what it is in"),
        ("yaml", "topics: [{name: 2026-13-45}]", "month must be in 1..12"),
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


def test_an_alias_is_what_it_stands_for(call_server: Call, server: AdminServer, tmp_path: Path) -> None:
    text = "topics:\n  - &first {name: orders, queues: 4}\n  - {<<: *first, name: audit}\n"
    assert call_server("apply", "-f", written(tmp_path, text)).exit_code == 0
    assert {name: topic.queues for name, topic in server.topics.items()} == {"orders": 4, "audit": 4}
