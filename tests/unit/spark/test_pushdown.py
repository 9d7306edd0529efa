"""Conditions of a query that the broker or the plan takes, and those that stay with Spark."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from pyspark_ternmq.schema import SCHEMA
from pyspark_ternmq.source.offsets.splitting import QueueRange
from pyspark_ternmq.source.pushdown import FilteringTopicReader, WantedRanges
from ternmq import TagFilter

COMPARISONS = {
    EqualTo: int.__eq__,
    GreaterThan: int.__gt__,
    GreaterThanOrEqual: int.__ge__,
    LessThan: int.__lt__,
    LessThanOrEqual: int.__le__,
}


@given(
    conditions=st.lists(st.tuples(st.sampled_from(list(COMPARISONS)), st.integers(-5, 60)), max_size=3),
    start=st.integers(0, 50),
    size=st.integers(0, 50),
)
def test_offsets_are_those_that_meet_all_conditions(
    conditions: list[tuple[type[Filter], int]], start: int, size: int
) -> None:
    wanted = WantedRanges()
    for kind, value in conditions:
        taken = wanted.with_filter(kind(("offset",), value))  # type: ignore[call-arg]
        assert taken is not None
        wanted = taken
    cut = wanted.cut_range(QueueRange("orders", "broker/3", start, start + size))
    meeting = [
        offset for offset in range(start, start + size) if all(COMPARISONS[kind](offset, v) for kind, v in conditions)
    ]
    assert list(range(cut.start, cut.stop)) == meeting


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        (EqualTo(("topic",), "orders"), 10),
        (EqualTo(("topic",), "payments"), 0),
        (In(("queue_id",), (1, 3)), 10),
        (EqualTo(("queue_id",), 2), 0),
        (In(("broker",), ("other", "broker")), 10),
        (EqualTo(("broker",), "other"), 0),
    ],
)
def test_queues_that_can_not_match_are_not_read(condition: Filter, left: int) -> None:
    wanted = WantedRanges().with_filter(condition)
    assert wanted is not None
    assert wanted.cut_range(QueueRange("orders", "broker/3", 0, 10)).range_size == left


@pytest.mark.parametrize(
    "condition",
    [
        IsNotNull(("offset",)),
        Not(EqualTo(("topic",), "orders")),
        GreaterThan(("queue_id",), 1),
        EqualTo(("offset",), 1.5),
        EqualTo(("properties", "offset"), 3),
        EqualTo(("body",), b"x"),
    ],
)
def test_other_conditions_stay_with_spark(condition: Filter) -> None:
    reader = FilteringTopicReader({"endpoint": "127.0.0.1:8081", "subscribe": "orders"}, SCHEMA)
    assert list(reader.pushFilters([condition])) == [condition]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (EqualTo(("tag",), "a"), TagFilter("a")),
        (In(("tag",), ("a", "b c")), TagFilter("a||b c")),
        (EqualTo(("tag",), "*"), None),
        (EqualTo(("tag",), "a||b"), None),
        (EqualTo(("tag",), " a"), None),
        (In(("tag",), ("a", None)), None),
    ],
)
def test_the_broker_leaves_out_other_tags(condition: Filter, expected: TagFilter | None) -> None:
    reader = FilteringTopicReader({"endpoint": "127.0.0.1:8081", "subscribe": "orders"}, SCHEMA)
    rest = list(reader.pushFilters([condition]))
    assert reader._options.reading.passing == expected
    assert rest == ([] if expected else [condition])


def test_a_tag_of_the_options_stays_and_the_condition_goes_to_spark() -> None:
    reader = FilteringTopicReader({"endpoint": "127.0.0.1:8081", "subscribe": "orders", "tag": "a"}, SCHEMA)
    condition = EqualTo(("tag",), "b")
    assert list(reader.pushFilters([condition])) == [condition]
    assert reader._options.reading.passing == TagFilter("a")
