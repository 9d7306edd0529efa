"""Where `ternmq tail` goes on when a call breaks in the middle of its answer."""

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
    assert asked == [0, 3]
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
