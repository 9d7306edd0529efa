"""How connections of one server share turns: none is long however much all have to say; who is behind is known."""

import pytest

from ternmq_rpc.grpc_http2.events import EventKind
from ternmq_rpc.serving.budgets import CALL_COST, SLICE_MIN, TURN, BudgetLedger
from tests.unit.rpc.grpc_http2.conversation import Served, data, headers

CALLS = b"".join(headers(stream) + data(stream, b"") for stream in range(1, 1001, 2))


def started(served: Served, sent: bytes = b"") -> int:
    """Calls that a turn of the connection begins."""
    return sum(event is EventKind.STARTED for event, *_ in served.machine.receive_bytes(sent, served.now))


@pytest.mark.parametrize("connections", [1, 4, 16, 200])
def test_a_turn_of_all_has_an_end_and_a_call_of_each(connections: int) -> None:
    ledger = BudgetLedger()
    all_of_them = [Served(ledger=ledger) for _ in range(connections)]
    for served in all_of_them:
        started(served, CALLS)
    assert len(ledger.behind) == connections
    turn = [started(served) for served in all_of_them]
    assert min(turn) >= 1
    assert sum(turn) * CALL_COST <= max(TURN, connections * SLICE_MIN)


def test_who_is_behind_longest_is_known_until_it_has_caught_up_or_is_gone() -> None:
    ledger = BudgetLedger()
    first, second = Served(ledger=ledger), Served(ledger=ledger)
    started(first, CALLS)
    second.now += 1
    started(second, CALLS)
    assert ledger.longest_behind_s(first.now + 3) == 3
    first.now += 1
    started(first)
    assert ledger.longest_behind_s(first.now + 2) == 3  # since its bytes came, whatever was taken of them since
    first.hear()
    assert ledger.longest_behind_s(second.now + 2) == 2
    second.machine.close_streams()
    assert not ledger.behind
    assert ledger.longest_behind_s(second.now + 2) == 0


def test_a_connection_that_fails_is_behind_no_more() -> None:
    served = Served()
    started(served, CALLS + headers(0))
    assert served.ledger.behind
    served.hear()
    assert served.machine.failure is not None
    assert not served.ledger.behind
