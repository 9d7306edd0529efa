"""The image of this checkout, and containers that run it."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ternmq.blocking import Admin
from ternmq.testing.containers import TernmqContainer
from tests.containers.compose import REPLICAS, REPLICATED, SHARD, Stack, docker

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


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """All that starts by default, for tests that leave every service as they find it: healthy."""
    with Stack() as running:
        for service in ("load-balancer", "spark-worker"):
            running.wait_healthy(service)
        yield running


@pytest.fixture
def replicated(stack: Stack) -> Iterator[Stack]:
    """The same with a shard that has replicas, for as long as a test takes."""
    stack.up(*REPLICAS, profile=REPLICATED)
    try:
        for replica in REPLICAS:
            stack.wait_healthy(replica)
        yield stack
    finally:
        stack.compose("--profile", REPLICATED, "rm", "--stop", "--force", *REPLICAS)
        docker("volume", "rm", *(f"{stack.project}_{replica}" for replica in REPLICAS))
        with Admin(stack.endpoint) as admin:
            admin.remove_broker(SHARD, force=True)
