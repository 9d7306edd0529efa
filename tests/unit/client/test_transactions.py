"""Transactions of a producer against a scripted server: what is told to the server, and what its user sees."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import grpc
import pytest
from google.protobuf.message import Message as Proto

import ternmq
from ternmq import Message, Producer, Timing, TransactionResolution
from ternmq.times.backoff import CustomizedBackoff
from ternmq.transactions.transaction_end import END_ATTEMPTS
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.unit.client.scripted_server import OK, TOPIC, ScriptedServer, ended, sent

MESSAGE = Message(TOPIC, b"body", tag="t", keys=("k",))


# Repetitions without a pause, for tests that need all of them.
HURRIED = Timing(end_backoff=CustomizedBackoff((0.0,)))


def resolutions(server: ScriptedServer) -> list[str]:
    """The ends that the server was told so far, repetitions included."""
    return [pb.TransactionResolution.Name(request.resolution) for request in server.requests["EndTransaction"]]


async def commit_one(producer: Producer) -> None:
    async with producer.begin_transaction() as transaction:
        await transaction.send(MESSAGE)


async def fail_in_a_block(producer: Producer, *, commit_first: bool = False) -> None:
    async with producer.begin_transaction() as transaction:
        await transaction.send(MESSAGE)
        if commit_first:
            await transaction.commit()
        raise ZeroDivisionError


class Gate:
    """An answer to a call that comes when the test says so."""

    def __init__(self, answer: Callable[[], Proto]) -> None:
        self.opened = asyncio.Event()
        self._answer = answer

    async def __call__(self, _: object) -> Proto:
        await self.opened.wait()
        return self._answer()


async def test_a_block_that_ends_well_commits(server: ScriptedServer) -> None:
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        async with producer.begin_transaction(recovery=timedelta(seconds=90)) as transaction:
            receipt = await transaction.send(MESSAGE)
            assert server.requests["EndTransaction"] == []
        [request] = server.requests["EndTransaction"]
    [message] = server.requests["SendMessage"][0].messages
    system = message.system_properties
    assert (message.body, system.tag, list(system.keys)) == (b"body", "t", ["k"])
    assert (system.message_type, system.orphaned_transaction_recovery_duration.seconds) == (pb.TRANSACTION, 90)
    assert (request.topic.name, request.message_id) == (TOPIC, receipt.message_id)
    assert request.transaction_id == receipt.transaction_id == f"transaction of {receipt.message_id}"
    assert (request.resolution, request.source) == (pb.COMMIT, pb.SOURCE_CLIENT)


async def test_a_message_can_be_sent_without_a_transaction_afterwards(server: ScriptedServer) -> None:
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        async with producer.begin_transaction() as transaction:
            await transaction.send(MESSAGE)
        await producer.send(MESSAGE)
    first, second = (request.messages[0].system_properties for request in server.requests["SendMessage"])
    assert (first.message_type, second.message_type) == (pb.TRANSACTION, pb.NORMAL)
    assert not first.HasField("orphaned_transaction_recovery_duration")


async def test_a_block_that_fails_rolls_back_and_its_error_goes_on(server: ScriptedServer) -> None:
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        with pytest.raises(ZeroDivisionError):
            await fail_in_a_block(producer)
        assert resolutions(server) == ["ROLLBACK"]


async def test_the_end_is_told_to_the_server_that_took_the_message(server: ScriptedServer) -> None:
    async with ScriptedServer() as away, ScriptedServer() as other:
        server.queues, server.brokers = 1, {"broker-a": away.port, "broker-b": other.port}
        away.script("SendMessage", *[grpc.StatusCode.UNAVAILABLE] * 9)
        async with Producer(server.endpoint, topics=[TOPIC]) as producer:
            await commit_one(producer)
        assert resolutions(other) == ["COMMIT"]
        assert resolutions(away) == resolutions(server) == []


@pytest.mark.parametrize("end", [TransactionResolution.COMMIT, TransactionResolution.ROLLBACK])
async def test_the_first_word_stays(server: ScriptedServer, end: TransactionResolution) -> None:
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        async with producer.begin_transaction() as transaction:
            await transaction.send(MESSAGE)
            same, contrary = transaction.commit, transaction.rollback
            if end is TransactionResolution.ROLLBACK:
                same, contrary = contrary, same
            await same()
            await same()
            with pytest.raises(ternmq.BadRequest, match=f"has its {end.value}; a .* is too late"):
                await contrary()
        with pytest.raises(ternmq.BadRequest, match="has ended"):
            await transaction.send(MESSAGE)
    assert resolutions(server) == [end.value.upper()]
    assert len(server.requests["SendMessage"]) == 1


async def test_a_block_that_fails_after_its_commit_stays_committed(server: ScriptedServer) -> None:
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        with pytest.raises(ZeroDivisionError):
            await fail_in_a_block(producer, commit_first=True)
    assert resolutions(server) == ["COMMIT"]


async def test_a_transaction_needs_no_block(server: ScriptedServer) -> None:
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        transaction = producer.begin_transaction()
        await transaction.send(MESSAGE)
        await transaction.rollback()
    assert resolutions(server) == ["ROLLBACK"]


async def test_a_transaction_has_one_message(server: ScriptedServer) -> None:
    async with Producer(server.endpoint, topics=[TOPIC]) as producer, producer.begin_transaction() as transaction:
        await transaction.send(MESSAGE)
        with pytest.raises(ternmq.BadRequest, match="one message"):
            await transaction.send(MESSAGE)
    assert len(server.requests["SendMessage"]) == 1
    assert resolutions(server) == ["COMMIT"]


async def test_a_transaction_without_a_message_ends_nothing(server: ScriptedServer) -> None:
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        async with producer.begin_transaction():
            pass
        with pytest.raises(ZeroDivisionError):
            async with producer.begin_transaction():
                raise ZeroDivisionError
        async with producer.begin_transaction() as transaction:
            with pytest.raises(ternmq.BadRequest, match="nothing to commit"):
                await transaction.commit()
            await transaction.rollback()
    assert server.requests["EndTransaction"] == []


async def test_a_failed_send_leaves_nothing_to_end_and_may_be_repeated(server: ScriptedServer) -> None:
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        async with producer.begin_transaction() as transaction:
            server.script("SendMessage", sent(pb.FORBIDDEN))
            with pytest.raises(ternmq.Forbidden):
                await transaction.send(MESSAGE)
        assert server.requests["EndTransaction"] == []
        async with producer.begin_transaction() as transaction:
            server.script("SendMessage", sent(pb.FORBIDDEN))
            with pytest.raises(ternmq.Forbidden):
                await transaction.send(MESSAGE)
            await transaction.send(MESSAGE)
    assert resolutions(server) == ["COMMIT"]


@pytest.mark.parametrize(
    "kind",
    [
        {"message_group": "g"},
        {"delivery_timestamp": 1},
        {"delay": timedelta(seconds=1)},
        {"delay_level": 1},
        {"priority": 0},
        {"lite_topic": "a"},
    ],
)
async def test_a_message_of_another_kind_is_refused_before_it_is_sent(
    server: ScriptedServer, kind: dict[str, object]
) -> None:
    async with Producer(server.endpoint, topics=[TOPIC]) as producer, producer.begin_transaction() as transaction:
        with pytest.raises(ternmq.BadRequest) as refused:
            await transaction.send(Message(TOPIC, b"x", **kind))  # type: ignore[arg-type]
        assert refused.value.code == pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
        await transaction.send(MESSAGE)
    assert len(server.requests["SendMessage"]) == 1


@pytest.mark.parametrize("recovery", [timedelta(0), timedelta(seconds=-1), timedelta(hours=1, microseconds=1)])
async def test_a_recovery_has_its_limits(server: ScriptedServer, recovery: timedelta) -> None:
    producer = Producer(server.endpoint)
    with pytest.raises(ternmq.BadRequest, match="at most 1:00:00"):
        producer.begin_transaction(recovery=recovery)
    producer.begin_transaction(recovery=timedelta(hours=1))


async def test_a_commit_is_repeated_until_it_arrives(server: ScriptedServer) -> None:
    server.script("EndTransaction", grpc.StatusCode.UNAVAILABLE, ended(pb.TOO_MANY_REQUESTS))
    async with Producer(server.endpoint, topics=[TOPIC]) as producer, producer.begin_transaction() as transaction:
        await transaction.send(MESSAGE)
    assert resolutions(server) == ["COMMIT"] * 3
    assert len({request.SerializeToString() for request in server.requests["EndTransaction"]}) == 1


async def test_a_commit_that_never_arrives_leaves_the_outcome_open(server: ScriptedServer) -> None:
    server.script("EndTransaction", *[ended(pb.INTERNAL_SERVER_ERROR)] * END_ATTEMPTS)
    async with Producer(server.endpoint, topics=[TOPIC], timing=HURRIED) as producer:
        with pytest.raises(ternmq.TransactionOutcomeUnknown, match=r"is open; .* ask a checker.*scripted") as unknown:
            async with producer.begin_transaction() as transaction:
                receipt = await transaction.send(MESSAGE)
        assert (unknown.value.transaction_id, unknown.value.retryable) == (receipt.transaction_id, True)
        assert isinstance(unknown.value.__cause__, ternmq.InternalError)
        assert resolutions(server) == ["COMMIT"] * END_ATTEMPTS
        await transaction.commit()
        await transaction.commit()
    assert resolutions(server) == ["COMMIT"] * (END_ATTEMPTS + 1)


async def test_a_commit_in_the_block_that_fails_is_not_rolled_back(server: ScriptedServer) -> None:
    server.script("EndTransaction", ended(pb.UNAUTHORIZED))
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        with pytest.raises(ternmq.TransactionOutcomeUnknown) as unknown:
            await fail_in_a_block(producer, commit_first=True)
        assert (unknown.value.code, unknown.value.retryable) == (pb.UNAUTHORIZED, False)
    assert resolutions(server) == ["COMMIT"]


@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_a_contrary_end_at_the_server_is_a_refusal(server: ScriptedServer, end: str) -> None:
    server.script("EndTransaction", grpc.StatusCode.UNAVAILABLE, ended(pb.INVALID_TRANSACTION_ID))
    async with Producer(server.endpoint, topics=[TOPIC]) as producer, producer.begin_transaction() as transaction:
        await transaction.send(MESSAGE)
        with pytest.raises(ternmq.TransactionRefused, match=f"refuses the {end} of .*: scripted") as refused:
            await getattr(transaction, end)()
    assert refused.value.code == pb.INVALID_TRANSACTION_ID
    assert resolutions(server) == [end.upper()] * 2


async def test_a_rollback_that_fails_does_not_hide_why_the_block_failed(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.script("EndTransaction", ended(pb.INVALID_TRANSACTION_ID))
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        with pytest.raises(ZeroDivisionError):
            await fail_in_a_block(producer)
    [record] = [record for record in caplog.records if record.name == "ternmq.transactions.transaction"]
    assert "a rollback failed" in record.getMessage()


async def hanging_block(producer: Producer) -> "asyncio.Task[None]":
    """A block that has sent its message and goes on until it is cancelled."""
    stored = asyncio.Event()

    async def run_block() -> None:
        async with producer.begin_transaction() as transaction:
            await transaction.send(MESSAGE)
            stored.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(run_block())
    await stored.wait()
    return task


async def test_a_cancelled_block_rolls_back(server: ScriptedServer) -> None:
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        task = await hanging_block(producer)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert resolutions(server) == ["ROLLBACK"]


async def test_a_second_cancellation_does_not_stop_the_rollback(server: ScriptedServer) -> None:
    gate = Gate(lambda: ended(pb.TOO_MANY_REQUESTS))
    server.script("EndTransaction", gate)
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        task = await hanging_block(producer)
        task.cancel()
        await server.asked("EndTransaction")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.opened.set()
    # It was repeated after its first failure, and the producer's close has waited for it.
    assert resolutions(server) == ["ROLLBACK"] * 2


async def test_a_send_that_was_cancelled_is_rolled_back_when_it_is_known(server: ScriptedServer) -> None:
    gate = Gate(lambda: server._default_SendMessage(server.requests["SendMessage"][0]))
    server.script("SendMessage", gate)

    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        task = asyncio.create_task(commit_one(producer))
        await server.asked("SendMessage")
        task.cancel()
        gate.opened.set()
        with pytest.raises(asyncio.CancelledError):
            await task
    [request] = server.requests["EndTransaction"]
    assert (request.resolution, request.transaction_id[:14]) == (pb.ROLLBACK, "transaction of")


async def test_a_send_that_timed_out_is_never_committed(server: ScriptedServer) -> None:
    gate = Gate(lambda: server._default_SendMessage(server.requests["SendMessage"][0]))
    server.script("SendMessage", gate)
    async with Producer(server.endpoint, topics=[TOPIC]) as producer, producer.begin_transaction() as transaction:
        sending = asyncio.create_task(transaction.send(MESSAGE))
        await server.asked("SendMessage")
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        with pytest.raises(ternmq.BadRequest, match="nothing to commit"):
            await transaction.commit()
        with pytest.raises(ternmq.BadRequest, match="one message"):
            await transaction.send(MESSAGE)
        gate.opened.set()
    assert resolutions(server) == ["ROLLBACK"]


async def test_a_cancelled_send_that_fails_leaves_nothing_to_end(server: ScriptedServer) -> None:
    gate = Gate(lambda: sent(pb.FORBIDDEN))
    server.script("SendMessage", gate)
    async with Producer(server.endpoint, topics=[TOPIC]) as producer, producer.begin_transaction() as transaction:
        sending = asyncio.create_task(transaction.send(MESSAGE))
        await server.asked("SendMessage")
        sending.cancel()
        gate.opened.set()
    assert server.requests["EndTransaction"] == []


async def test_a_cancelled_commit_arrives_nevertheless(server: ScriptedServer) -> None:
    gate = Gate(lambda: rpc.EndTransactionResponse(status=OK))
    server.script("EndTransaction", grpc.StatusCode.UNAVAILABLE, gate)

    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        task = asyncio.create_task(commit_one(producer))
        await server.asked("EndTransaction")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.opened.set()
    # The producer's close has waited for it.
    assert resolutions(server) == ["COMMIT"] * 2


async def test_the_failure_of_a_commit_that_nobody_waits_for_is_logged(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate(lambda: ended(pb.INVALID_TRANSACTION_ID))
    server.script("EndTransaction", gate)
    async with Producer(server.endpoint, topics=[TOPIC]) as producer:
        transaction = producer.begin_transaction()
        await transaction.send(MESSAGE)
        committing = asyncio.create_task(transaction.commit())
        await server.asked("EndTransaction")
        committing.cancel()
        await asyncio.gather(committing, return_exceptions=True)
        gate.opened.set()
    assert "a commit failed" in caplog.text


async def test_a_failed_block_does_not_wait_for_a_server_that_is_silent(server: ScriptedServer) -> None:
    gate = Gate(lambda: rpc.EndTransactionResponse(status=OK))
    server.script("EndTransaction", *[gate] * END_ATTEMPTS)
    async with Producer(server.endpoint, topics=[TOPIC], request_timeout=1.0, timing=HURRIED) as producer:
        with pytest.raises(ZeroDivisionError):
            await fail_in_a_block(producer)
        assert not gate.opened.is_set()
        gate.opened.set()
    assert set(resolutions(server)) == {"ROLLBACK"}


async def test_a_producer_that_was_closed_ends_no_transaction(server: ScriptedServer) -> None:
    producer = Producer(server.endpoint, topics=[TOPIC])
    with pytest.raises(ternmq.NotRunning, match="was not started"):
        await producer.begin_transaction().send(MESSAGE)
    async with producer:
        transaction = producer.begin_transaction()
        await transaction.send(MESSAGE)
    with pytest.raises(ternmq.TransactionOutcomeUnknown, match="was closed"):
        await transaction.commit()
    assert server.requests["EndTransaction"] == []


async def test_hooks_see_a_half_message_as_a_send(server: ScriptedServer) -> None:
    seen: list[ternmq.Sending] = []

    class Watch(ternmq.Hooks):
        def send_started(self, sending: ternmq.Sending) -> None:
            sending.trace_context = "trace"

        def send_finished(self, token: object, sending: ternmq.Sending, outcomes: object) -> None:
            seen.append(sending)

    producer = Producer(server.endpoint, topics=[TOPIC], hooks=[Watch()])
    async with producer, producer.begin_transaction(recovery=timedelta(seconds=7)) as transaction:
        await transaction.send(MESSAGE)
    [sending] = seen
    assert (sending.transactional, sending.recovery, sending.messages) == (True, timedelta(seconds=7), [MESSAGE])
    assert str(sending.endpoints) == server.endpoint
    assert server.requests["EndTransaction"][0].trace_context == "trace"
