"""Where `ternmq tail` begins, and where it goes on when a call breaks in the middle of its answer."""

from collections.abc import Iterator
from typing import Any

import pytest

from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.unit.command.admin_server import AdminServer
from tests.unit.command.conftest import Call
from tests.unit.command.messaging_server import message


@pytest.fixture
def orders(server: AdminServer) -> AdminServer:
    server.memory.make("orders", 1)
    for number in range(6):
        server.memory.put("orders", 0, message(str(number)))
    return server


def test_an_answer_that_breaks_off_is_gone_on_with_behind_its_last_message(
    orders: AdminServer, call_server: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = orders.memory.PullMessage
    asked: list[int] = []

    def broken(request: rpc.PullMessageRequest) -> Iterator[rpc.PullMessageResponse]:
        asked.append(request.offset)
        for number, answer in enumerate(whole(request)):
            if len(asked) == 1 and number == 4:  # behind the status and three messages
                raise ConnectionError("the server ends")
            yield answer

    monkeypatch.setattr(orders.memory, "PullMessage", broken)
    result = call_server("tail", "orders", "--from-beginning", "--max", "6")
    assert [line.split()[-1] for line in result.stdout.splitlines()] == list("012345")
    assert asked[:2] == [0, 3]  # it may have asked for more before the reader had enough
    lost, back = result.stderr.splitlines()
    assert lost.startswith(f"ternmq: lost the connection to {orders.endpoint} (")
    assert back == f"ternmq: connected to {orders.endpoint} again"


@pytest.mark.parametrize("code", [pb.HA_NOT_AVAILABLE, pb.PROXY_TIMEOUT])
def test_a_broker_that_is_away_behind_its_proxy_is_waited_for(
    orders: AdminServer, call_server: Call, code: "pb.Code"
) -> None:
    refused: list[str] = []

    def refuse(method: str, _: Any) -> pb.Status | None:  # noqa: ANN401
        if method == "PullMessage" and len(refused) < 2:
            refused.append(method)
            return pb.Status(code=code, message="the broker is away")
        return None

    orders.memory.before = refuse
    result = call_server("tail", "orders", "--from-beginning", "--max", "6")
    assert (result.exit_code, len(result.stdout.splitlines()), len(result.stderr.splitlines())) == (0, 6, 2)
    assert f"({pb.Code.Name(code)}: the broker is away)" in result.stderr


def test_a_refusal_that_does_not_pass_ends_it(orders: AdminServer, call_server: Call) -> None:
    def refuse(method: str, _: Any) -> pb.Status | None:  # noqa: ANN401
        return pb.Status(code=pb.FORBIDDEN, message="not for you") if method == "PullMessage" else None

    orders.memory.before = refuse
    result = call_server("tail", "orders", "--from-beginning")
    assert (result.exit_code, result.stderr) == (1, "ternmq: FORBIDDEN: not for you\n")


T0_MS = 1_785_585_600_000  # 2026-08-01T12:00:00Z


@pytest.fixture
def hourly(server: AdminServer) -> AdminServer:
    """Two queues with a message each hour: q0-0, q1-0, q0-1, ..."""
    server.memory.make("hourly", 2)
    for number in range(4):
        for queue_id in range(2):
            put = message(f"q{queue_id}-{number}")
            server.memory.put("hourly", queue_id, put, stored_ms=T0_MS + number * 3_600_000)
    return server


def tailed(call_server: Call, *arguments: str, most: int) -> set[str]:
    result = call_server("tail", "hourly", *arguments, "--max", str(most))
    assert (result.exit_code, result.stderr) == (0, "")
    return {line.split()[-1] for line in result.stdout.splitlines()}


@pytest.mark.usefixtures("hourly")
def test_it_begins_with_a_time(call_server: Call) -> None:
    assert tailed(call_server, "--since", "2026-08-01T14:00:00Z", most=4) == {"q0-2", "q1-2", "q0-3", "q1-3"}


@pytest.mark.usefixtures("hourly")
def test_one_queue_is_followed_alone(call_server: Call) -> None:
    assert tailed(call_server, "--from-beginning", "--queue", "1", most=4) == {"q1-0", "q1-1", "q1-2", "q1-3"}
    assert tailed(call_server, "--since", "2026-08-01T15:00Z", "--queue", "0", most=1) == {"q0-3"}


@pytest.mark.usefixtures("hourly")
def test_it_begins_with_an_offset_of_a_queue(call_server: Call) -> None:
    assert tailed(call_server, "--queue", "1", "--offset", "2", most=2) == {"q1-2", "q1-3"}


def test_an_offset_that_is_not_kept_any_more_begins_with_what_is(hourly: AdminServer, call_server: Call) -> None:
    hourly.memory.queues["hourly"][0].remove_before(3)
    assert tailed(call_server, "--queue", "0", "--offset", "1", most=1) == {"q0-3"}


def test_an_offset_is_one_of_a_broker(hourly: AdminServer, call_server: Call) -> None:
    hourly.memory.make("hourly", 1, broker="b2")
    hourly.memory.put("hourly", 0, message("elsewhere"), broker="b2")
    result = call_server("tail", "hourly", "--queue", "0", "--offset", "0")
    assert result.exit_code == 2
    assert result.stderr == "ternmq: several brokers have that queue: choose one with --broker: b2, broker-0\n"
    assert tailed(call_server, "--queue", "0", "--offset", "0", "--broker", "b2", most=1) == {"elsewhere"}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--queue", "2"), "topic hourly has no queue 2; it has 0, 1"),
        (("--broker", "b9"), "hourly is not on broker b9; it is on broker-0"),
        (("--queue", "0", "--offset", "5"), "queue 0 of hourly ends at offset 4; 5 is beyond that"),
    ],
)
@pytest.mark.usefixtures("hourly")
def test_a_place_that_is_not_there_is_refused(call_server: Call, arguments: tuple[str, ...], problem: str) -> None:
    result = call_server("tail", "hourly", *arguments)
    assert (result.exit_code, problem in result.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--from-beginning", "--since", "2h"), "give one of --from-beginning, --since and --offset"),
        (("--from-beginning", "--queue", "0", "--offset", "1"), "give one of --from-beginning, --since and --offset"),
        (("--since", "2h", "--queue", "0", "--offset", "1"), "give one of --from-beginning, --since and --offset"),
        (("--offset", "1"), "--offset needs --queue too"),
        (("--since", "yesterday"), "a time like"),
        (("--queue", "0", "--offset", str(2**63)), "is not in the range"),
    ],
)
def test_ways_to_say_where_it_begins_exclude_each_other(call: Call, arguments: tuple[str, ...], problem: str) -> None:
    result = call("tail", "hourly", *arguments)
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert problem in result.stderr
