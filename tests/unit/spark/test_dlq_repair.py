"""What a user's function makes of a dead letter."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pyspark_ternmq.pipelines.dead_letters.dlq_repair import (
    Letter,
    Repair,
    WrongRepair,
    decision_of,
    load_repair,
    send_unchanged,
)
from ternmq import Message

ROW: Mapping[str, Any] = {
    "broker": "b",
    "queue_id": 0,
    "offset": 7,
    "message_id": "ID",
    "keys": ["k"],
    "tag": "paid",
    "message_group": None,
    "body": bytearray(b"body"),
    "properties": {
        "region": "eu",
        "DLQ_ORIGIN_TOPIC": "orders",
        "DLQ_ORIGIN_MESSAGE_ID": "ID",
        "DLQ_ATTEMPTS": "3",
        "DLQ_REASON": "attempts",
    },
    "born_timestamp": 1_000_000,
    "store_timestamp": 2_000_000,
    "corrupt": None,
}


def decided(repair: Repair, **changes: object) -> dict[str, Any]:
    return decision_of({**ROW, **changes}, repair)


def test_a_function_gets_the_message_that_the_letter_was() -> None:
    seen: list[Letter] = []
    decided(seen.append)
    [letter] = seen
    assert (letter.body, letter.tag, letter.keys, letter.properties) == (b"body", "paid", ("k",), {"region": "eu"})
    assert (letter.origin_topic, letter.attempts, letter.reason) == ("orders", 3, "attempts")
    assert letter.stored == datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)


def test_what_it_returns_is_sent_to_where_the_letter_came_from() -> None:
    decision = decided(lambda letter: letter.message(body=b"new"))
    assert (decision["outcome"], decision["to_topic"], decision["new_body"]) == ("ready", "orders", b"new")
    assert (decision["new_keys"], decision["new_tag"], decision["new_properties"]) == (["k"], "paid", {"region": "eu"})


def test_none_leaves_the_letter() -> None:
    decision = decided(lambda letter: None)
    assert decision["outcome"] == "left"
    assert "to_topic" not in decision


def test_an_error_is_told_with_its_words() -> None:
    def fail(letter: Letter) -> Message:
        raise KeyError("amount")

    assert decided(fail)["why"] == "KeyError: 'amount'"
    assert decided(fail)["outcome"] == "failed"


def test_a_message_that_no_broker_would_take_fails_the_letter() -> None:
    decision = decided(lambda letter: letter.message(body=b""))
    assert decision["outcome"] == "failed"
    assert "empty" in decision["why"]


def test_what_is_no_message_fails_the_letter() -> None:
    assert "returned a str" in decided(lambda letter: "text")["why"]  # type: ignore[arg-type,return-value]


def test_a_priority_fails_the_letter() -> None:
    assert "priority" in decided(lambda letter: letter.message(priority=1))["why"]


def test_times_of_delivery_are_microseconds() -> None:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    decision = decided(lambda letter: letter.message(delivery_timestamp=at))
    assert decision["new_delivery_us"] == round(at.timestamp()) * 1_000_000
    later = decided(lambda letter: letter.message(delay=timedelta(hours=1)))["new_delivery_us"]
    assert later > datetime.now(UTC).timestamp() * 1_000_000


def test_a_body_that_could_not_be_unpacked_fails_without_a_question() -> None:
    decision = decided(send_unchanged, corrupt="no gzip")
    assert (decision["outcome"], decision["why"]) == ("failed", "no gzip")


def test_a_letter_that_says_nothing_of_itself_is_left_to_the_function() -> None:
    decision = decided(lambda letter: letter.message(topic="orders"), properties=None)
    assert (decision["outcome"], decision["origin_topic"], decision["attempts"]) == ("ready", None, None)


@pytest.mark.parametrize("name", ["", "module", ":f", "m:", "no_such_module_at_all:f", "json:no_such_function"])
def test_a_name_of_no_function_is_refused(name: str) -> None:
    with pytest.raises(WrongRepair):
        load_repair(name)


def test_a_module_of_the_current_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "repairs_here.py").write_text("def f(letter):\n    return None\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load_repair("repairs_here:f")(None) is None  # type: ignore[arg-type]
