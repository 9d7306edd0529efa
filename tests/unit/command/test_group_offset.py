"""Offsets of a group: shown, reset, and the backlog skipped."""

import json

import pytest

from ternmq_protos.admin_v1 import admin_pb2
from tests.unit.command.admin_server import AdminServer
from tests.unit.command.conftest import Call
from tests.unit.command.messaging_server import message

ASK_RESET = ("group", "offset", "reset", "g", "--topic", "orders")
ASK_SKIP = ("group", "offset", "skip", "g", "--topic", "orders")
RESET = (*ASK_RESET, "--yes")
SKIP = (*ASK_SKIP, "--yes")


@pytest.fixture(autouse=True)
def group(call_server: Call, server: AdminServer) -> None:
    call_server("group", "create", "g")
    call_server("topic", "create", "orders", "--queues", "2")
    server.moves = [
        admin_pb2.OffsetMove(broker="broker-0", queue_id=1, before=-1, after=7),
        admin_pb2.OffsetMove(broker="broker-0", queue_id=0, before=5, after=0),
    ]


def test_offsets_are_shown_for_each_queue_and_together(call_server: Call, server: AdminServer) -> None:
    server.progress[0].oldest_age.FromMilliseconds(61_500)
    server.progress[0].lost = 3
    server.progress.append(
        admin_pb2.Progress(topic="u", broker="broker-0", committed=1, cursor=1, in_flight=0, max_offset=3)
    )
    server.progress[1].oldest_age.FromMilliseconds(2000)
    shown = json.loads(call_server("group", "offset", "show", "g", "--json").stdout)
    assert shown["queues"][0] == {
        "topic": "t",
        "broker": "broker-0",
        "queue": 1,
        "committed": 5,
        "delivered": 8,
        "in_flight": 2,
        "end_offset": 10,
        "lag": 4,
        "lag_s": 61.5,
        "lost": 3,
        "reader": None,
        "lock": None,
    }
    assert shown["total"] == {"in_flight": 2, "lag": 6, "lag_s": 61.5, "lost": 3}
    lines = call_server("group", "offset", "show", "g").stdout.splitlines()
    assert lines[1].split() == ["t", "broker-0", "1", "5", "8", "2", "10", "3", "4", "1m1s"]
    assert lines[-1] == "lag 6 messages, the oldest 1m1s old; 2 in flight"


def test_only_one_topic_is_shown_on_demand(call_server: Call) -> None:
    shown = json.loads(call_server("group", "offset", "show", "g", "--topic", "orders", "--json").stdout)
    assert shown == {"group": "g", "queues": [], "total": {"in_flight": 0, "lag": 0, "lag_s": 0.0, "lost": 0}}
    people = call_server("group", "offset", "show", "g", "--topic", "orders")
    assert (people.stdout, people.stderr) == ("", "group g has no progress yet in orders\n")


@pytest.mark.parametrize(
    ("flags", "target", "value"),
    [
        (["--to-earliest"], "earliest", True),
        (["--to-latest"], "latest", True),
        (["--to-offset", "0"], "offset", 0),
        (["--shift", "-100"], "shift", -100),
        (["--shift", "0"], "shift", 0),
    ],
)
def test_a_reset_has_a_target(
    call_server: Call, server: AdminServer, flags: list[str], target: str, value: object
) -> None:
    assert call_server(*RESET, *flags).exit_code == 0
    (request,) = server.resets
    assert (request.group, request.topic, list(request.queue_ids), request.dry_run) == ("g", "orders", [], False)
    assert request.WhichOneof("target") == target
    assert getattr(request, target) == value


@pytest.mark.parametrize("flag", ["--to-time=2026-08-01T12:00:00.250Z", "--to-time=2026-08-01T14:00:00.250+02:00"])
def test_a_reset_to_a_time_is_exact(call_server: Call, server: AdminServer, flag: str) -> None:
    call_server(*RESET, flag)
    assert server.resets[0].time.ToMilliseconds() == 1_785_585_600_250


def test_a_reset_to_a_time_ago_may_have_a_minus(call_server: Call, server: AdminServer) -> None:
    call_server(*RESET, "--to-time", "2h")
    call_server(*RESET, "--to-time", "-2h")
    first, second = (request.time.ToMilliseconds() for request in server.resets)
    assert 0 <= second - first < 60_000


@pytest.mark.parametrize("flags", [[], ["--to-earliest", "--to-latest"], ["--to-offset", "0", "--shift", "0"]])
def test_a_reset_has_exactly_one_target(call_server: Call, server: AdminServer, flags: list[str]) -> None:
    result = call_server(*RESET, *flags)
    assert (result.exit_code, server.resets) == (2, [])
    assert "give exactly one of --to-earliest" in result.stderr


def test_a_reset_tells_each_queues_move_in_order(call_server: Call) -> None:
    assert call_server(*RESET, "--to-earliest").stdout.splitlines() == [
        "broker-0  queue 0  5 -> 0",
        "broker-0  queue 1  never there -> 7",
    ]
    told = json.loads(call_server(*RESET, "--to-earliest", "--json").stdout)
    assert told == {
        "group": "g",
        "topic": "orders",
        "dry_run": False,
        "moves": [
            {"broker": "broker-0", "queue": 0, "before": 5, "after": 0},
            {"broker": "broker-0", "queue": 1, "before": None, "after": 7},
        ],
    }


def test_single_queues_are_reset(call_server: Call, server: AdminServer) -> None:
    call_server(*RESET, "--queue", "3", "--queue", "4", "--to-latest")
    assert list(server.resets[0].queue_ids) == [3, 4]


def test_a_dry_run_says_that_nothing_was_changed(call_server: Call, server: AdminServer) -> None:
    result = call_server(*RESET, "--to-earliest", "--dry-run")
    assert server.resets[0].dry_run
    assert result.stdout.splitlines()[-1] == "nothing was changed (--dry-run)"


@pytest.mark.usefixtures("terminal")
def test_a_person_sees_the_moves_before_they_are_made(call_server: Call, server: AdminServer) -> None:
    refused = call_server(*ASK_RESET, "--to-earliest", stdin="n\n")
    assert refused.exit_code == 130
    assert "queue 0  5 -> 0" in refused.stderr
    assert [request.dry_run for request in server.resets] == [True]
    assert call_server(*ASK_RESET, "--to-earliest", stdin="y\n").exit_code == 0
    assert [request.dry_run for request in server.resets] == [True, True, False]
    call_server(*ASK_RESET, "--to-earliest", "--yes")
    assert [request.dry_run for request in server.resets[3:]] == [False]


@pytest.mark.usefixtures("terminal")
def test_skipping_asks_with_the_number_of_messages(call_server: Call, server: AdminServer) -> None:
    """A queue in which the group is counts with its lag, one in which it never was with all that it holds."""
    server.progress = [
        admin_pb2.Progress(topic="orders", broker="broker-0", queue_id=0, cursor=8, in_flight=2, max_offset=10)
    ]
    for number in range(3):
        server.memory.put("orders", 1, message(f"m{number}"))
    refused = call_server(*ASK_SKIP, stdin="n\n")
    assert (refused.exit_code, server.resets) == (130, [])
    assert "Skip 7 messages of orders, so that group g does not get them?" in refused.stderr
    done = call_server(*ASK_SKIP, stdin="y\n")
    assert done.stdout.splitlines()[-1] == "skipped 7 messages"
    assert server.resets[0].latest


def test_skipping_with_yes_does_not_ask(call_server: Call, server: AdminServer) -> None:
    assert json.loads(call_server(*SKIP, "--json").stdout)["moves"][0]["after"] == 0
    assert [request.latest for request in server.resets] == [True]


def test_one_message_is_skipped(call_server: Call, server: AdminServer) -> None:
    done = call_server(*SKIP, "--queue", "1", "--offset", "4", "--broker", "broker-0")
    assert done.stdout.splitlines()[-1] == "skipped the message at offset 4 of queue 1 of orders"
    (request,) = server.resets
    assert (request.WhichOneof("target"), request.skip, list(request.queue_ids)) == ("skip", 4, [1])
    assert request.broker == "broker-0"


@pytest.mark.parametrize("options", [("--offset", "4"), ("--queue", "1"), ("--broker", "broker-0")])
def test_which_message_is_skipped_is_said_in_full(call_server: Call, server: AdminServer, options: tuple[str]) -> None:
    result = call_server(*SKIP, *options)
    assert (result.exit_code, server.resets) == (2, [])
    assert "--offset goes with --queue" in result.stderr


def test_a_group_that_is_not_there_is_refused(call_server: Call) -> None:
    for command in (("show", "x"), ("skip", "x", "--topic", "orders")):
        result = call_server("group", "offset", *command)
        assert (result.exit_code, result.stderr) == (1, "ternmq: CONSUMER_GROUP_NOT_FOUND: no group x\n")
