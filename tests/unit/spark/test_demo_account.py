"""The account of the demo's lake."""

import pytest

from ternmq_command.demo.lake.lake_account import LakeAccount
from ternmq_command.demo.ledger import Ledger


def ledger_of(rows: int, *, sent: int) -> Ledger:
    ledger = Ledger.create_empty(rows)
    ledger.add_sent(list(range(sent)))
    return ledger


def test_a_lake_with_each_flight_once_is_right() -> None:
    account = LakeAccount.count_flights(ledger_of(10, sent=5), range(5), messages=5, late=0, malformed=0)
    assert account.is_right
    assert (
        account.summary_text() == "5 messages in the topic, 5 rows in the lake, each flight once; 0 late, 0 malformed"
    )


def test_a_flight_that_was_acknowledged_and_is_not_in_the_lake_is_lost() -> None:
    account = LakeAccount.count_flights(ledger_of(10, sent=5), [0, 1, 3, 4], messages=4, late=0, malformed=0)
    assert not account.is_right
    assert "; LOST: 1 flight that the broker acknowledged; " in account.summary_text()


def test_a_flight_in_the_place_of_another_is_noticed() -> None:
    assert not LakeAccount.count_flights(
        ledger_of(10, sent=5), [0, 1, 2, 3, 3], messages=5, late=0, malformed=0
    ).is_right


def test_a_flight_that_was_sent_again_after_a_lost_answer_is_told_and_right() -> None:
    account = LakeAccount.count_flights(ledger_of(10, sent=3), [0, 1, 2, 2], messages=4, late=0, malformed=0)
    assert account.is_right
    assert (
        "4 rows in the lake, 3 flights; 1 row more than flights, sent again after answers that got lost; 0 late"
        in account.summary_text()
    )


def test_a_flight_that_came_without_an_answer_is_right() -> None:
    assert LakeAccount.count_flights(ledger_of(10, sent=3), range(4), messages=4, late=0, malformed=0).is_right


@pytest.mark.parametrize(("late", "malformed"), [(1, 0), (0, 1)])
def test_rows_put_aside_are_not_right(late: int, malformed: int) -> None:
    account = LakeAccount.count_flights(ledger_of(10, sent=4), range(4), messages=5, late=late, malformed=malformed)
    assert not account.is_right
    assert f"{late} late, {malformed} malformed" in account.summary_text()
    assert "DIFFER" not in account.summary_text()


def test_messages_that_are_no_rows_are_noticed() -> None:
    account = LakeAccount.count_flights(ledger_of(10, sent=4), range(4), messages=6, late=0, malformed=0)
    assert not account.is_right
    assert "the numbers of messages and rows DIFFER" in account.summary_text()
