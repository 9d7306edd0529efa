"""The mistakes that tests plant on purpose fit the code as it is.

Finding them takes minutes; whether they can be planted at all is known at once, and a renamed line shows up here first.
"""

from pathlib import Path

import pytest

from tests.mutations.__main__ import Mutation, read_mutations
from tests.simulation.planted.finding import Mistake, mistakes, plant_mistake

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutation", read_mutations(), ids=lambda mutation: mutation.name)
def test_a_mutation_fits_its_file(mutation: Mutation) -> None:
    assert (ROOT / mutation.file).read_text().count(mutation.code) == 1


@pytest.mark.parametrize("mistake", mistakes(), ids=lambda mistake: mistake.name)
def test_a_planted_mistake_fits_its_files(mistake: Mistake, tmp_path: Path) -> None:
    plant_mistake(mistake, tmp_path)
    assert mistake.seed is not None, "run `python -m tests.simulation.planted --renew NAME`"
