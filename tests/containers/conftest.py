"""The image of this checkout, and containers that run it."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ternmq.testing.containers import TernmqContainer

# The reaper of testcontainers is an image from a registry; what these tests start, they remove themselves.
os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")

ROOT = Path(__file__).parents[2]
IMAGE = "ternmq:tests"


@pytest.fixture(scope="session")
def image() -> str:
    """The name of the image, built from the files of this checkout."""
    if shutil.which("docker") is None:
        pytest.fail("docker is missing: run these tests by tests/containers/with_docker.sh, as tools/check does")
    built = subprocess.run(
        ["docker", "build", "--tag", IMAGE, "."],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout[-5000:]
    return IMAGE


@pytest.fixture(scope="module")
def broker(image: str) -> Iterator[TernmqContainer]:
    """A broker that the tests of a module share."""
    with TernmqContainer(image) as running:
        yield running
