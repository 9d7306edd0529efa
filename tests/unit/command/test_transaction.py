"""`ternmq transaction`: what waits for its producer, and ending it by hand."""

import json

import pytest
from click.testing import Result

from ternmq.admin import messages as message_calls
from ternmq_command.calls.admin import AdminClient
from ternmq_protos.v2 import definition_pb2 as pb
from tests.unit.command.admin_server import AdminServer
from tests.unit.command.conftest import Call


def name(number: int) -> str:
    return f"id-{number}@broker-0@{number:x}"


@pytest.fixture(autouse=True)
def transactions(server: AdminServer) -> None:
    """0 to 9; every third is discarded, and every second of the topic `refunds`."""
    for number in range(10):
        server.transactions.put(number, topic="refunds" if number % 2 else "payments", discarded=number % 3 == 0)


def listed(result: Result) -> list[str]:
    assert result.exit_code == 0, result.stderr
    return [json.loads(line)["transaction_id"] for line in result.stdout.splitlines()]


def test_transactions_are_listed_with_all_that_is_known(call_server: Call) -> None:
    lines = call_server("transaction", "list", "--json").stdout.splitlines()
    assert json.loads(lines[0]) == {
        "transaction_id": "id-1@broker-0@1",
        "topic": "refunds",
        "message_id": "id-1",
        "state": "pending",
        "stored": "2026-08-01T12:01:00.000Z",
        "checks": 2,
        "next_check": "2026-08-01T12:02:06.250Z",
        "sender": "producer-1",
    }
    people = call_server("transaction", "list").stdout.splitlines()
    assert people[0].split() == ["TRANSACTION", "ID", "TOPIC", "STATE", "STORED", "CHECKS", "NEXT", "CHECK", "SENDER"]
    assert people[-1].split() == [
        name(9), "refunds", "discarded", "2026-08-01T12:09:00.000Z", "15", "-", "producer-1"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((), [1, 2, 4, 5, 7, 8, 0, 3, 6, 9]),
        (("--state", "all", "--topic", "payments"), [2, 4, 8, 0, 6]),
        (("--state", "pending"), [1, 2, 4, 5, 7, 8]),
        (("--state", "discarded", "--topic", "refunds"), [3, 9]),
        (("--message-id", "id-6"), [6]),
        (("--message-id", "id-6", "--topic", "refunds"), []),
    ],
)
@pytest.mark.parametrize("page_size", [1, 3, 100])
def test_a_list_is_narrowed_and_read_page_by_page(
    call_server: Call, server: AdminServer, flags: tuple[str, ...], expected: list[int], page_size: int
) -> None:
    """Pages may be empty although more follow."""
    server.transactions.page_size = page_size
    assert listed(call_server("transaction", "list", "--json", *flags)) == [name(number) for number in expected]
    assert {0 < request.limit <= 1000 for request in server.transactions.lists} == {True}


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ((), "no open transactions\n"),
        (("--state", "pending"), "no pending transactions\n"),
        (("--state", "discarded", "--topic", "orders"), "no discarded transactions of topic orders\n"),
        (("--topic", "a", "--message-id", "id-6"), "no open transactions of topic a of message id-6\n"),
    ],
)
def test_a_list_of_nothing_says_so(call_server: Call, server: AdminServer, flags: tuple[str, ...], text: str) -> None:
    server.transactions.open.clear()
    result = call_server("transaction", "list", *flags)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", text)


def test_a_transaction_is_shown_with_its_message(call_server: Call) -> None:
    assert json.loads(call_server("transaction", "show", name(3), "--json").stdout) == {
        "transaction_id": name(3),
        "topic": "refunds",
        "message_id": "id-3",
        "state": "discarded",
        "stored": "2026-08-01T12:03:00.000Z",
        "checks": 15,
        "next_check": None,
        "sender": "producer-1",
        "tag": "paid",
        "keys": ["k3"],
        "properties": {"region": "eu"},
        "born": "2023-11-14T22:13:19.123Z",
        "body_bytes": 6,
        "body": "body 3",
    }
    people = call_server("transaction", "show", name(3)).stdout
    assert people.startswith(f"transaction id  {name(3)}\n")
    assert "\nnext check      -\n" in people
    assert people.endswith("\n\nproperties\n  region  eu\n\nbody 3\n")


def test_a_body_that_is_no_text_is_shown_as_base64(call_server: Call, server: AdminServer) -> None:
    server.transactions.put(10, body=b"\xff\x00")
    assert json.loads(call_server("transaction", "show", name(10), "--json").stdout)["body_base64"] == "/wA="
    packed = server.transactions.put(11, body=b"not gzip \xff")
    server.transactions.open[name(11)].message.system_properties.body_encoding = pb.GZIP
    shown = call_server("transaction", "show", packed.transaction_id)
    assert "body base64     bm90IGd6aXAg/w==\n" in shown.stdout


@pytest.mark.parametrize("command", ["show", "commit", "rollback"])
def test_a_transaction_that_is_not_there_is_one_line(call_server: Call, command: str) -> None:
    flags = () if command == "show" else ("--yes",)
    result = call_server("transaction", command, "id-99@broker-0@63", *flags)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "ternmq: INVALID_TRANSACTION_ID: no transaction id-99@broker-0@63\n"


@pytest.mark.parametrize(
    ("command", "resolution", "done", "state"),
    [("commit", "COMMIT", "committed", "committed"), ("rollback", "ROLLBACK", "rolled back", "rolled_back")],
)
def test_transactions_are_ended_by_hand(
    call_server: Call, server: AdminServer, command: str, resolution: str, done: str, state: str
) -> None:
    one = call_server("transaction", command, name(0), "--yes")
    assert (one.exit_code, one.stdout) == (0, f"transaction {name(0)} {done}\n")
    several = call_server("transaction", command, name(2), name(1), name(2), "--json", "--yes")
    ended = [json.loads(line) for line in several.stdout.splitlines()]
    assert [(record["transaction_id"], record["state"]) for record in ended] == [(name(2), state), (name(1), state)]
    assert server.transactions.resolved == [(name(number), resolution) for number in (0, 2, 1)]


def test_each_transaction_is_tried_by_itself(call_server: Call, server: AdminServer) -> None:
    server.transactions.unavailable = {name(4)}
    result = call_server("transaction", "commit", "--yes", "nonsense", name(1), name(4), name(7))
    assert (result.exit_code, result.stdout.splitlines()) == (
        1,
        [f"transaction {name(1)} committed", f"transaction {name(7)} committed"],
    )
    assert result.stderr.splitlines() == [
        "nonsense: INVALID_TRANSACTION_ID: no transaction nonsense",
        f"{name(4)}: INTERNAL_SERVER_ERROR: the disk is full",
        "ternmq: 2 of 4 transactions could not be committed",
    ]


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    ("arguments", "question"),
    [
        (("commit", name(1)), f"Commit transaction {name(1)}, so that their messages are delivered?"),
        (("rollback", name(1), name(2)), "Roll 2 transactions back, so that their messages are never delivered?"),
    ],
)
def test_a_person_is_asked_before_a_transaction_is_ended(
    call_server: Call, server: AdminServer, arguments: tuple[str, ...], question: str
) -> None:
    refused = call_server("transaction", *arguments, stdin="n\n")
    assert (refused.exit_code, server.transactions.resolved) == (130, [])
    assert question in refused.stderr
    assert call_server("transaction", *arguments, stdin="y\n").exit_code == 0
    assert call_server("transaction", *arguments, "--yes").exit_code == 0
    assert len(server.transactions.resolved) == 2 * (len(arguments) - 1)


def test_pages_are_read_as_they_are_needed(server: AdminServer) -> None:
    server.transactions.page_size = 3
    with AdminClient(server.endpoint) as admin:
        found = (
            each
            for page in admin.send_pages(lambda page: message_calls.list_transactions("pending", page=page))
            for each in page.transactions
        )
        assert [next(found).message_id, next(found).message_id] == ["id-1", "id-2"]
        assert len(server.transactions.lists) == 1
        assert len(list(found)) == 4
