"""Commands that read a topic that is not there: they say so, and make nothing, on a server that makes topics by use."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.support.embedded import Embedded, local_settings
from tests.unit.command.conftest import Call

Commands = Callable[..., list[Result]]


@pytest.fixture
def run(call: Call, tmp_path: Path) -> Commands:
    """Run commands one after the other at an embedded stack."""

    async def at_a_stack(*commands: tuple[str, ...]) -> list[Result]:
        async with Embedded(local_settings(tmp_path)) as server:
            environment = {"TERNMQ_ENDPOINT": server.grpc}
            return [await asyncio.to_thread(call, *command, env=environment) for command in commands]

    return lambda *commands: asyncio.run(at_a_stack(*commands))


@pytest.mark.parametrize(
    "command",
    [
        ("message", "find", "typo"),
        ("message", "get", "typo", "ID"),
        ("tail", "typo"),
        ("tail", "typo", "--from-beginning", "--max", "1"),
        ("receive", "typo", "--group", "billing"),
        ("receive", "typo", "--group", "billing", "--follow"),
    ],
)
def test_a_read_of_a_missing_topic_says_so_and_makes_neither_topic_nor_group(
    run: Commands, command: tuple[str, ...]
) -> None:
    read, topics, groups = run(command, ("topic", "list", "--json"), ("group", "list", "--json"))
    assert read.exit_code == 1
    assert read.stderr.startswith("ternmq: TOPIC_NOT_FOUND: topic 'typo' does not exist")
    assert "`ternmq topic create typo`" in read.stderr
    assert (json.loads(topics.stdout), json.loads(groups.stdout)) == ([], [])


def test_a_send_makes_the_topic_by_the_type_of_its_message(run: Commands) -> None:
    *sent, listed, read = run(
        ("send", "orders", "1"),
        ("send", "jobs", "1", "--message-group", "a"),
        ("send", "reminders", "1", "--delay", "1h"),
        ("send", "alarms", "1", "--priority", "3"),
        ("topic", "list", "--json"),
        ("receive", "jobs", "--group", "workers", "--max", "1", "--json"),
    )
    assert [result.exit_code for result in sent] == [0] * 4
    assert {topic["name"]: topic["type"] for topic in json.loads(listed.stdout)} == {
        "orders": "normal",
        "jobs": "fifo",
        "reminders": "delay",
        "alarms": "priority",
    }
    assert json.loads(read.stdout)["body"] == "1"
