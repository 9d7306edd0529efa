"""What Spark's workers are started with, and what becomes of their path."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from pyspark_ternmq.pipelines.worker_python import PYTHON_VARIABLE, WRAPPER, choose_worker_python

INSTALLED = Path(pyspark.__file__).parent


@pytest.mark.parametrize("home", [{}, {"SPARK_HOME": str(INSTALLED)}])
def test_on_this_machine_workers_go_without_the_zip(home: dict[str, str]) -> None:
    environment = dict(home)
    choose_worker_python(environment, is_local=True)
    assert environment == {**home, "PYSPARK_PYTHON": str(WRAPPER), PYTHON_VARIABLE: sys.executable}


def test_a_broker_that_is_started_with_this_environment_does_not_refuse_it() -> None:
    environment = dict[str, str]()
    choose_worker_python(environment, is_local=True)
    assert not [name for name in environment if name.startswith("TERNMQ_")]


@pytest.mark.parametrize(
    ("given", "is_local"),
    [({}, False), ({"SPARK_HOME": "/opt/another-spark"}, True)],
    ids=["a cluster", "another Spark"],
)
def test_elsewhere_they_are_the_python_that_this_is(given: dict[str, str], *, is_local: bool) -> None:
    environment = dict(given)
    choose_worker_python(environment, is_local=is_local)
    assert environment == {**given, "PYSPARK_PYTHON": sys.executable}


def test_what_somebody_said_stays() -> None:
    environment = {"PYSPARK_PYTHON": "/usr/bin/python3.12"}
    choose_worker_python(environment, is_local=True)
    assert environment == {"PYSPARK_PYTHON": "/usr/bin/python3.12"}


@pytest.mark.parametrize(
    ("path", "left"),
    [
        (
            "/spark home/python/lib/pyspark.zip:/spark home/python/lib/py4j-0.10.9.9-src.zip:/core.jar:/mine",
            "/core.jar:/mine",
        ),
        ("/mine:/spark home/python/lib/pyspark.zip:/core.jar", "/mine:/spark home/python/lib/pyspark.zip:/core.jar"),
        ("/core.jar", "/core.jar"),
    ],
    ids=["Spark's own in front", "somebody's in front", "no zip"],
)
def test_only_the_zips_of_sparks_home_are_taken_off_the_path(path: str, left: str) -> None:
    show = "import os, sys; print(os.environ['PYTHONPATH'], sys.argv[1:])"
    environment = {"PATH": os.defpath, "SPARK_HOME": "/spark home", "PYTHONPATH": path, PYTHON_VARIABLE: sys.executable}
    command = [str(WRAPPER), "-c", show, "a b", "c"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{left} ['a b', 'c']\n"
