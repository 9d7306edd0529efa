"""Moving a backlog: what moves, in which order, what stops it, and that nothing is lost however it ends."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from typing import Any

import pytest
from click.testing import Result

from ternmq_command.calls.messaging import MessagingClient
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from tests.unit.command.admin_server import AdminServer
from tests.unit.command.conftest import Call
from tests.unit.command.messaging_server import BROKER, message

ASK_MOVE = ("backlog", "move", "billing", "--topic", "orders", "--to", "wide", "--queues", "8")
MOVE = (*ASK_MOVE, "--yes")


@pytest.fixture(autouse=True)
def group(call_server: Call, server: AdminServer) -> None:
    call_server("group", "create", "billing")
    server.progress = []


def fill(call_server: Call, server: AdminServer, *counts: int, kind: str = "normal") -> None:
    """Topic orders: queue q holds q-0, q-1, ...; in a fifo topic of five message groups a queue."""
    call_server("topic", "create", "orders", "--type", kind, "--queues", str(len(counts)))
    for queue_id, count in enumerate(counts):
        for number in range(count):
            group = f"group-{queue_id}-{number % 5}" if kind == "fifo" else None
            server.memory.put("orders", queue_id, message(f"{queue_id}-{number}", group=group))
        server.memory.committed["billing", "orders", queue_id] = 0


def moved(server: AdminServer) -> Counter[str]:
    return Counter(body for bodies in server.memory.bodies("wide") for body in bodies)


def every(*counts: int) -> Counter[str]:
    return Counter(f"{queue_id}-{number}" for queue_id, count in enumerate(counts) for number in range(count))


def test_all_that_is_not_consumed_moves_once(call_server: Call, server: AdminServer) -> None:
    fill(call_server, server, 250, 70, 0)
    server.memory.committed["billing", "orders", 0] = 30
    result = call_server(*MOVE)
    assert (result.exit_code, result.stdout) == (
        0,
        "moved 290 messages of orders to wide (8 queues) for group billing\n",
    )
    assert "let consumers of billing subscribe to wide; messages sent to orders stay there" in result.stderr
    assert moved(server) == every(250, 70) - every(30)
    assert [server.memory.committed["billing", "orders", queue_id] for queue_id in range(3)] == [250, 70, 0]
    assert [len(request) for request in server.memory.requests] == [100, 100, 20, 70]
    assert (server.topics["wide"].type, server.topics["wide"].queues) == (pb.NORMAL, 8)


def test_a_move_tells_programs_what_it_did(call_server: Call, server: AdminServer) -> None:
    fill(call_server, server, 5, 2)
    server.memory.committed["billing", "orders", 0] = 1
    assert json.loads(call_server(*MOVE, "--json").stdout) == {
        "group": "billing",
        "topic": "orders",
        "to": "wide",
        "moved": 6,
        "queues": [
            {"broker": BROKER, "queue": 0, "from": 1, "to": 5, "moved": 4},
            {"broker": BROKER, "queue": 1, "from": 0, "to": 2, "moved": 2},
        ],
    }


def test_a_message_stays_what_it_was(call_server: Call, server: AdminServer) -> None:
    fill(call_server, server, 0, kind="fifo")
    original = message("body", message_id="id", keys=("a", "b c"), tag="paid", group="g", properties={"region": "eu"})
    original.system_properties.trace_context = "00-1-2-01"
    original.system_properties.born_host = "10.0.0.1:1"
    server.memory.put("orders", 0, original)
    assert call_server(*MOVE).exit_code == 0
    ((copy,),) = server.memory.requests
    for mine, other in ((copy, original), (copy.system_properties, original.system_properties)):
        changing = {"topic", "system_properties", "queue_id", "queue_offset", "store_timestamp"}
        for field in mine.DESCRIPTOR.fields:
            assert field.name in changing or getattr(mine, field.name) == getattr(other, field.name), field.name
    assert copy.topic.name == "wide"
    assert not original.system_properties.HasField("priority")
    assert not copy.system_properties.HasField("priority")


def test_the_order_within_a_message_group_is_kept(call_server: Call, server: AdminServer) -> None:
    fill(call_server, server, 333, 120, kind="fifo")
    assert call_server(*MOVE, "--batch", "50").exit_code == 0
    assert moved(server) == every(333, 120)
    assert server.topics["wide"].type == pb.FIFO
    for request in server.memory.requests:
        assert len({entry.system_properties.message_group for entry in request}) == 1
    assert_ordered(server, repeats=False)


def assert_ordered(server: AdminServer, *, repeats: bool) -> None:
    """Each message group is in one queue; with `repeats` its order holds for the first time that each comes."""
    places: dict[str, list[tuple[int, int]]] = {}
    for queue_id, queue in enumerate(server.memory.queues["wide"]):
        for entry in queue.messages:
            number = int(entry.body.decode().partition("-")[2])
            known = places.setdefault(entry.system_properties.message_group, [])
            if not repeats or (queue_id, number) not in known:
                known.append((queue_id, number))
    for found in places.values():
        assert found == sorted(set(found))
        assert len({queue_id for queue_id, _ in found}) == 1


def test_messages_of_one_priority_travel_together(call_server: Call, server: AdminServer) -> None:
    call_server("topic", "create", "orders", "--type", "priority", "--queues", "1")
    for number in range(9):
        urgent = message(f"0-{number}")
        urgent.system_properties.priority = number % 3
        server.memory.put("orders", 0, urgent)
    assert call_server(*MOVE).exit_code == 0
    sent = [[entry.system_properties.priority for entry in request] for request in server.memory.requests]
    assert sent == [[0, 0, 0], [1, 1, 1], [2, 2, 2]]
    assert all(entry.system_properties.HasField("priority") for request in server.memory.requests for entry in request)


def test_a_batch_is_limited_in_bytes_too(call_server: Call, server: AdminServer) -> None:
    call_server("topic", "create", "orders", "--queues", "1")
    for number in range(6):
        server.memory.put("orders", 0, message(b"x" * 1_500_000, message_id=str(number)))
    assert call_server(*MOVE).exit_code == 0
    assert [len(request) for request in server.memory.requests] == [2, 2, 2]


def test_what_arrives_meanwhile_stays(call_server: Call, server: AdminServer) -> None:
    fill(call_server, server, 40)

    def arrive(method: str, _: Any) -> None:  # noqa: ANN401
        if method == "SendMessage":
            server.memory.put("orders", 0, message("late"))

    server.memory.before = arrive
    assert call_server(*MOVE, "--batch", "10").exit_code == 0
    assert moved(server) == every(40)
    assert server.memory.committed["billing", "orders", 0] == 40


@pytest.mark.parametrize("kind", ["normal", "fifo"])
@pytest.mark.parametrize("method", ["SendMessage", "UpdateOffset", "PullMessage"])
def test_a_move_that_fails_anywhere_goes_on_where_it_was(
    call_server: Call, server: AdminServer, method: str, kind: str
) -> None:
    """Failing again and again: nothing is lost, and each failure repeats messages of one batch at most."""
    fill(call_server, server, 90, 45, kind=kind)
    rng, failures = random.Random(7), 0

    def refuse(called: str, _: Any) -> pb.Status | None:  # noqa: ANN401
        fails = called == method and rng.random() < 0.3
        return pb.Status(code=pb.INTERNAL_SERVER_ERROR, message="full") if fails else None

    server.memory.before = refuse
    while (result := call_server(*MOVE, "--batch", "10")).exit_code:
        failures += 1
        assert result.stderr.splitlines()[-1] == "ternmq: INTERNAL_SERVER_ERROR: full"
    copies = moved(server)
    assert failures > 1
    assert copies.keys() == every(90, 45).keys()
    assert copies.total() - len(copies) <= failures * 10
    assert [server.memory.committed["billing", "orders", queue_id] for queue_id in range(2)] == [90, 45]
    if kind == "fifo":
        assert_ordered(server, repeats=True)


def test_a_failure_says_what_was_done_and_how_to_go_on(call_server: Call, server: AdminServer) -> None:
    fill(call_server, server, 90)
    failing_at(server, 4)
    result = call_server(*MOVE, "--batch", "20")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [
        "stopped with 60 messages moved; the same command continues there, and at most one batch is delivered twice",
        "ternmq: TOO_MANY_REQUESTS: busy",
    ]
    assert server.memory.committed["billing", "orders", 0] == 60


def failing_at(server: AdminServer, send: int) -> None:
    def refuse(method: str, _: Any) -> pb.Status | None:  # noqa: ANN401
        if method == "SendMessage" and server.memory.calls[method] == send:
            return pb.Status(code=pb.TOO_MANY_REQUESTS, message="busy")
        return None

    server.memory.before = refuse


def test_ctrl_c_leaves_a_move_that_can_go_on(
    call_server: Call, server: AdminServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worst moment: a batch is stored, and its offset not yet."""
    fill(call_server, server, 90)
    commit = MessagingClient.commit_offset

    def interrupted(self: MessagingClient, group: str, queue: pb.MessageQueue, queue_offset: int) -> None:
        if queue_offset == 60:
            raise KeyboardInterrupt
        commit(self, group, queue, queue_offset)

    with monkeypatch.context() as patch:
        patch.setattr(MessagingClient, "commit_offset", interrupted)
        result = call_server(*MOVE, "--batch", "30")
    assert result.exit_code == 130
    assert "stopped with 30 messages moved; the same command continues there" in result.stderr
    assert server.memory.committed["billing", "orders", 0] == 30
    assert call_server(*MOVE, "--batch", "30").exit_code == 0
    assert moved(server) == every(90) + every(60) - every(30)


@pytest.mark.slow
def test_ctrl_c_ends_a_move_that_waits_for_the_server(call_server: Call, server: AdminServer) -> None:
    """From outside: grpc has waits of its own, which a raised KeyboardInterrupt does not meet."""
    fill(call_server, server, 90)
    ended = threading.Event()

    def interrupt(method: str, _: Any) -> None:  # noqa: ANN401
        if method == "SendMessage" and server.memory.calls[method] == 3:
            os.kill(child.pid, signal.SIGINT)
            ended.wait(60)

    server.memory.before = interrupt
    # Whoever runs the tests may ignore the signal, and a child inherits that.
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from ternmq_command.main import main; main()"
    )
    command = [sys.executable, "-c", program, *MOVE, "--batch", "20", "--endpoint", server.endpoint]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            _, errors = child.communicate(timeout=60)
        finally:
            child.kill()
            ended.set()
    assert child.returncode == 130
    assert "stopped with 40 messages moved" in errors
    assert server.memory.committed["billing", "orders", 0] == 40
    assert call_server(*MOVE).exit_code == 0
    assert moved(server).keys() == every(90).keys()


def test_the_group_begins_in_the_new_topic_before_anything_is_sent(call_server: Call, server: AdminServer) -> None:
    """Else a group that begins at the end of new queues would pass over all that was moved."""
    call_server("group", "update", "billing", "--consume-from", "latest")
    fill(call_server, server, 20)
    begun: list[int] = []

    def look(method: str, _: Any) -> None:  # noqa: ANN401
        if method == "SendMessage":
            begun.append(sum(topic == "wide" for _, topic, _ in server.memory.committed))

    server.memory.before = look
    assert call_server(*MOVE).exit_code == 0
    assert begun == [8]
    assert {server.memory.committed["billing", "wide", queue_id] for queue_id in range(8)} == {0}


@pytest.mark.parametrize(
    ("consume_from", "first", "expected"),
    [("auto", 0, 30), ("auto", 10, 0), ("earliest", 10, 20), ("latest", 0, 0), ("2026-08-01T12:00:00Z", 0, 5)],
)
def test_in_a_queue_that_it_never_was_in_the_group_begins_as_it_is_set(
    call_server: Call, server: AdminServer, consume_from: str, first: int, expected: int
) -> None:
    call_server("group", "update", "billing", "--consume-from", consume_from)
    call_server("topic", "create", "orders", "--queues", "1")
    for number in range(30):
        stored_ms = 1_785_585_600_000 + (number - 25) * 1000
        server.memory.put("orders", 0, message(f"0-{number}"), stored_ms=stored_ms)
    server.memory.queues["orders"][0].remove_before(first)
    assert json.loads(call_server(*MOVE, "--json").stdout)["moved"] == expected


def test_an_offset_in_the_new_topic_stays(call_server: Call, server: AdminServer) -> None:
    fill(call_server, server, 20)
    call_server("topic", "create", "wide", "--queues", "2")
    server.memory.committed["billing", "wide", 1] = 0
    server.memory.put("wide", 0, message("older"))
    server.memory.put("wide", 1, message("older"))
    call_server("group", "update", "billing", "--consume-from", "latest")
    assert "(2 queues)" in call_server(*MOVE).stdout
    assert [server.memory.committed["billing", "wide", queue_id] for queue_id in range(2)] == [1, 0]


def test_without_a_backlog_nothing_is_made(call_server: Call, server: AdminServer) -> None:
    fill(call_server, server, 3)
    server.memory.committed["billing", "orders", 0] = 3
    result = call_server(*MOVE)
    assert (result.exit_code, result.stderr) == (0, "group billing has no backlog in orders\n")
    assert json.loads(call_server(*MOVE, "--json").stdout)["moved"] == 0
    assert set(server.topics) == {"orders"}


def test_messages_that_retention_has_removed_are_passed_over(call_server: Call, server: AdminServer) -> None:
    fill(call_server, server, 50)
    server.memory.queues["orders"][0].remove_before(20)
    assert json.loads(call_server(*MOVE, "--json").stdout)["moved"] == 30
    assert server.memory.committed["billing", "orders", 0] == 50


def test_a_queue_that_is_cut_short_is_an_error_and_no_endless_loop(call_server: Call, server: AdminServer) -> None:
    fill(call_server, server, 50)

    def cut(method: str, _: Any) -> None:  # noqa: ANN401
        if method == "PullMessage":
            del server.memory.queues["orders"][0].messages[10:]

    server.memory.before = cut
    result = call_server(*MOVE, "--batch", "10")
    assert (result.exit_code, server.memory.committed["billing", "orders", 0]) == (1, 10)
    assert "queue 0 of orders has no message at offset 10, though its end was 50" in result.stderr


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("delay", "timed"), ("transaction", "transactions of their producers"), ("lite", "lite topics")],
)
def test_topics_whose_messages_can_not_be_moved_are_refused(
    call_server: Call, server: AdminServer, kind: str, reason: str
) -> None:
    fill(call_server, server, 3, kind=kind)
    result = call_server(*MOVE)
    assert result.exit_code == 2
    assert f"orders is a {kind} topic, whose backlog can't be moved" in result.stderr
    assert reason in result.stderr
    assert not server.memory.requests


def at_work(server: AdminServer, *, member: bool) -> None:
    if member:
        server.members = [admin_pb2.Member(client_id="c1", subscriptions={"orders": "*"})]
    else:
        server.progress = [
            admin_pb2.Progress(topic="orders", broker=BROKER, queue_id=0, cursor=4, in_flight=2, max_offset=20)
        ]


@pytest.mark.parametrize(
    ("member", "reason"),
    [
        (True, "members of group billing subscribe to orders, first c1"),
        (False, "2 messages of orders are in flight"),
    ],
)
def test_a_group_at_work_is_refused_unless_that_is_wanted(
    call_server: Call, server: AdminServer, member: bool, reason: str
) -> None:
    fill(call_server, server, 20)
    at_work(server, member=member)
    result = call_server(*MOVE)
    assert (result.exit_code, set(server.topics)) == (1, {"orders"})
    assert reason in result.stderr
    assert "--include-in-flight" in result.stderr
    assert call_server(*MOVE, "--include-in-flight").exit_code == 0
    assert moved(server) == every(20)


def test_work_on_other_topics_does_not_matter(call_server: Call, server: AdminServer) -> None:
    fill(call_server, server, 20)
    server.members = [admin_pb2.Member(client_id="c1", subscriptions={"wide": "*"})]
    server.progress = [admin_pb2.Progress(topic="audit", broker=BROKER, queue_id=0, in_flight=2)]
    assert call_server(*MOVE).exit_code == 0


def refused(result: Result, exit_code: int, words: str) -> None:
    assert result.exit_code == exit_code
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_what_can_not_be_is_one_line(call_server: Call, server: AdminServer) -> None:
    fill(call_server, server, 3)
    same = ("backlog", "move", "billing", "--topic", "orders", "--to", "orders", "--queues", "8")
    refused(call_server(*same), 2, "the same topic")
    letters = ("backlog", "move", "billing", "--topic", "%DLQ%billing", "--to", "wide", "--queues", "8")
    refused(call_server(*letters), 2, "ternmq dlq resend --to-topic")
    refused(call_server("backlog", "move", "nobody", *MOVE[3:]), 1, "CONSUMER_GROUP_NOT_FOUND")
    refused(call_server("backlog", "move", "billing", "--topic", "x", *MOVE[5:]), 1, "TOPIC_NOT_FOUND")
    call_server("topic", "create", "wide", "--type", "fifo")
    refused(call_server(*MOVE), 1, "topic wide exists with type fifo, and orders has type normal")
    assert not server.memory.requests


def test_a_queue_that_another_reader_has_for_itself_gets_nothing_sent_twice(
    call_server: Call, server: AdminServer
) -> None:
    fill(call_server, server, 20)

    def forbid(method: str, request: Any) -> pb.Status | None:  # noqa: ANN401
        if method == "UpdateOffset" and request.message_queue.topic.name == "orders":
            return pb.Status(code=pb.FORBIDDEN, message="another reader")
        return None

    server.memory.before = forbid
    assert call_server(*MOVE).exit_code == 1
    assert not server.memory.requests


@pytest.mark.usefixtures("terminal")
def test_a_person_is_asked_before_anything_moves(call_server: Call, server: AdminServer) -> None:
    fill(call_server, server, 20)
    answered = call_server(*ASK_MOVE, stdin="n\n")
    assert (answered.exit_code, set(server.topics)) == (130, {"orders"})
    assert "Move 20 messages of orders to wide for group billing?" in answered.stderr
    assert call_server(*ASK_MOVE, stdin="y\n").exit_code == 0
