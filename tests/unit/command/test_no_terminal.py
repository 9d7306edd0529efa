"""What can't be taken back is asked for at a terminal, and needs `--yes` where there is none."""

import sys

import pytest

from tests.unit.command.admin_server import AdminServer
from tests.unit.command.conftest import Call
from tests.unit.command.messaging_server import message

ASKING = [
    ("topic", "delete", "orders"),
    ("topic", "purge", "orders"),
    ("group", "delete", "billing"),
    ("group", "offset", "reset", "billing", "--topic", "orders", "--to-latest"),
    ("group", "offset", "skip", "billing", "--topic", "orders"),
    ("group", "offset", "skip", "billing", "--topic", "orders", "--queue", "0", "--offset", "0"),
    ("dlq", "resend", "billing", "--all"),
    ("dlq", "purge", "billing", "--before", "2h"),
    ("backlog", "move", "billing", "--topic", "orders", "--to", "wide", "--queues", "8"),
    ("broker", "remove", "a"),
    ("transaction", "commit", "id-1@broker-0@1"),
    ("transaction", "rollback", "id-1@broker-0@1"),
]


@pytest.fixture(autouse=True)
def contents(call_server: Call, server: AdminServer) -> None:
    """Something that each of the commands would change."""
    server.brokers.put("a")
    server.transactions.put(1)
    for topic in ("orders", "%DLQ%billing"):
        call_server("topic", "create", topic, "--queues", "1")
        server.memory.put(topic, 0, message("one"))
    call_server("group", "create", "billing")
    server.progress = []
    server.memory.committed["billing", "orders", 0] = 0


def changes(server: AdminServer) -> tuple[object, ...]:
    return (
        sorted(server.topics),
        sorted(server.groups),
        sorted(server.brokers.all),
        len(server.transactions.resolved),
        [request for request in server.resets if not request.dry_run],
        len(server.resends),
        [request for request in server.purges if not request.dry_run],
    )


@pytest.mark.parametrize("arguments", ASKING, ids=" ".join)
def test_without_a_terminal_nothing_is_done_and_yes_is_asked_for(
    call_server: Call, server: AdminServer, arguments: tuple[str, ...]
) -> None:
    before = changes(server)
    result = call_server(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--yes" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert changes(server) == before


@pytest.mark.parametrize("arguments", ASKING, ids=" ".join)
def test_without_a_terminal_yes_is_enough(call_server: Call, server: AdminServer, arguments: tuple[str, ...]) -> None:
    before = changes(server)
    result = call_server(*arguments, "--yes")
    assert result.exit_code == 0, result.stderr
    assert changes(server) != before


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("arguments", ASKING, ids=" ".join)
def test_at_a_terminal_a_question_is_asked(call_server: Call, server: AdminServer, arguments: tuple[str, ...]) -> None:
    before = changes(server)
    refused = call_server(*arguments, stdin="n\n")
    assert (refused.exit_code, "[y/N]" in refused.stderr) == (130, True)
    assert changes(server) == before
    assert call_server(*arguments, stdin="y\n").exit_code == 0


def test_a_standard_input_that_is_closed_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    from ternmq_command.terminal import confirmation

    monkeypatch.setattr(sys, "stdin", None)
    assert not confirmation.has_terminal()
