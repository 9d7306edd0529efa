"""Timed messages, transactions and a clock that is moved, by the command, on a whole stack."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ternmq.testing import Stack
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.command_line import CommandLine
from tests.support.embedded import RawClient, duration

CHECK_INTERVAL_S = 30
CHECKS_MAX = 15


@pytest.fixture
def stack() -> Iterator[Stack]:
    with Stack() as running:
        yield running


@pytest.fixture
def reminders(stack: Stack) -> str:
    return stack.create_topic("reminders", "delay")


@pytest.fixture
def payments(stack: Stack) -> str:
    return stack.create_topic("payments", "transaction")


def received(command: CommandLine, topic: str, *flags: str) -> list[str]:
    """The bodies that come now; none if none does soon."""
    return [
        record["body"] for record in command.records("receive", topic, "--group", "readers", "--wait", "300ms", *flags)
    ]


def begun(stack: Stack, topic: str, *bodies: bytes) -> list[str]:
    """Begin a transaction for each body; their ids."""

    async def begin() -> list[str]:
        async with RawClient(stack.endpoint) as client:
            return [await client.begin_transaction(topic, body, keys=["key"], tag="paid") for body in bodies]

    return run(begin())


def run(work: Coroutine[Any, Any, list[str]]) -> list[str]:
    return asyncio.run(work)


# --- timed messages


def test_a_message_for_later_comes_when_its_time_has_come(command: CommandLine, reminders: str) -> None:
    sent = command.record("send", reminders, "call back", "--delay", "2h")
    assert sent["recall_handle"]
    assert received(command, reminders) == []
    command("clock", "advance", "1h59m")
    assert received(command, reminders) == []
    command("clock", "advance", "1m")
    assert received(command, reminders, "--max", "1", "--wait", "10s") == ["call back"]
    assert received(command, reminders) == []


def test_a_message_that_is_recalled_never_comes(command: CommandLine, reminders: str) -> None:
    kept = command.record("send", reminders, "kept", "--delay", "1h")
    printed = command("send", reminders, "recalled", "--delay", "1h").stdout.splitlines()
    take_it_back = printed[-1].partition("ternmq ")[2].split()
    for _ in range(2):  # again is no error
        done = command.call(*take_it_back)
        assert (done.exit_code, done.stdout.startswith("recalled ")) == (0, True), done.stderr
    command("clock", "advance", "2h")
    assert received(command, reminders, "--max", "1", "--wait", "10s") == ["kept"]
    assert received(command, reminders) == []
    late = command.call("recall", reminders, kept["recall_handle"])
    assert (late.exit_code, late.stdout, len(late.stderr.splitlines())) == (1, "", 1)
    assert late.stderr.startswith("ternmq: BAD_REQUEST: ")


def test_all_ways_to_say_when_mean_what_they_say(command: CommandLine, reminders: str) -> None:
    command.records("send", reminders, "level 17 is 1h", "--delay-level", "17")
    command.records("send", reminders, "beyond the highest", "--delay-level", "99")
    command.records("send", reminders, "at", "--at", (datetime.now(UTC) + timedelta(hours=3)).isoformat())
    command.records("send", reminders, "at once", "--at", "2020-01-01T00:00Z")
    assert received(command, reminders, "--max", "1", "--wait", "10s") == ["at once"]
    for expected in ("level 17 is 1h", "beyond the highest", "at"):
        assert received(command, reminders) == []
        command("clock", "advance", "1h")
        assert received(command, reminders, "--max", "1", "--wait", "10s") == [expected]


def test_a_delay_counts_from_the_servers_time(command: CommandLine, reminders: str) -> None:
    command("clock", "advance", "1d")
    command.records("send", reminders, "call back", "--delay", "2h")
    assert received(command, reminders) == []
    command("clock", "advance", "2h")
    assert received(command, reminders, "--max", "1", "--wait", "10s") == ["call back"]


# --- transactions


def test_transactions_are_ended_by_hand(stack: Stack, command: CommandLine, payments: str) -> None:
    ids = begun(stack, payments, b"committed", b"rolled back", b"open")
    listed = command.records("transaction", "list")
    assert [(record["transaction_id"], record["topic"], record["state"]) for record in listed] == [
        (transaction_id, payments, "pending") for transaction_id in ids
    ]
    shown = command.record("transaction", "show", ids[0])
    assert (shown["body"], shown["keys"], shown["tag"], shown["checks"]) == ("committed", ["key"], "paid", 0)
    assert received(command, payments) == []
    for _ in range(2):  # the same end again is no error
        committed = command.record("transaction", "commit", ids[0], "--yes")
        rolled_back = command.record("transaction", "rollback", ids[1], "--yes")
        assert (committed["state"], rolled_back["state"]) == ("committed", "rolled_back")
    assert received(command, payments, "--max", "1", "--wait", "10s") == ["committed"]
    assert received(command, payments) == []
    assert [record["transaction_id"] for record in command.records("transaction", "list")] == ids[2:]

    contradicted = command.call("transaction", "commit", ids[1], ids[2], "--yes")
    assert (contradicted.exit_code, contradicted.stdout) == (1, f"transaction {ids[2]} committed\n")
    assert contradicted.stderr.splitlines()[0].startswith(f"{ids[1]}: INVALID_TRANSACTION_ID: ")
    assert received(command, payments, "--max", "1", "--wait", "10s") == ["open"]
    assert command.records("transaction", "list") == []


def test_a_transaction_that_nobody_can_be_asked_about_is_discarded_after_its_time(
    stack: Stack, command: CommandLine, payments: str
) -> None:
    ids = begun(stack, payments, b"forgotten", b"in vain")
    for _ in range(CHECKS_MAX + 1):
        command("clock", "advance", f"{CHECK_INTERVAL_S}s")
    pending = command.records("transaction", "list", "--state", "pending")
    assert [(record["transaction_id"], record["checks"]) for record in pending] == [(each, 0) for each in ids]
    command("clock", "advance", "72h")
    until_discarded(command, ids)
    assert command.records("transaction", "list", "--state", "pending") == []
    assert received(command, payments) == []
    assert command.records("transaction", "rollback", ids[1], "--yes")[0]["state"] == "rolled_back"
    assert command.records("transaction", "commit", ids[0], "--yes")[0]["state"] == "committed"
    assert received(command, payments, "--max", "1", "--wait", "10s") == ["forgotten"]
    assert received(command, payments) == []


def until_discarded(command: CommandLine, ids: list[str]) -> None:
    """The broker looks at its clock in its own time; what it finds out is kept."""
    while [
        record["transaction_id"] for record in command.records("transaction", "list", "--state", "discarded")
    ] != ids:
        pass


@asynccontextmanager
async def producer(client: RawClient, topic: str) -> AsyncIterator[Any]:
    """A connected producer of the topic; its Telemetry stream, on which the checks come."""
    stream = client.telemetry()
    settings = pb.Settings(client_type=pb.PRODUCER, publishing={"topics": [{"name": topic}]})
    await stream.write(rpc.TelemetryCommand(settings=settings))
    answer = await stream.read()
    assert answer.WhichOneof("command") == "settings"
    yield stream
    await stream.done_writing()


async def until_counted(client: RawClient, transaction_id: str, checks: int) -> None:
    """A check is counted when it was sent, so it may be read a moment before."""
    request = admin_pb2.GetTransactionRequest(transaction_id=transaction_id)
    while (await client.admin("GetTransaction", request)).transaction.checks < checks:
        pass


def test_a_transaction_whose_producer_never_answers_is_discarded_after_the_last_question(
    stack: Stack, command: CommandLine, payments: str
) -> None:
    async def ask_in_vain() -> list[str]:
        async with RawClient(stack.endpoint) as client, producer(client, payments) as stream:
            transaction_id = await client.begin_transaction(payments, b"unanswered")
            for number in range(1, CHECKS_MAX + 1):
                assert (await client.admin("AdvanceClock", by=duration(CHECK_INTERVAL_S))).status.code == pb.OK
                question = (await stream.read()).recover_orphaned_transaction_command
                assert (question.transaction_id, question.message.body) == (transaction_id, b"unanswered")
                await until_counted(client, transaction_id, number)
        return [transaction_id]

    ids = run(ask_in_vain())
    pending = command.record("transaction", "list")
    assert (pending["checks"], pending["state"]) == (CHECKS_MAX, "pending")
    command.records("clock", "advance", f"{CHECK_INTERVAL_S}s")
    until_discarded(command, ids)
    discarded = command.record("transaction", "list")
    assert (discarded["checks"], discarded["state"], discarded["next_check"]) == (CHECKS_MAX, "discarded", None)
    assert received(command, payments) == []
    command.records("transaction", "commit", *ids, "--yes")
    assert received(command, payments, "--max", "1", "--wait", "10s") == ["unanswered"]
