"""A Spark of the tests' own, and an embedded stack for it to talk to."""

import os
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from ternmq.testing import Stack
from tests.support.spark import QUICK_SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here starts Spark. A time that is over in the middle of a call leaves the answer to the next one, so
    that all tests after it fail: a busy machine is not to come to that."""
    for item in items:
        if "tests/spark/" in item.nodeid:
            item.add_marker(pytest.mark.spark)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """One session for all tests of a process: another one takes four seconds."""
    from pyspark.sql import SparkSession

    from pyspark_ternmq.pipelines.worker_python import choose_worker_python

    choose_worker_python(os.environ, is_local=True)
    session = SparkSession.builder.master("local[2]").appName("tests").config(map=QUICK_SETTINGS).getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    with Stack(test_clock=False) as running:
        yield running


@pytest.fixture
def clocked() -> Iterator[Stack]:
    """A broker whose time goes on when a test says so."""
    with Stack() as running:
        yield running


@pytest.fixture
def new_topic(stack: Stack) -> Callable[..., str]:
    """Makes a topic under a name that no other test has; the keywords are those of `Stack.create_topic`."""

    def make(**wanted: object) -> str:
        name = f"topic-{uuid.uuid4().hex[:12]}"
        stack.create_topic(name, **wanted)  # type: ignore[arg-type]
        return name

    return make
