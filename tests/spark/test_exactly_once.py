"""A short run of `tests.spark.chaos`: topic to topic to lake, with drivers and Python workers that are killed."""

from pathlib import Path

import pytest

from tests.spark import chaos


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ids_are_there_once_after_kills(tmp_path: Path) -> None:
    found = chaos.run(tmp_path, kills=4, messages=2000, seed=20)
    assert found.exactly_once, found
    assert found.kills >= 4, found
