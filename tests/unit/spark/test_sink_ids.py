"""Derived message ids: the same for the same row of the same task, different for all others."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyspark_ternmq.sink.ids import DerivedIds
from ternmq import parse_message_id
from ternmq.messages.message import check_message_ids

SEEDS = st.text(min_size=1)
NUMBERS = st.integers(min_value=0, max_value=2**63 - 1)
ROWS = st.integers(min_value=0, max_value=2**40)
PLACES = st.tuples(SEEDS, NUMBERS, NUMBERS, ROWS)


def id_of(seed: str, partition: int, epoch: int, row: int) -> str:
    [message_id] = DerivedIds(seed, partition=partition, epoch=epoch).of_rows(row, 1)
    return message_id


@given(one=PLACES, other=PLACES)
@example(one=("1 s", 1, 2, 3), other=("s", 1, 2, 3))
@example(one=("s", 1, 23, 0), other=("s", 12, 3, 0))
@example(one=("s", 0, 0, 7), other=("s", 0, 0, 7 + 2**32))
def test_ids_are_equal_only_for_equal_places(one: tuple[str, int, int, int], other: tuple[str, int, int, int]) -> None:
    assert (id_of(*one) == id_of(*other)) == (one == other)


@given(place=PLACES)
def test_an_id_has_the_form_of_rocketmq_and_ends_with_the_row(place: tuple[str, int, int, int]) -> None:
    message_id = id_of(*place)
    parts = parse_message_id(message_id)
    assert parts is not None
    assert len(message_id) == 34
    assert message_id == message_id.upper()
    assert parts.sequence == place[-1] % 2**32
    assert parts.mac & (1 << 40), "the address of a group, so of no machine"
    check_message_ids([message_id], 1)


@given(seed=SEEDS, first=ROWS, sizes=st.lists(st.integers(min_value=0, max_value=50), max_size=5))
@example(seed="s", first=2**32 - 10, sizes=[5, 20])
def test_how_rows_are_cut_into_batches_changes_nothing(seed: str, first: int, sizes: list[int]) -> None:
    ids = DerivedIds(seed, partition=3, epoch=4)
    whole = ids.of_rows(first, sum(sizes))
    parts: list[str] = []
    for size in sizes:
        parts += ids.of_rows(first + len(parts), size)
    assert parts == whole
    assert len(set(whole)) == len(whole)


@pytest.mark.parametrize(
    ("seed", "partition", "epoch", "row", "expected"),
    [
        ("5f0c6f5e-6f10-4e0b-9c1e-0c8b3b1f0a11", 0, 0, 0, "01E9666FE69C52ED76AA6E535A00000000"),
        ("5f0c6f5e-6f10-4e0b-9c1e-0c8b3b1f0a11", 7, 12, 4711, "0165DF671A637C22684FD80CE900001267"),
    ],
)
def test_ids_stay_what_they_were_in_earlier_versions(
    seed: str, partition: int, epoch: int, row: int, expected: str
) -> None:
    assert id_of(seed, partition, epoch, row) == expected
