"""A server in a process of its own for each test that wants no other."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.stack import Stack


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with Stack(tmp_path) as stack:
        yield stack
