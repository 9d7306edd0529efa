"""A producer that is asked about orphaned transactions by a scripted server."""

import asyncio
import logging
import threading
from collections.abc import Callable

import grpc
import pytest

from ternmq import Checker, Message, MessageView, Producer, Timing, TransactionResolution
from ternmq.connections.endpoints import Endpoints
from ternmq.transactions.checking import RUNNING_CHECKS_MAX, TransactionChecks
from ternmq.transactions.transaction import HalfMessage
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.unit.client.scripted_server import TOPIC, ScriptedServer, ended, orphan, stored_message

COMMIT, ROLLBACK, UNKNOWN = TransactionResolution.COMMIT, TransactionResolution.ROLLBACK, TransactionResolution.UNKNOWN
LONG_S = 60.0
ENDPOINTS = Endpoints.parse("127.0.0.1:1")


def ask(server: ScriptedServer, *numbers: int) -> None:
    for number in numbers:
        server.commands.put_nowait(orphan(number))


def told(server: ScriptedServer) -> list[str]:
    """The transactions that the server was told an end of."""
    return [request.transaction_id for request in server.requests["EndTransaction"]]


def plain(resolution: TransactionResolution) -> Checker:
    return lambda _: resolution


def coroutine(resolution: TransactionResolution) -> Checker:
    async def check(_: MessageView) -> TransactionResolution:
        return resolution

    return check


class Held:
    """A coroutine checker that commits when the test lets it."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.running = asyncio.Semaphore(0)
        self.ids: list[str] = []
        self.at_once = self.most_at_once = 0

    async def __call__(self, view: MessageView) -> TransactionResolution:
        self.ids.append(view.message_id)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.running.release()
        await self.release.wait()
        self.at_once -= 1
        return COMMIT


@pytest.mark.parametrize("checker_of", [plain, coroutine])
@pytest.mark.parametrize(("resolution", "expected"), [(COMMIT, pb.COMMIT), (ROLLBACK, pb.ROLLBACK)])
async def test_a_checkers_answer_is_told_to_the_server(
    server: ScriptedServer,
    checker_of: Callable[[TransactionResolution], Checker],
    resolution: TransactionResolution,
    expected: pb.TransactionResolution,
) -> None:
    async with Producer(server.endpoint, topics=[TOPIC], checker=checker_of(resolution)):
        ask(server, 7)
        [request] = await server.asked("EndTransaction")
    assert (request.topic.name, request.message_id, request.transaction_id) == (TOPIC, "id-7", "transaction-7")
    assert (request.resolution, request.source) == (expected, pb.SOURCE_SERVER_CHECK)
    settings = server.requests["Telemetry"][0].settings
    assert [topic.name for topic in settings.publishing.topics] == [TOPIC]


async def test_a_checker_sees_the_message_as_a_consumer_does(server: ScriptedServer) -> None:
    views: list[MessageView] = []

    async def check(view: MessageView) -> TransactionResolution:
        views.append(view)
        return COMMIT

    message = stored_message(1, attempt=3)
    message.user_properties["a"] = "b"
    async with Producer(server.endpoint, topics=[TOPIC], checker=check):
        server.commands.put_nowait(orphan(1, message=message))
        await server.asked("EndTransaction")
    [view] = views
    assert (view.topic, view.body, view.properties, view.delivery_attempt) == (TOPIC, b"body 1", {"a": "b"}, 3)
    assert str(view.endpoints) == server.endpoint


async def test_a_checker_that_cannot_say_is_asked_again(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    answers = iter([UNKNOWN, None, RuntimeError("scripted"), "commit", COMMIT])
    checked = asyncio.Semaphore(0)

    async def check(_: MessageView) -> TransactionResolution | None:
        checked.release()
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value]

    async with Producer(server.endpoint, topics=[TOPIC], checker=check):
        for number in range(5):
            ask(server, number)
            await checked.acquire()
        await server.asked("EndTransaction")
    assert told(server) == ["transaction-4"]
    failures = [record for record in caplog.records if record.exc_info]
    assert [str(record.exc_info[1])[:8] for record in failures if record.exc_info] == ["scripted", "a checke"]


async def test_a_checker_in_a_thread_holds_up_nothing(server: ScriptedServer) -> None:
    release = threading.Event()
    threads: list[str] = []

    def check(_: MessageView) -> TransactionResolution:
        threads.append(threading.current_thread().name)
        assert release.wait(timeout=LONG_S)
        return COMMIT

    async with Producer(server.endpoint, topics=[TOPIC], checker=check) as producer:
        ask(server, 1)
        await producer.send(Message(TOPIC, b"x"))
        release.set()
        await server.asked("EndTransaction")
    assert threads[0].startswith("ternmq-checker")


async def test_only_so_many_checks_run_at_a_time(server: ScriptedServer) -> None:
    check = Held()
    async with Producer(server.endpoint, topics=[TOPIC], checker=check):
        ask(server, *range(2 * RUNNING_CHECKS_MAX))
        for _ in range(RUNNING_CHECKS_MAX):
            await check.running.acquire()
        check.release.set()
        await server.asked("EndTransaction", 2 * RUNNING_CHECKS_MAX)
    assert check.most_at_once == RUNNING_CHECKS_MAX
    assert set(told(server)) == {f"transaction-{number}" for number in range(2 * RUNNING_CHECKS_MAX)}


async def test_a_transaction_is_checked_once_at_a_time(server: ScriptedServer) -> None:
    check = Held()
    async with Producer(server.endpoint, topics=[TOPIC], checker=check):
        ask(server, 1, 1, 1, 2)
        await check.running.acquire()
        await check.running.acquire()
        assert check.ids == ["id-1", "id-2"]
        check.release.set()
        await server.asked("EndTransaction", 2)
        while len(check.ids) == 2:  # until the answer to the first end has come back too
            ask(server, 1)
            await barrier(server)
    assert check.ids == ["id-1", "id-2", "id-1"]


async def test_more_checks_than_fit_are_left_to_the_servers_next_cycle(caplog: pytest.LogCaptureFixture) -> None:
    ends: asyncio.Queue[str] = asyncio.Queue()

    async def end(half: HalfMessage, _: TransactionResolution) -> None:
        ends.put_nowait(half.transaction_id)

    check = Held()
    checks = TransactionChecks(check, end, client_id="c", checks_max=2)
    for number in (1, 2, 3):
        checks.begin_check(ENDPOINTS, orphan(number).recover_orphaned_transaction_command)
    check.release.set()
    assert [await ends.get(), await ends.get()] == ["transaction-1", "transaction-2"]
    await checks.finish_checks(LONG_S)
    assert ends.empty()
    assert "one more is dropped" in caplog.text


async def barrier(server: ScriptedServer) -> None:
    """Wait until all commands before this have been taken."""
    nonce = rpc.PrintThreadStackTraceCommand(nonce="n")
    server.commands.put_nowait(rpc.TelemetryCommand(print_thread_stack_trace_command=nonce))
    await server.asked("Telemetry", len(server.requests["Telemetry"]) + 1)


async def test_the_end_goes_where_the_question_came_from(server: ScriptedServer) -> None:
    async with ScriptedServer() as other:
        server.brokers = {"broker-b": other.port}
        async with Producer(server.endpoint, topics=[TOPIC], checker=plain(COMMIT)):
            ask(other, 1)
            await other.asked("EndTransaction")
        assert told(server) == []


async def test_a_check_outlives_the_stream_it_came_on(server: ScriptedServer) -> None:
    check = Held()
    async with Producer(server.endpoint, topics=[TOPIC], checker=check, timing=Timing(settings_s=1e6)) as producer:
        ask(server, 1)
        await check.running.acquire()
        server.script("Telemetry", grpc.StatusCode.UNAVAILABLE)
        await producer._send_settings()
        await server.asked("Telemetry", 3)
        check.release.set()
        await server.asked("EndTransaction")
        ask(server, 2)
        await server.asked("EndTransaction", 2)
    assert told(server) == ["transaction-1", "transaction-2"]


async def test_a_producer_without_a_checker_says_so_once(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with Producer(server.endpoint, topics=[TOPIC]):
        ask(server, 1, 2, 3)
        await barrier(server)
    assert server.requests["EndTransaction"] == []
    records = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [record.getMessage().endswith(f"transaction checks of {TOPIC}") for record in records] == [True]


async def test_a_question_that_cannot_be_read_is_ignored(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    corrupted = stored_message(1)
    corrupted.system_properties.body_digest.CopyFrom(pb.Digest(type=pb.MD5, checksum="00"))
    async with Producer(server.endpoint, topics=[TOPIC], checker=plain(COMMIT)):
        server.commands.put_nowait(orphan(1, message=corrupted))
        server.commands.put_nowait(orphan(2, message=None))
        server.commands.put_nowait(orphan(3, transaction_id=""))
        ask(server, 4)
        await server.asked("EndTransaction")
    assert told(server) == ["transaction-4"]
    assert caplog.text.count("can't be read") == 3


@pytest.mark.parametrize("code", [pb.INVALID_TRANSACTION_ID, pb.UNAUTHORIZED])
async def test_an_answer_that_is_refused_is_logged(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture, code: pb.Code
) -> None:
    server.script("EndTransaction", ended(code))
    async with Producer(server.endpoint, topics=[TOPIC], checker=coroutine(COMMIT)):
        ask(server, 1)
        await server.asked("EndTransaction")
    assert "a checker's commit failed" in caplog.text


async def test_closing_waits_for_checks_that_run_and_begins_no_others(server: ScriptedServer) -> None:
    check = Held()
    producer = await Producer(server.endpoint, topics=[TOPIC], checker=check).start()
    ask(server, *range(RUNNING_CHECKS_MAX + 5))
    for _ in range(RUNNING_CHECKS_MAX):
        await check.running.acquire()
    await barrier(server)
    closing = asyncio.create_task(producer.close())
    await barrier(server)  # the session still listens, so closing has begun
    check.release.set()
    await closing
    assert len(told(server)) == len(check.ids) == RUNNING_CHECKS_MAX


async def test_closing_gives_up_a_checker_that_hangs(server: ScriptedServer, caplog: pytest.LogCaptureFixture) -> None:
    timing = Timing(attempt_extra_s=0.0)
    release = threading.Event()
    called = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hang(_: MessageView) -> TransactionResolution:
        loop.call_soon_threadsafe(called.set)
        assert release.wait(timeout=LONG_S)
        return COMMIT

    async with Producer(server.endpoint, topics=[TOPIC], checker=hang, delivery_timeout=0.1, timing=timing) as producer:
        ask(server, 1)
        await called.wait()
        producer._request_timeout_s = 0.01  # closing waits for a multiple of it, or for the delivery timeout
    release.set()
    assert told(server) == []
    assert "1 checks were not done in time" in caplog.text


async def test_a_checker_may_use_the_producer(server: ScriptedServer) -> None:
    async def check(view: MessageView) -> TransactionResolution:
        await producer.send(Message(TOPIC, view.body))
        return ROLLBACK

    async with Producer(server.endpoint, topics=[TOPIC], checker=check) as producer:
        ask(server, 1)
        await server.asked("EndTransaction")
    assert server.requests["SendMessage"][0].messages[0].body == b"body 1"
