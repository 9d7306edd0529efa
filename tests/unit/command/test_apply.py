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
