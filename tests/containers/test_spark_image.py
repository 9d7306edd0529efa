"""The image of Spark: whose it is, what is in it, and what its entry point makes of its words."""

import os
import subprocess
from pathlib import Path

import click
import pytest

from ternmq_command.pipeline.commands import PIPELINES, command
from tests.containers.compose import ROOT, docker, inspected

pytestmark = [pytest.mark.containers, pytest.mark.slow, pytest.mark.timeout(900)]

MEGABYTE = 1_000_000
SIZE_MAX = 1200 * MEGABYTE
BOUNDS = ("--rm", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--network", "none")
ENTRY_POINT = ROOT / "deploy/docker/spark.sh"
MASTER = "spark://spark-master:7077"
DATA_SOURCES = """
import importlib.metadata, pyarrow.parquet, pyspark, pyspark_ternmq, ternmq.blocking
print(pyspark_ternmq.DefaultSource.name(), importlib.metadata.version("pyspark"))
"""
# The modules without it; in front of the path are the zips that Spark puts there.
WITHOUT_BYTE_CODE = """
import glob, os, sys
sys.path[:0] = glob.glob(os.path.join(os.environ["SPARK_HOME"], "python/lib/*.zip"))
import pyspark.daemon, pyspark.sql.streaming.python_streaming_source_runner, pyspark.worker, pyspark_ternmq
specs = [module.__spec__ for module in sys.modules.values() if getattr(module, "__spec__", None)]
sources = [spec for spec in specs if (spec.origin or "").endswith(".py")]
print(*[spec.name for spec in sources if not os.path.exists(spec.cached or "")] or ["none"])
"""


@pytest.fixture(scope="module")
def image() -> str:
    """Its name, built from the files of this checkout."""
    name = "ternmq-spark"
    dockerfile = ROOT / "deploy/docker/spark.Dockerfile"
    docker("build", "--tag", name, "--file", str(dockerfile), str(ROOT), timeout_s=800)
    return name


def test_its_user_is_a_number_that_owns_what_is_written(image: str) -> None:
    assert inspected(image)["Config"]["User"] == "10001"
    assert (
        docker("run", *BOUNDS, image, "stat", "-c", "%u:%g", "/lake", "/var/lib/spark").split() == ["10001:10001"] * 2
    )


def test_it_is_as_small_as_spark_lets_it_be(image: str) -> None:
    assert inspected(image)["Size"] < SIZE_MAX


def test_it_has_the_data_source_and_the_release_of_spark_that_the_project_asks_for(image: str) -> None:
    name, version = docker("run", *BOUNDS, image, "python3", "-c", DATA_SOURCES).split()
    assert name == "ternmq"
    assert tuple(int(part) for part in version.split(".")[:2]) >= (4, 2)


def test_what_a_worker_imports_has_byte_code(image: str) -> None:
    said = docker("run", *BOUNDS, image, "python3", "-c", WITHOUT_BYTE_CODE)
    assert said.split() == ["none"]


def test_driver_and_workers_have_one_python(image: str) -> None:
    variables = dict(each.split("=", 1) for each in inspected(image)["Config"]["Env"])
    assert docker("run", *BOUNDS, image, "sh", "-c", "command -v python3") == variables["PYSPARK_PYTHON"]


def test_pipelines_are_the_command(image: str) -> None:
    assert "ternmq pipeline lake --topics" in docker("run", *BOUNDS, image, "pipeline", "lake", "--help")


@pytest.mark.parametrize(
    ("words", "passed_on"),
    [
        (["pipeline", "lake", "--topics=a b"], ["pipeline", "lake", "--master", MASTER, "--topics=a b"]),
        (["pipeline", "--help"], ["pipeline", "--help"]),
        (["pipeline"], ["pipeline"]),
        (["ternmq", "version"], ["version"]),
    ],
)
def test_a_pipeline_runs_on_the_cluster_that_the_environment_names(
    tmp_path: Path, words: list[str], passed_on: list[str]
) -> None:
    program = tmp_path / "ternmq"
    program.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    program.chmod(0o755)
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SPARK_MASTER_URL": MASTER}
    said = subprocess.check_output(["sh", ENTRY_POINT, *words], env=variables, text=True, timeout=30)
    assert said.splitlines() == passed_on


@pytest.mark.parametrize("name", PIPELINES)
def test_every_pipeline_takes_the_master_that_the_entry_point_gives_it(name: str) -> None:
    pipeline = command.get_command(click.Context(command), name)
    assert pipeline is not None
    assert "--master" in {word for option in pipeline.params for word in option.opts}
