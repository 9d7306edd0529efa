"""Workers that do not come up in the 10 s that Spark waits for them, and what makes them come up sooner."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pyarrow import dataset

from ternmq.testing import Stack
from tests.support.spark import QUICK_JAVA, send_bodies

# Of the workers in which a stream's source plans, the first one comes too late and the second one not at all.
LATE_AND_GONE = """#!/bin/sh
case "$*" in
*python_streaming_source_runner*)
    echo start >>{starts}
    case $(wc -l <{starts}) in
    1) sleep 12 ;;
    2) exit 3 ;;
    esac ;;
esac
exec {python} "$@"
"""
WHERE = """
from pyspark_ternmq.pipelines.sessions.session import spark_session

def files(rows):
    import py4j
    import pyspark
    yield [pyspark.__file__, py4j.__file__]

spark = spark_session("test", is_quiet=True)
print(spark.sparkContext.parallelize([0], 1).mapPartitions(files).first())
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.long
def test_a_lake_starts_again_until_a_worker_comes_up(
    stack: Stack, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, bodies = new_topic(), [str(number) for number in range(50)]
    send_bodies(stack.endpoint, topic, bodies)
    starts, python = tmp_path / "starts", tmp_path / "python"
    python.write_text(LATE_AND_GONE.format(starts=starts, python=sys.executable))
    python.chmod(0o755)
    lake = ["-m", "ternmq_command.main", "pipeline", "lake", "--master", "local[2]"]
    words = ["--topics", topic, "--out", str(tmp_path / "lake"), "--endpoint", stack.endpoint, "--json"]
    done = run([*lake, *words], PYSPARK_PYTHON=str(python))
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if "rows/s" not in line]
    begin = (
        "lake: Spark could not start a Python worker in time (the machine is busy); starting again from the checkpoint"
    )
    assert said == [f"{begin} (1 of 5)", f"{begin} (2 of 5)"]
    assert len(starts.read_text().splitlines()) == 3
    assert json.loads(done.stdout)["rows"] == 50
    rows = dataset.dataset(tmp_path / "lake" / "data", format="parquet").to_table(columns=["body"])
    assert sorted(rows.column("body").to_pylist()) == sorted(body.encode() for body in bodies)


def test_workers_import_what_is_installed_and_not_a_zip_without_byte_code() -> None:
    done = run(["-c", WHERE], PYSPARK_SUBMIT_ARGS=f"--driver-java-options '{QUICK_JAVA}' pyspark-shell")
    assert done.returncode == 0, done.stderr
    assert ".zip" not in done.stdout
    assert "pyspark/__init__.py" in done.stdout


def run(words: list[str], **variables: str) -> "subprocess.CompletedProcess[str]":
    """With another Java than that of the tests, whose workers are settled."""
    given: Mapping[str, str] = {name: value for name, value in os.environ.items() if name not in SETTLED}
    return subprocess.run(
        [sys.executable, *words], env={**given, **variables}, capture_output=True, text=True, check=False
    )


SETTLED = ("PYSPARK_PYTHON", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
