"""Each attack for a few seconds: what it does to others is bounded. The long run is `python -m tests.attacks`."""

import pytest

from tests.attacks.bars import GENEROUS
from tests.attacks.catalog import ATTACKS
from tests.attacks.measuring import measure
from tests.attacks.slow import TIMEOUTS

pytestmark = [pytest.mark.slow]

# With time limits, longer than those of `slow.py` with what they leave for grace.
LIMITED_S, SECONDS = 5.0, 3.0


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_costs_the_others_little(name: str) -> None:
    seconds = LIMITED_S if ATTACKS[name].environment == TIMEOUTS else SECONDS
    outcome = measure(name, seconds)
    assert GENEROUS.missed(outcome, seconds) == [], outcome
