"""Slices of time: every row is in one, in order, and none is too large."""

from collections import Counter
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from pyspark_ternmq.pipelines.replaying.slices import SlicePace, TimeSlice, by_rows, by_time, join_slices

TIMES = st.lists(st.integers(0, 10**14) | st.integers(0, 50), min_size=1, max_size=200)


def counter(times: list[int]):  # type: ignore[no-untyped-def]  # noqa: ANN201
    def count(start_us: int, end_us: int, width_us: int) -> list[tuple[int, int]]:
        return list(Counter((time - start_us) // width_us for time in times if start_us <= time < end_us).items())

    return count


def whole(times: list[int]) -> TimeSlice:
    return TimeSlice(min(times), max(times) + 1, len(times))


@given(times=TIMES, rows_max=st.integers(1, 50))
@example(times=[5] * 10, rows_max=3)
@example(times=[0, 10**14], rows_max=1)
def test_every_row_is_in_one_slice_and_no_slice_is_too_large(times: list[int], rows_max: int) -> None:
    slices = by_rows(whole(times), rows_max, counter(times))
    assert all(one.end_us <= other.start_us for one, other in pairwise(slices))
    for one in slices:
        inside = [time for time in times if one.start_us <= time < one.end_us]
        assert len(inside) == one.rows > 0
        assert one.rows <= rows_max or len(set(inside)) == 1
    assert sum(one.rows for one in slices) == len(times)


@given(times=TIMES, width_us=st.integers(1, 10**13))
def test_slices_of_one_width_have_every_row(times: list[int], width_us: int) -> None:
    slices = by_time(whole(times), width_us, counter(times))
    assert sum(one.rows for one in slices) == len(times)
    assert all(0 < one.end_us - one.start_us <= width_us and one.rows for one in slices)
    assert all(one.end_us <= other.start_us for one, other in pairwise(slices))


def test_nothing_makes_no_slices() -> None:
    assert by_rows(TimeSlice(0, 1, 0), 10, counter([])) == []
    assert by_time(TimeSlice(0, 1, 0), 10, counter([])) == []


@given(sizes=st.lists(st.integers(1, 20), max_size=50), rows_max=st.integers(1, 30))
def test_neighbours_are_put_together_in_order(sizes: list[int], rows_max: int) -> None:
    slices = [TimeSlice(place, place + 1, rows) for place, rows in enumerate(sizes)]
    groups = join_slices(slices, rows_max)
    assert [one for group in groups for one in group] == slices
    assert all(len(group) == 1 or sum(one.rows for one in group) <= rows_max for group in groups)


def test_a_slice_is_due_when_its_last_row_is() -> None:
    pace = SlicePace(speed=2.0, first_us=1_000_000, started_s=100.0)
    assert pace.due_s(TimeSlice(1_000_000, 3_000_000, 1)) == 101.0
    assert pace.due_s(TimeSlice(9_000_000, 11_000_000, 1)) == 105.0
