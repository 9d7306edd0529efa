"""The checks of histories find what is wrong, and nothing in what is right."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.history import Decision, History, Outcome, Place, Send
from tests.cluster.history_checks import CLOCK_MS, check, missing, violations

TOPIC, GROUP = "orders", "readers"
GROUPS = {TOPIC: [GROUP]}


class Made:
    """A history that is made by hand: each thing that happens takes a second."""

    def __init__(self) -> None:
        ticks = itertools.count(1)
        self.history = History(seconds=lambda: float(next(ticks)), now_ms=lambda: self.now_ms)
        self.now_ms = 1_000_000

    def sent(self, body: str, offset: int | None = None, *, group: str = "", process: str = "p") -> Send:
        send = self.began(body, group=group, process=process)
        self.history.acknowledged(send, offset)
        return send

    def began(self, body: str, *, group: str = "", process: str = "p", decision: Decision = Decision.NONE) -> Send:
        return self.history.began(Send(process=process, topic=TOPIC, body=body, message_group=group, decision=decision))

    def got(self, *bodies: str, at: int | None = None, group: str = GROUP) -> None:
        for body in bodies:
            place = None if at is None else place_of(at)
            self.history.delivered("c", group, TOPIC, body, place=place)

    def log(self, *bodies: str, start: int = 0, queue_id: int = 0) -> None:
        for offset, body in enumerate(bodies, start):
            self.history.read(place_of(offset, queue_id), body)

    @property
    def wrong(self) -> list[str]:
        """The first words of what is wrong, in order."""
        return [text.split(":", 1)[0] for text in violations(self.history, GROUPS)]


def place_of(offset: int, queue_id: int = 0) -> Place:
    return Place(TOPIC, "broker-0", queue_id, offset)


@pytest.fixture
def made() -> Made:
    return Made()


def test_a_history_in_which_all_went_well_is_right(made: Made) -> None:
    made.sent("a", 0, group="g")
    made.sent("b", 1, group="g")
    unknown = made.began("c", group="g")
    made.history.failed(unknown, "no answer")
    made.got("a", at=0)
    made.got("b", at=1)
    made.got("a", at=0)  # again
    made.log("a", "b", "c")
    assert made.wrong == []
    check(made.history, GROUPS)


def test_what_nobody_knows_of_may_come_or_not_once_or_twice(made: Made) -> None:
    for body in ("never", "once", "twice"):
        made.history.failed(made.began(body), "no answer")
    made.got("once", "twice", "twice")
    made.log("once", "twice", "twice")
    assert made.wrong == []


def test_an_acknowledged_message_that_one_group_never_had_is_lost(made: Made) -> None:
    made.sent("a")
    made.got("a", group="another")
    groups = {TOPIC: [GROUP, "another"]}
    [text] = violations(made.history, groups)
    assert text.startswith("lost: group readers never had a ")
    assert missing(made.history, groups) == {GROUP: {"a"}, "another": set()}


def test_an_acknowledged_message_that_no_queue_has_is_lost(made: Made) -> None:
    made.sent("a")
    made.sent("b")
    made.got("a", "b")
    made.log("a")
    assert made.wrong == ["lost"]


def test_a_message_that_nobody_sent_is_found(made: Made) -> None:
    made.got("ghost")
    assert made.wrong == ["never sent"]


def test_a_message_of_another_topic_is_found(made: Made) -> None:
    send = made.history.began(Send(process="p", topic="bills", body="a"))
    made.history.acknowledged(send)
    made.got("a")
    assert made.wrong == ["of another topic"]


def test_a_message_that_was_refused_for_good_and_is_there_is_found(made: Made) -> None:
    made.history.failed(made.began("a"), "too long", is_certain=True)
    made.log("a")
    assert made.wrong == ["refused, and stored"]


def test_transactions_end_as_their_producers_decided(made: Made) -> None:
    kept = made.began("kept", decision=Decision.COMMIT)
    dropped = made.began("dropped", decision=Decision.ROLLBACK)
    unsure = made.began("unsure", decision=Decision.COMMIT)
    for send in (kept, dropped, unsure):
        made.history.acknowledged(send)
    kept.ending = dropped.ending = Outcome.OK
    assert made.wrong == ["lost"]
    made.got("kept")
    assert made.wrong == []
    made.got("unsure")
    assert made.wrong == []
    made.got("dropped")
    assert made.wrong == ["rolled back, and delivered"]


def test_a_timed_message_that_comes_too_early_is_found(made: Made) -> None:
    send = made.history.began(Send(process="p", topic=TOPIC, body="a", due_ms=made.now_ms + 5000))
    made.history.acknowledged(send)
    made.now_ms += 5000 - CLOCK_MS
    made.got("a")
    assert made.wrong == []
    made.now_ms -= 1
    made.got("a")
    assert made.wrong == ["too early"]


def test_a_message_that_passed_an_earlier_one_of_its_group_is_found(made: Made) -> None:
    for body in ("a", "b", "c"):
        made.sent(body, group="g")
    made.got("a", "c", "b", "c")
    assert made.wrong == ["out of order"]


@pytest.mark.parametrize(
    "come",
    [("a", "b", "c"), ("a", "b", "a", "b", "c"), ("a", "a", "b", "c", "b", "c")],
    ids=" ".join,
)
def test_what_comes_again_comes_in_order(made: Made, come: tuple[str, ...]) -> None:
    for body in ("a", "b", "c"):
        made.sent(body, group="g")
    made.got(*come)
    assert made.wrong == []


def test_order_is_that_of_one_group_for_one_group_of_consumers(made: Made) -> None:
    made.sent("a", group="g")
    made.sent("x", group="h")
    made.sent("b", group="g")
    made.got("x", "a", "b")
    made.got("b", group="elsewhere")
    assert made.wrong == ["out of order"]
    assert "elsewhere" in violations(made.history, GROUPS)[0]


@pytest.mark.parametrize("see", [lambda made: made.log("b"), lambda made: made.got("b", at=0)], ids=["read", "got"])
def test_two_messages_at_one_offset_are_found(made: Made, see: Callable[[Made], None]) -> None:
    for body in ("a", "b"):
        made.history.failed(made.began(body), "no answer")
    made.got("a", at=0)
    see(made)
    assert made.wrong == ["two messages at one offset"]


def test_a_message_that_is_not_where_its_producer_was_told_is_found(made: Made) -> None:
    made.sent("a", 0)
    made.sent("b", 2)
    made.got("a", "b")
    made.log("a", "b")
    assert made.wrong == ["moved"]


def test_a_copy_of_a_message_may_be_elsewhere(made: Made) -> None:
    made.sent("a", 1)
    made.got("a")
    made.log("a", "a")
    assert made.wrong == []


def test_a_gap_in_a_queue_is_found(made: Made) -> None:
    for body in ("a", "b", "c"):
        made.history.failed(made.began(body), "no answer")
    made.log("a", "b", start=3)
    made.log("c", start=6)
    assert made.wrong == ["gaps"]


def test_a_send_before_one_that_had_ended_is_found(made: Made) -> None:
    made.sent("a", 1, process="p")
    made.sent("b", 0, process="q")
    made.got("a", "b")
    made.log("b", "a")
    assert made.wrong == ["offsets fall"]


def test_sends_at_the_same_time_may_be_in_any_order(made: Made) -> None:
    first, second = made.began("a"), made.began("b")
    made.history.acknowledged(first, 1)
    made.history.acknowledged(second, 0)
    made.got("a", "b")
    made.log("b", "a")
    assert made.wrong == []


def test_queues_have_offsets_of_their_own(made: Made) -> None:
    made.sent("a", 1)
    made.sent("b", 0)
    made.history.failed(made.began("x"), "no answer")
    made.got("a", "b")
    made.log("x", "a")
    made.log("b", queue_id=1)
    assert made.wrong == []


def test_what_is_wrong_is_said_up_to_a_limit(made: Made) -> None:
    for number in range(30):
        made.sent(f"m{number}")
    with pytest.raises(AssertionError, match="and 10 more"):
        check(made.history, GROUPS)


def test_a_history_is_written_in_the_order_of_time(made: Made, tmp_path: Path) -> None:
    made.sent("a", 0)
    made.history.note("killed")
    made.got("a", at=0)
    made.log("a")
    made.history.write(tmp_path / "history")
    lines = [json.loads(line) for line in (tmp_path / "history").read_text().splitlines()]
    assert [sorted(line.keys() - {"s", "body"}) for line in lines] == [["send"], ["note"], ["delivery"], ["reading"]]
    assert lines[0]["send"]["outcome"] == "ok"
