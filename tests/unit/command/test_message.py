"""`ternmq message`: stored messages are found and shown, from all queues and brokers of a topic."""

import json
from typing import Any

import pytest
from click.testing import Result

from tests.unit.command.admin_server import AdminServer
from tests.unit.command.conftest import Call
from tests.unit.command.messaging_server import BROKER, message

BEGAN_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def _messages(server: AdminServer) -> None:
    """Eight messages in turn on two queues, one a second; key `even` or `odd`, the body its number."""
    server.memory.make("orders", 2)
    for number in range(8):
        made = message(str(number), message_id=f"ID{number}", keys=("odd" if number % 2 else "even",))
        server.memory.put("orders", number % 2, made, stored_ms=BEGAN_MS + 1000 * number)


def ids(result: Result) -> list[str]:
    return [json.loads(line)["message_id"] for line in result.stdout.splitlines()]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((), "01234567"),
        (("--key", "odd"), "1357"),
        (("--queue", "0"), "0246"),
        (("--since", "2023-11-14T22:13:23Z"), "34567"),
        (("--since", "2023-11-14T22:13:21Z", "--until", "2023-11-14T22:13:24Z"), "123"),
        (("--key", "even", "--since", "2023-11-14T22:13:23Z"), "46"),
        (("--max", "3"), "012"),
        (("--broker", BROKER, "--queue", "1", "--max", "1"), "1"),
    ],
)
def test_messages_are_found_in_the_order_of_their_storing(
    call_server: Call, flags: tuple[str, ...], expected: str
) -> None:
    assert ids(call_server("message", "find", "orders", "--json", *flags)) == [f"ID{each}" for each in expected]


def test_a_list_says_when_it_is_cut(call_server: Call) -> None:
    assert "--max shows more" in call_server("message", "find", "orders", "--max", "3").stderr
    assert call_server("message", "find", "orders").stderr == ""


def test_a_search_that_finds_nothing_says_so(call_server: Call) -> None:
    result = call_server("message", "find", "orders", "--key", "nobody's")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no such message" in result.stderr


def shown(result: Result) -> dict[str, Any]:
    record = json.loads(result.stdout)
    assert isinstance(record, dict)
    return record


def test_a_message_is_shown_by_id_and_by_its_place(call_server: Call) -> None:
    by_id = shown(call_server("message", "get", "orders", "ID5", "--json"))
    by_place = shown(call_server("message", "get", "orders", "--queue", "1", "--offset", "2", "--json"))
    assert by_id == by_place
    assert by_id["body"] == "5"
    assert by_id["keys"] == ["odd"]


def test_of_a_message_that_was_sent_twice_the_newer_is_shown(call_server: Call, server: AdminServer) -> None:
    server.memory.put("orders", 0, message("again", message_id="ID5"), stored_ms=BEGAN_MS + 60_000)
    assert shown(call_server("message", "get", "orders", "ID5", "--json"))["body"] == "again"


@pytest.mark.parametrize(
    ("flags", "exit_code", "words"),
    [
        (("nobody's",), 1, "has no message nobody's"),
        (("--queue", "1", "--offset", "99"), 1, "has no message at offset 99 of queue 1"),
        (("--queue", "9", "--offset", "0"), 1, "has no queue 9"),
        (("--queue", "0", "--offset", "0", "--broker", "nobody"), 1, "is not on broker nobody"),
        ((), 2, "give MESSAGE_ID, or --queue and --offset"),
        (("ID1", "--offset", "1"), 2, "give MESSAGE_ID, or --queue and --offset"),
        (("--offset", "1"), 2, "--offset needs --queue too"),
    ],
)
def test_what_can_not_be_shown_is_said(call_server: Call, flags: tuple[str, ...], exit_code: int, words: str) -> None:
    result = call_server("message", "get", "orders", *flags)
    assert result.exit_code == exit_code
    assert words in result.stderr


def test_an_offset_on_several_brokers_needs_one_named(call_server: Call, server: AdminServer) -> None:
    server.memory.make("orders", 2, broker="broker-7")
    server.memory.put("orders", 0, message("elsewhere", message_id="ID0"), broker="broker-7", stored_ms=BEGAN_MS)
    assert "choose one with --broker" in call_server("message", "get", "orders", "--queue", "0", "--offset", "0").stderr
    there = call_server("message", "get", "orders", "--queue", "0", "--offset", "0", "--broker", "broker-7", "--json")
    assert shown(there)["body"] == "elsewhere"


def test_what_others_wrote_does_not_act_on_a_terminal(call_server: Call, server: AdminServer) -> None:
    server.memory.put("orders", 0, message("\x1b[2J", message_id="EVIL", keys=("\x1b]0;x",)), stored_ms=BEGAN_MS)
    for arguments in (("get", "orders", "EVIL"), ("find", "orders")):
        assert "\x1b" not in call_server("message", *arguments).stdout
