"""Counts and durations: what they hold, and that they hold no more than they should."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_runtime.observability.durations import DURATION_BOUNDS_S, DurationHistogram
from ternmq_runtime.observability.figures import GroupLag
from ternmq_runtime.observability.front_figures import FrontFigures
from ternmq_runtime.observability.name_counts import NAMES_MAX, OTHER, NameCounts
from ternmq_runtime.observability.series_limit import SeriesLimit


@given(seconds=st.lists(st.floats(0, 100)))
def test_a_duration_is_counted_below_the_first_bound_that_it_does_not_pass(seconds: list[float]) -> None:
    durations = DurationHistogram()
    for each in seconds:
        durations.record_duration(each)
    for number, bound in enumerate(DURATION_BOUNDS_S):
        assert sum(durations.counts[: number + 1]) == sum(each <= bound for each in seconds)
    assert sum(durations.counts) == len(seconds)
    assert durations.total_s == sum(seconds)
    assert (durations.shortest_s, durations.longest_s) == (min(seconds, default=float("inf")), max(seconds, default=0))


def test_names_beyond_what_is_kept_are_counted_together() -> None:
    by_name = NameCounts()
    for number in range(NAMES_MAX + 5):
        by_name.add_count(f"topic-{number}", 2)
    by_name.add_count("topic-0")
    counts = by_name.copy_counts()
    assert (len(counts), counts["topic-0"], counts[OTHER]) == (NAMES_MAX + 1, 3, 10)
    assert by_name.total_count() == 2 * (NAMES_MAX + 5) + 1


def test_names_beyond_the_limit_are_told_together_and_what_was_told_so_never_falls(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limit, by_name = SeriesLimit(3), NameCounts()
    told = 0
    for number in (0, 1, 2, 3, 4, 0, 3, 5, 5, 5):
        by_name.add_count(f"topic-{number}")
        counts = limit.limit_counts("sent", "topics", by_name.copy_counts())
        assert list(counts)[:3] == ["topic-0", "topic-1", "topic-2"][: len(counts)]
        assert len(counts) <= 4
        assert counts.get(OTHER, 0) >= told
        told = counts.get(OTHER, 0)
    assert told == 6
    [said] = caplog.messages
    assert "there are 4 topics: 3 of them have metrics of their own" in said
    assert "metric_series_max" in said


def test_topics_that_live_have_the_series_of_those_that_were_deleted() -> None:
    limit, by_name = SeriesLimit(3), NameCounts()

    def told() -> dict[str, int]:
        return limit.limit_counts("sent", "topics", by_name.copy_counts())

    for number in range(5):
        by_name.add_count(f"topic-{number}", 10)
    assert told() == {"topic-0": 10, "topic-1": 10, "topic-2": 10, OTHER: 20}
    by_name.forget_name("topic-0")
    by_name.forget_name("topic-4")
    by_name.add_count("topic-3", 1)
    assert told() == {"topic-1": 10, "topic-2": 10, "topic-3": 1, OTHER: 20}, "of topic-3 10 were told as other"
    by_name.forget_name("topic-3")
    by_name.add_count("topic-3", 2)  # one that was made again
    assert told() == {"topic-1": 10, "topic-2": 10, "topic-3": 2, OTHER: 20}
    by_name.forget_name("topic-1")
    by_name.add_count("topic-1", 0)  # a poll that found nothing any more
    assert told() == {"topic-2": 10, "topic-3": 2, OTHER: 20}
    assert by_name.total_count() == 53


@given(steps=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), max_size=60))
def test_no_counter_falls_while_its_topic_lives_and_the_oldest_have_series(steps: list[tuple[int, int]]) -> None:
    """0 deletes the topic, else so many are counted."""
    limit, by_name = SeriesLimit(2), NameCounts()
    before: dict[str, int] = {}
    for number, count in steps:
        name = f"topic-{number}"
        if count:
            by_name.add_count(name, count)
        else:
            by_name.forget_name(name)
            before.pop(name, None)
        told = limit.limit_counts("sent", "topics", by_name.copy_counts())
        assert all(told.get(each, 0) >= value for each, value in before.items())
        assert len(told.keys() - {OTHER}) == min(2, len(by_name.copy_counts()))
        assert told.keys() - {OTHER} <= by_name.copy_counts().keys()
        before = told


def test_groups_have_a_zero_before_they_have_a_count_as_far_as_there_is_room() -> None:
    limit, counts = SeriesLimit(3), {"a": 7}
    assert limit.add_zeros(limit.limit_counts("dead", "groups", counts), counts, ["b", "a", "c", "d"]) == {
        "a": 7,
        "b": 0,
        "c": 0,
    }


def test_of_many_lags_the_largest_are_told_by_name(caplog: pytest.LogCaptureFixture) -> None:
    limit = SeriesLimit(100)
    lags = [GroupLag("group", f"topic-{number}", number, 1, 10 * number) for number in range(103)]
    for _ in range(2):
        told = limit.limit_lags(lags)
    assert len(told) == 101
    assert told[0].messages == 102
    assert told[-1] == GroupLag(OTHER, OTHER, 0 + 1 + 2, 3, 20)
    assert sum(lag.messages for lag in told) == sum(lag.messages for lag in lags)
    [said] = caplog.messages
    assert "there are 103 pairs of topic and group" in said


def test_a_client_with_two_streams_is_one_client() -> None:
    front = FrontFigures()
    for client_id in ("a", "a", "b"):
        front.count_stream(client_id)
    assert (front.clients, front.streams) == (2, 3)
    front.uncount_stream("a")
    assert (front.clients, front.streams) == (2, 2)
    front.uncount_stream("a")
    assert (front.clients, front.streams) == (1, 1)
