"""Offsets cut into tasks, and micro-batches held within a limit."""

from collections import defaultdict
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from pyspark_ternmq.source.offsets.splitting import QueueRange, limit_end, split_ranges

if TYPE_CHECKING:
    from pyspark_ternmq.source.offsets.places import Offsets

RANGES = st.lists(
    st.builds(
        lambda number, start, size: QueueRange("orders", f"broker/{number}", start, start + size),
        st.integers(0, 5),
        st.integers(0, 1000),
        st.integers(0, 500),
    ),
    max_size=6,
    unique_by=lambda wanted: wanted.queue,
)


def offsets_of(ranges: list[QueueRange]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for wanted in ranges:
        found[wanted.queue] += range(wanted.start, wanted.stop)
    return dict(found)


@given(
    ranges=RANGES,
    min_partitions=st.none() | st.integers(1, 40),
    max_records=st.none() | st.integers(1, 300),
)
def test_every_offset_is_in_one_task_and_in_order(
    ranges: list[QueueRange], min_partitions: int | None, max_records: int | None
) -> None:
    pieces = split_ranges(ranges, min_partitions=min_partitions, max_records=max_records)
    assert offsets_of(pieces) == {queue: offsets for queue, offsets in offsets_of(ranges).items() if offsets}
    assert all(piece.range_size > 0 for piece in pieces)
    total = sum(wanted.range_size for wanted in ranges)
    assert len(pieces) >= min(min_partitions or 0, total)
    assert all(piece.range_size <= (max_records or total) for piece in pieces)


def test_a_queue_is_one_task_unless_more_are_wanted() -> None:
    ranges = [QueueRange("orders", "broker/0", 0, 90), QueueRange("orders", "broker/1", 5, 15)]
    assert split_ranges(ranges, min_partitions=None, max_records=None) == ranges
    assert split_ranges(ranges, min_partitions=2, max_records=None) == ranges
    pieces = split_ranges(ranges, min_partitions=10, max_records=None)
    assert [piece.range_size for piece in pieces] == [10] * 10


PLACES = st.dictionaries(
    st.sampled_from(["orders", "payments"]),
    st.dictionaries(
        st.sampled_from(["a/0", "a/1", "b/0"]), st.tuples(st.integers(0, 100), st.integers(0, 1000)), min_size=1
    ),
    min_size=1,
)


@given(places=PLACES, rows_max=st.integers(1, 500))
def test_a_limit_is_kept_and_used_up(places: dict[str, dict[str, tuple[int, int]]], rows_max: int) -> None:
    start: Offsets = {topic: {name: first for name, (first, _) in of.items()} for topic, of in places.items()}
    end: Offsets = {topic: {name: first + size for name, (first, size) in of.items()} for topic, of in places.items()}
    total = sum(size for of in places.values() for _, size in of.values())
    taken = limit_end(start, end, rows_max)
    sizes = {(topic, name): taken[topic][name] - start[topic][name] for topic, of in places.items() for name in of}
    assert sum(sizes.values()) == min(total, rows_max)
    for (topic, name), size in sizes.items():
        assert 0 <= size <= places[topic][name][1]
    waiting = [place for place in sizes if places[place[0]][place[1]][1] > 0]
    if rows_max >= len(waiting):
        assert all(sizes[place] > 0 for place in waiting)


def test_small_queues_are_not_forgotten_beside_a_large_one() -> None:
    start: Offsets = {"orders": {"a/0": 0, "a/1": 0, "b/0": 0}}
    end: Offsets = {"orders": {"a/0": 1000, "a/1": 1, "b/0": 1}}
    assert limit_end(start, end, 3) == {"orders": {"a/0": 1, "a/1": 1, "b/0": 1}}
    assert limit_end(start, end, 1) == {"orders": {"a/0": 1, "a/1": 0, "b/0": 0}}


def test_a_queue_that_ends_before_its_start_keeps_its_end() -> None:
    start: Offsets = {"orders": {"a/0": 100, "a/1": 0}}
    assert limit_end(start, {"orders": {"a/0": 3, "a/1": 50}}, 10) == {"orders": {"a/0": 3, "a/1": 10}}
