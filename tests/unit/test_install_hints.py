"""TernMQ is in no package index, so nothing may say that pip finds it there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = ("README.md", "docs", "k8s/README.md", "run", "clients", "common", "registry", "broker", "proxy", "spark")
BY_NAME = re.compile(r"pip install\s+(-\S+\s+)*['\"]?ternmq\b")


def texts(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    return [path for pattern in ("*.py", "*.md") for path in place.rglob(pattern)]


@pytest.mark.parametrize("place", PLACES)
def test_nothing_says_to_install_it_by_its_name(place: str) -> None:
    files = texts(ROOT / place)
    assert files
    assert [str(path) for path in files if BY_NAME.search(path.read_text())] == []
