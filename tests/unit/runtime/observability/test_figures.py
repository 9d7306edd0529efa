"""Counts and durations: what they hold, and that they hold no more than they should."""

from hypothesis import given
from hypothesis import strategies as st

from ternmq_runtime.observability.durations import DURATION_BOUNDS_S, Durations
from ternmq_runtime.observability.figures import OTHER, TOPICS_MAX, ByTopic, FrontFigures, Lag
from ternmq_runtime.observability.samples import PAIRS_MAX, bounded


@given(seconds=st.lists(st.floats(0, 100)))
def test_a_duration_is_counted_below_the_first_bound_that_it_does_not_pass(seconds: list[float]) -> None:
    durations = Durations()
    for each in seconds:
        durations.record(each)
    for number, bound in enumerate(DURATION_BOUNDS_S):
        assert sum(durations.counts[: number + 1]) == sum(each <= bound for each in seconds)
    assert sum(durations.counts) == len(seconds)
    assert durations.total_s == sum(seconds)
    assert (durations.shortest_s, durations.longest_s) == (min(seconds, default=float("inf")), max(seconds, default=0))


def test_topics_beyond_the_limit_are_counted_together() -> None:
    by_topic = ByTopic()
    for number in range(TOPICS_MAX + 5):
        by_topic.add(f"topic-{number}", 2)
    by_topic.add("topic-0")
    counts = by_topic.counts()
    assert (len(counts), counts["topic-0"], counts[OTHER]) == (TOPICS_MAX + 1, 3, 10)
    assert by_topic.total() == 2 * (TOPICS_MAX + 5) + 1


def test_of_many_lags_the_largest_are_told_by_name() -> None:
    lags = [Lag("group", f"topic-{number}", number, 1) for number in range(PAIRS_MAX + 3)]
    told = bounded(lags)
    assert len(told) == PAIRS_MAX + 1
    assert told[0].messages == PAIRS_MAX + 2
    assert told[-1] == Lag(OTHER, OTHER, 0 + 1 + 2, 3)
    assert sum(lag.messages for lag in told) == sum(lag.messages for lag in lags)


def test_a_client_with_two_streams_is_one_client() -> None:
    front = FrontFigures()
    for client_id in ("a", "a", "b"):
        front.stream_began(client_id)
    assert (front.clients, front.streams) == (2, 3)
    front.stream_ended("a")
    assert (front.clients, front.streams) == (2, 2)
    front.stream_ended("a")
    assert (front.clients, front.streams) == (1, 1)
