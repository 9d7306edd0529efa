"""What the checkpoint says of a stream, and what comes of it when topics are made anew."""

import json

import pytest

from pyspark_ternmq.lag import lag_of
from pyspark_ternmq.options import WrongOption
from pyspark_ternmq.source.offsets.position import StreamPosition

KEPT = {"orders": {"b/0": 17, "b/1": 3}, "@identities": {"orders": "a-1"}}


@pytest.mark.parametrize("kept", [{}, {"orders": {"b/0": 17}}, KEPT])
def test_what_is_kept_comes_back(kept: dict[str, dict[str, object]]) -> None:
    assert StreamPosition.of(json.loads(json.dumps(kept))).to_kept() == kept


@pytest.mark.parametrize(
    "kept",
    [
        {"orders": {"0": 17}},  # of Kafka's source
        {"logOffset": 3},
        {"orders": {"b/0": "17"}},
        {"orders": {"b/0": 17}, "@identities": "a-1"},
    ],
)
def test_the_checkpoint_of_another_source_is_refused(kept: dict[str, object]) -> None:
    with pytest.raises(WrongOption, match=r"the checkpoint is not one of a stream of topics, at \{"):
        StreamPosition.of(kept)


def test_a_topic_is_made_anew_if_both_identities_are_known_and_differ() -> None:
    position = StreamPosition({}, {"orders": "a-1", "payments": "a-2"})
    assert position.recreated_topics({"orders": "a-1", "payments": "b-7", "returns": "b-8"}) == ["payments"]
    assert position.recreated_topics({"orders": "", "payments": ""}) == []
    assert StreamPosition({"orders": {"b/0": 17}}).recreated_topics({"orders": "a-1"}) == []


def test_a_micro_batch_adds_identities_and_keeps_what_is_away() -> None:
    before = StreamPosition({"orders": {"b/0": 17, "gone/0": 9}, "returns": {"b/0": 1}}, {"returns": "a-3"})
    after = before.moved_to({"orders": {"b/0": 20}, "new": {"b/0": 2}}, {"orders": "a-1", "new": ""})
    assert after == StreamPosition(
        {"orders": {"b/0": 20, "gone/0": 9}, "returns": {"b/0": 1}, "new": {"b/0": 2}},
        {"returns": "a-3", "orders": "a-1"},
    )


def test_of_a_topic_that_was_made_anew_nothing_of_the_old_one_is_kept() -> None:
    before = StreamPosition({"orders": {"b/0": 17, "gone/0": 9}}, {"orders": "a-1"})
    assert before.moved_to({"orders": {"b/0": 2}}, {"orders": "b-1"}) == StreamPosition(
        {"orders": {"b/0": 2}}, {"orders": "b-1"}
    )


def test_a_server_that_tells_no_identity_any_more_takes_none_away() -> None:
    assert StreamPosition.of(KEPT).moved_to({"orders": {"b/0": 18}}, {"orders": ""}).identities == {"orders": "a-1"}


def test_the_order_of_what_is_kept_stays() -> None:
    """Spark compares texts."""
    moved = StreamPosition.of(KEPT).moved_to({"orders": {"b/1": 3, "b/0": 17}}, {"orders": "a-1"})
    assert json.dumps(moved.to_kept()) == json.dumps(KEPT)


def test_identities_are_no_lag() -> None:
    latest = {"orders": {"b/0": 20, "b/1": 3}}
    assert lag_of({"endOffset": json.dumps(KEPT), "latestOffset": json.dumps(latest)}) == 3
    assert lag_of({"endOffset": KEPT, "latestOffset": {**latest, "@identities": {"orders": "b-1"}}}) == 3
