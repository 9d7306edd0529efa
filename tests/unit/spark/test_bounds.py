"""What a batch is asked to read and can't."""

import logging
from typing import Any

import pytest

from pyspark_ternmq.options import WrongOption
from pyspark_ternmq.source.offsets.bounds import checked_range
from pyspark_ternmq.source.offsets.places import Offsets, ReadPlaces

EARLIEST, LATEST = ReadPlaces("earliest"), ReadPlaces("latest")
BEGINS, ENDS = {"orders": {"b/0": 10, "b/1": 0}}, {"orders": {"b/0": 20, "b/1": 5}}


def first(one: int, other: int) -> ReadPlaces:
    return ReadPlaces(each={"orders": {"b/0": one, "b/1": other}}, option="startingOffsets")


def last(one: int, other: int) -> ReadPlaces:
    return ReadPlaces(each={"orders": {"b/0": one, "b/1": other}}, option="endingOffsets")


def resolved(places: ReadPlaces) -> Offsets:
    told = {"orders": {name: places.offset_named("orders", name) for name in ENDS["orders"]}}
    known = BEGINS if places == EARLIEST else ENDS
    return {"orders": {name: known["orders"][name] if n is None else n for name, n in told["orders"].items()}}


def checked(start: ReadPlaces, stop: ReadPlaces, **how: Any) -> tuple[Offsets, Offsets]:  # noqa: ANN401
    return checked_range(start, stop, resolved(start), resolved(stop), ENDS, **{"strict": True, **how})


@pytest.mark.parametrize(
    ("start", "stop"),
    [
        (EARLIEST, LATEST),
        (first(20, 5), LATEST),
        (first(-1, 0), last(20, 0)),
        (first(12, 3), last(12, 5)),
        (first(3, 0), last(5, 1)),
        (EARLIEST, last(10, 0)),
    ],
)
def test_what_is_there_or_legally_empty_is_no_error(start: ReadPlaces, stop: ReadPlaces) -> None:
    """Nor what retention has removed: that is for the tasks to say, which know how much."""
    assert checked(start, stop) == (resolved(start), resolved(stop))


@pytest.mark.parametrize(
    ("start", "stop", "text"),
    [
        (first(21, 0), LATEST, "option startingOffsets: offset 21 is not there, topic orders, queue b/0 ends at 20"),
        (EARLIEST, last(20, 6), "option endingOffsets: offset 6 is not there, topic orders, queue b/1 ends at 5"),
        (
            first(15, 0),
            last(14, 5),
            "option endingOffsets: topic orders, queue b/0 is to be read up to 14, and from 15",
        ),
        (EARLIEST, last(9, 5), "up to 9, and from 10 on, as what was before is not there any more"),
    ],
)
def test_other_offsets_are_errors_or_lines_in_the_log(
    start: ReadPlaces, stop: ReadPlaces, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(WrongOption, match=r"failOnDataLoss to false$") as refused:
        checked(start, stop)
    assert text in str(refused.value)
    with caplog.at_level(logging.WARNING):
        started, stopped = checked(start, stop, strict=False)
    assert text in caplog.text
    for name, end in ENDS["orders"].items():
        assert started["orders"][name] <= stopped["orders"][name] <= end


def test_retention_that_passes_the_end_meanwhile_leaves_nothing() -> None:
    stop = {"orders": {"b/0": 12, "b/1": 5}}
    assert checked_range(
        EARLIEST, ReadPlaces("latest"), {"orders": {"b/0": 14, "b/1": 0}}, stop, ENDS, strict=True
    ) == (
        {"orders": {"b/0": 12, "b/1": 0}},
        stop,
    )
