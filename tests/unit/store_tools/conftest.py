import shutil
from pathlib import Path

import pytest

from tests.support.disk_store import fill


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with everything that a store may have; to be copied, not changed."""
    return fill(tmp_path_factory.mktemp("whole") / "data")


@pytest.fixture
def store_at(whole: Path, tmp_path: Path) -> Path:
    """A copy of it for one test."""
    shutil.copytree(whole, tmp_path / "data")
    return tmp_path / "data"
