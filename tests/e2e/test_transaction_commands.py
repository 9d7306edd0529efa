"""Timed messages, transactions and a clock that is moved, by the command, against a real `ternmq up --test-clock`."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.e2e.test_command import COMMAND, Done, environment
from tests.support.embedded import RawClient, duration
from tests.support.stack import Stack

pytestmark = pytest.mark.slow

Call = Callable[..., Done]
Json = Callable[..., list[dict[str, Any]]]
CHECK_INTERVAL_S = 30
CHECKS_MAX = 15


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with Stack(tmp_path, "--test-clock") as running:
        yield running


@pytest.fixture
def call(stack: Stack) -> Call:
    def run(*arguments: str, stdin: str = "") -> Done:
        return subprocess.run(
            [*COMMAND, *arguments],
            env=environment(TERNMQ_ENDPOINT=stack.grpc),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run


@pytest.fixture
def told(call: Call) -> Json:
    """What a command that must succeed says with --json: one object a line, or one in all."""

    def run(*arguments: str) -> list[dict[str, Any]]:
        done = call(*arguments, "--json")
        assert done.returncode == 0, f"{arguments}\n{done.stdout}{done.stderr}"
        try:
            return [json.loads(done.stdout)]
        except json.JSONDecodeError:
            return [json.loads(line) for line in done.stdout.splitlines()]

    return run


@pytest.fixture
def reminders(call: Call) -> str:
    assert call("topic", "create", "reminders", "--type", "delay").returncode == 0
    return "reminders"


@pytest.fixture
def payments(call: Call) -> str:
    assert call("topic", "create", "payments", "--type", "transaction").returncode == 0
    return "payments"


def received(told: Json, topic: str, *flags: str) -> list[str]:
    """The bodies that come now; none if none does within a second."""
    return [record["body"] for record in told("receive", topic, "--group", "readers", "--wait", "1s", *flags)]


def begun(stack: Stack, topic: str, *bodies: bytes) -> list[str]:
    """Begin a transaction for each body; their ids."""

    async def begin() -> list[str]:
        async with RawClient(stack.grpc) as client:
            return [await begin_one(client, topic, body) for body in bodies]

    return run(begin())


async def begin_one(client: RawClient, topic: str, body: bytes) -> str:
    answer = await client.send(topic, body, message_type=pb.TRANSACTION, keys=["key"], tag="paid")
    transaction_id: str = answer.entries[0].transaction_id
    return transaction_id


def run(work: Coroutine[Any, Any, list[str]]) -> list[str]:
    return asyncio.run(work)


# --- timed messages


def test_a_message_for_later_comes_when_its_time_has_come(call: Call, told: Json, reminders: str) -> None:
    [sent] = told("send", reminders, "call back", "--delay", "2h")
    assert sent["recall_handle"]
    assert received(told, reminders) == []
    assert call("clock", "advance", "1h59m").returncode == 0
    assert received(told, reminders) == []
    assert call("clock", "advance", "1m").returncode == 0
    assert received(told, reminders, "--max", "1", "--wait", "10s") == ["call back"]
    assert received(told, reminders) == []


def test_a_message_that_is_recalled_never_comes(call: Call, told: Json, reminders: str) -> None:
    [kept] = told("send", reminders, "kept", "--delay", "1h")
    printed = call("send", reminders, "recalled", "--delay", "1h").stdout.splitlines()
    take_it_back = printed[-1].partition("ternmq ")[2].split()
    for _ in range(2):  # again is no error
        done = call(*take_it_back)
        assert (done.returncode, done.stdout.startswith("recalled ")) == (0, True), done.stderr
    call("clock", "advance", "2h")
    assert received(told, reminders, "--max", "1", "--wait", "10s") == ["kept"]
    assert received(told, reminders) == []
    late = call("recall", reminders, kept["recall_handle"])
    assert (late.returncode, late.stdout, len(late.stderr.splitlines())) == (1, "", 1)
    assert late.stderr.startswith("ternmq: BAD_REQUEST: ")


def test_all_ways_to_say_when_mean_what_they_say(call: Call, told: Json, reminders: str) -> None:
    told("send", reminders, "level 17 is 1h", "--delay-level", "17")
    told("send", reminders, "beyond the highest", "--delay-level", "99")
    told("send", reminders, "at", "--at", (datetime.now(UTC) + timedelta(hours=3)).isoformat())
    told("send", reminders, "at once", "--at", "2020-01-01T00:00Z")
    assert received(told, reminders, "--max", "1", "--wait", "10s") == ["at once"]
    for expected in ("level 17 is 1h", "beyond the highest", "at"):
        assert received(told, reminders) == []
        call("clock", "advance", "1h")
        assert received(told, reminders, "--max", "1", "--wait", "10s") == [expected]


def test_a_delay_counts_from_the_servers_time(call: Call, told: Json, reminders: str) -> None:
    call("clock", "advance", "1d")
    told("send", reminders, "call back", "--delay", "2h")
    assert received(told, reminders) == []
    call("clock", "advance", "2h")
    assert received(told, reminders, "--max", "1", "--wait", "10s") == ["call back"]


def test_a_time_too_far_ahead_is_refused(call: Call, reminders: str) -> None:
    refused = call("send", reminders, "x", "--delay", "4d")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("ternmq: ILLEGAL_DELIVERY_TIME: ")


# --- the clock


def test_the_clock_is_shown_and_moved(told: Json, stack: Stack) -> None:
    [before] = told("clock", "show")
    assert (before["test_clock"], round(before["ahead_s"])) == (True, 0)
    [moved] = told("clock", "advance", "3d")
    assert round(moved["ahead_s"] / 3600) == 72
    [after] = told("clock", "show")
    assert datetime.fromisoformat(after["now"]) >= datetime.fromisoformat(moved["now"])
    assert stack.log_tail().count("TEST CLOCK") == 1


def test_a_server_that_logs_errors_alone_says_all_the_same_that_its_time_can_be_moved(tmp_path: Path) -> None:
    with Stack(tmp_path, "--test-clock", "--log-level", "error") as stack:
        assert stack.log_tail().count("TEST CLOCK") == 1


def test_time_can_not_be_moved_unless_that_was_asked_for(tmp_path: Path) -> None:
    with Stack(tmp_path) as stack:
        done = subprocess.run(
            [*COMMAND, "clock", "advance", "2h", "--endpoint", stack.grpc],
            env=environment(), capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
        assert "`ternmq up --test-clock`" in done.stderr
        assert "TEST CLOCK" not in stack.log_tail()


# --- transactions


def test_transactions_are_ended_by_hand(stack: Stack, call: Call, told: Json, payments: str) -> None:
    ids = begun(stack, payments, b"committed", b"rolled back", b"open")
    listed = told("transaction", "list")
    assert [(record["transaction_id"], record["topic"], record["state"]) for record in listed] == [
        (transaction_id, payments, "pending") for transaction_id in ids
    ]
    [shown] = told("transaction", "show", ids[0])
    assert (shown["body"], shown["keys"], shown["tag"], shown["checks"]) == ("committed", ["key"], "paid", 0)
    assert received(told, payments) == []
    for _ in range(2):  # the same end again is no error
        [committed] = told("transaction", "commit", ids[0], "--yes")
        [rolled_back] = told("transaction", "rollback", ids[1], "--yes")
        assert (committed["state"], rolled_back["state"]) == ("committed", "rolled_back")
    assert received(told, payments, "--max", "1", "--wait", "10s") == ["committed"]
    assert received(told, payments) == []
    assert [record["transaction_id"] for record in told("transaction", "list")] == ids[2:]

    contradicted = call("transaction", "commit", ids[1], ids[2], "--yes")
    assert (contradicted.returncode, contradicted.stdout) == (1, f"transaction {ids[2]} committed\n")
    assert contradicted.stderr.splitlines()[0].startswith(f"{ids[1]}: INVALID_TRANSACTION_ID: ")
    assert received(told, payments, "--max", "1", "--wait", "10s") == ["open"]
    assert told("transaction", "list") == []


def test_a_transaction_that_nobody_can_be_asked_about_is_discarded_after_its_time(
    stack: Stack, call: Call, told: Json, payments: str
) -> None:
    ids = begun(stack, payments, b"forgotten", b"in vain")
    for _ in range(CHECKS_MAX + 1):
        call("clock", "advance", f"{CHECK_INTERVAL_S}s")
    pending = told("transaction", "list", "--state", "pending")
    assert [(record["transaction_id"], record["checks"]) for record in pending] == [(each, 0) for each in ids]
    call("clock", "advance", "72h")
    until_discarded(told, ids)
    assert told("transaction", "list", "--state", "pending") == []
    assert received(told, payments) == []
    assert told("transaction", "rollback", ids[1], "--yes")[0]["state"] == "rolled_back"
    assert told("transaction", "commit", ids[0], "--yes")[0]["state"] == "committed"
    assert received(told, payments, "--max", "1", "--wait", "10s") == ["forgotten"]
    assert received(told, payments) == []


def until_discarded(told: Json, ids: list[str]) -> None:
    """The broker looks at its clock in its own time; what it finds out is kept."""
    while [record["transaction_id"] for record in told("transaction", "list", "--state", "discarded")] != ids:
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
    stack: Stack, told: Json, payments: str
) -> None:
    async def ask_in_vain() -> list[str]:
        async with RawClient(stack.grpc) as client, producer(client, payments) as stream:
            transaction_id = await begin_one(client, payments, b"unanswered")
            for number in range(1, CHECKS_MAX + 1):
                request = admin_pb2.AdvanceClockRequest(by=duration(CHECK_INTERVAL_S))
                assert (await client.admin("AdvanceClock", request)).status.code == pb.OK
                question = (await stream.read()).recover_orphaned_transaction_command
                assert (question.transaction_id, question.message.body) == (transaction_id, b"unanswered")
                await until_counted(client, transaction_id, number)
        return [transaction_id]

    ids = run(ask_in_vain())
    [pending] = told("transaction", "list")
    assert (pending["checks"], pending["state"]) == (CHECKS_MAX, "pending")
    told("clock", "advance", f"{CHECK_INTERVAL_S}s")
    until_discarded(told, ids)
    [discarded] = told("transaction", "list")
    assert (discarded["checks"], discarded["state"], discarded["next_check"]) == (CHECKS_MAX, "discarded", None)
    assert received(told, payments) == []
    told("transaction", "commit", *ids, "--yes")
    assert received(told, payments, "--max", "1", "--wait", "10s") == ["unanswered"]
