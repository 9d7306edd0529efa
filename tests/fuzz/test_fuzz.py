"""50,000 inputs at each run of the tests; the soak is `python -m tests.fuzz`."""

import contextlib

import pytest

from tests.fuzz.mutations import corpus
from tests.fuzz.running import Totals, run
from tests.fuzz.subject import Subject

pytestmark = pytest.mark.slow

SEEDS = 5
INPUTS = 10_000
# In which the same bytes come: in pieces, to a client that reads or does not.
WAYS = 10


def test_what_once_found_something_is_taken() -> None:
    with contextlib.closing(Subject()) as subject:
        for data in corpus():
            for seed in range(WAYS):
                subject.take(data, seed)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_a_client_says_the_server_keeps_to_the_rules(seed: int) -> None:
    totals = Totals()
    for _ in run(seed, INPUTS, totals):
        pass
    # Most of what is mutated must still be understood, and some of it must not.
    assert totals.answered > INPUTS // 2
    assert totals.closed > INPUTS // 20
