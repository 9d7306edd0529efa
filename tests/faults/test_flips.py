"""One flipped byte anywhere in a stopped data directory; `python -m tests.faults.flips` does it a thousand times."""

from pathlib import Path

import pytest

from tests.faults import flips

pytestmark = [pytest.mark.slow]


def test_a_flipped_byte_loses_nothing_in_silence_and_forges_nothing(tmp_path: Path) -> None:
    outcomes = flips.run(tmp_path, 60, seed=20)
    assert [outcome for outcome in outcomes if outcome.is_bad] == []
    assert any(outcome.refused for outcome in outcomes)
    assert any(outcome.lost for outcome in outcomes), "some flips hit messages"
