"""Figures over the last hours: what a ring says is what was recorded in its slots, and never more than it may hold."""

from hypothesis import example, given
from hypothesis import strategies as st

from ternmq_common.shard.model import FigureHistory
from ternmq_runtime.observability.durations import DURATION_BOUNDS_S, DurationHistogram, quantile_s
from ternmq_runtime.observability.history_rings import LARGEST, SILENT_MIN, UNKNOWN, HistoryRings, combine_histories

STEP_MS = 1000
SLOTS = 8
VALUES = st.integers(0, 1 << 20).map(float)


def rings(series_max: int = 4) -> HistoryRings:
    return HistoryRings(step_ms=STEP_MS, slots=SLOTS, series_max=series_max)


@given(st.lists(st.tuples(st.integers(0, 12), VALUES), max_size=30), st.integers(0, 20))
def test_a_ring_says_what_was_recorded(steps: list[tuple[int, float]], later: int) -> None:
    """Against a dict, in which nothing is forgotten."""
    kept = rings()
    known: dict[int, float] = {}
    slot, begun = 100, False
    for passed, value in steps:
        slot += passed
        kept.record_values(slot * STEP_MS + 7, {"a": value})
        begun = begun or value > 0
        if begun:
            known[slot] = value
    end = slot + later
    found = kept.read_history(["a", "b"], end * STEP_MS + 9)
    assert (found.step_ms, found.end_ms) == (STEP_MS, end * STEP_MS)
    expected = [known.get(each, UNKNOWN) for each in range(end - SLOTS, end)]
    assert found.series == ({"a": expected} if begun and max(expected) > UNKNOWN else {})


@given(st.floats(0.001, 1e18))
def test_a_value_comes_back_as_exactly_as_four_bytes_allow(value: float) -> None:
    kept = rings()
    kept.record_values(0, {"a": value})
    told = kept.read_history("a", STEP_MS).series["a"][-1]
    assert abs(told - value) <= max(0.0006, value / (1 << 24))
    kept.record_values(STEP_MS, {"a": round(min(value, 1000.0), 3)})
    assert kept.read_history("a", 2 * STEP_MS).series["a"][-1] == round(min(value, 1000.0), 3)


def test_a_series_begins_with_something() -> None:
    kept = rings()
    kept.record_values(0, {"a": 0.0, "b": 1.0})
    assert list(kept.read_history(["a", "b"], STEP_MS).series) == ["b"]


def test_there_are_so_many_series_and_the_silent_make_room() -> None:
    kept = rings(series_max=2)
    kept.record_values(0, {"a": 2.0, "b": 3.0, "c": 1.0})
    for slot in range(1, SILENT_MIN + 1):
        kept.record_values(slot * STEP_MS, {"b": 1.0, "c": 1.0, "d": 2.0})
        expected = ["a", "b"] if slot < SILENT_MIN else ["b", "d"]
        assert list(kept.read_history("abcd", (slot + 1) * STEP_MS).series) == expected


def test_what_is_not_told_is_nothing() -> None:
    kept = rings()
    kept.record_values(0, {"a": 1.0})
    kept.record_values(STEP_MS, {"b": 1.0})
    assert kept.read_history("a", 2 * STEP_MS).series["a"][-2:] == [1.0, 0.0]


def test_a_clock_that_is_set_back_leaves_nothing_of_the_future() -> None:
    kept = rings()
    for slot in range(100, 105):
        kept.record_values(slot * STEP_MS, {"a": 1.0})
    kept.record_values(50 * STEP_MS, {"a": 3.0})
    assert kept.read_history("a", 51 * STEP_MS).series == {"a": [UNKNOWN] * 7 + [3.0]}


def test_processes_are_added_up_where_they_know_something() -> None:
    one = FigureHistory(step_ms=10, end_ms=100, series={"in": [1, 2, UNKNOWN, UNKNOWN], "oldest": [5, 1, 1, 1]})
    behind = FigureHistory(step_ms=10, end_ms=90, series={"in": [9, 10, UNKNOWN, 30], "oldest": [0, 2, 0, UNKNOWN]})
    other = FigureHistory(step_ms=99, end_ms=100, series={"in": [1000.0]})
    assert combine_histories([]) is None
    both = combine_histories([one, behind, other])
    assert both == FigureHistory(step_ms=10, end_ms=100, series={"in": [11, 2, 30, UNKNOWN], "oldest": [5, 1, 1, 1]})
    assert "oldest" in LARGEST


@given(st.lists(st.sampled_from([*DURATION_BOUNDS_S, 100.0]), min_size=1, max_size=200), st.sampled_from([0.5, 0.99]))
@example([100.0], 0.5)  # where all are longer than the last bound, the compiled form failed
def test_a_quantile_is_the_bound_of_its_value(values: list[float], share: float) -> None:
    durations = DurationHistogram()
    for value in values:
        durations.record_duration(value)
    exact = sorted(values)[max(0, -(-len(values) * round(share * 100) // 100) - 1)]
    assert quantile_s(durations.counts, share) == min(exact, DURATION_BOUNDS_S[-1])


def test_of_nothing_a_quantile_is_nothing() -> None:
    assert quantile_s(DurationHistogram().counts) == 0
