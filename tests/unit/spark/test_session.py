"""What a pipeline's session is made of, what it says when it can't be, and errors of Spark in one line."""

import os
from pathlib import Path

import pytest

from pyspark_ternmq.pipelines.sessions.session import (
    SparkMissing,
    error_line,
    find_java,
    local_cores,
    settings_for,
    spark_session,
)

OF_A_SOURCE = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [PYTHON_DATA_SOURCE_ERROR] Failed:
Traceback (most recent call last):
  File "runner.py", line 258, in main
    raise TransportError("first")
ternmq.errors.TransportError: first

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "stream.py", line 41, in latestOffset
    raise DataLoss("...")
pyspark_ternmq.source.reading.DataLoss: topic orders, queue b/0: offsets 3 to 7 are gone
"""
WHILE_HANDLING = """
During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "runner.py", line 295, in main
UnboundLocalError: cannot access local variable 'reader' where it is not associated with a value
 SQLSTATE: 38000
"""


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("no_java")
def test_without_java_one_line_says_what_to_install() -> None:
    with pytest.raises(SparkMissing, match=r"Java 17 .*: apt install openjdk-17-jre-headless") as missing:
        spark_session("test")
    assert "\n" not in str(missing.value)


@pytest.mark.usefixtures("no_java")
def test_java_is_looked_for_where_spark_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert find_java() is None
    on_path, at_home = tmp_path / "java", tmp_path / "home" / "bin" / "java"
    at_home.parent.mkdir(parents=True)
    for program in (on_path, at_home):
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    assert find_java() == str(on_path)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == str(at_home)
    # Spark does not fall back to the PATH either.
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert find_java() is None


def test_a_local_session_has_small_shuffles_and_no_web_interface() -> None:
    assert settings_for("local[3]")["spark.sql.shuffle.partitions"] == "3"
    assert settings_for("local[64]")["spark.sql.shuffle.partitions"] == "8"
    assert settings_for("local[2]")["spark.ui.enabled"] == "false"


@pytest.mark.parametrize("master", ["spark://host:7077", "k8s://host", None])
def test_on_a_cluster_its_own_settings_hold(master: str | None) -> None:
    assert not settings_for(master).keys() & {"spark.ui.enabled", "spark.sql.shuffle.partitions", "spark.driver.host"}


def test_cores_of_a_local_master(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    wanted = {"local": 1, "local[1]": 1, "local[12]": 12, "local[*]": 6, "local[4, 2]": 4, "local[*,3]": 6}
    assert {master: local_cores(master) for master in wanted} == wanted


@pytest.mark.parametrize("text", [OF_A_SOURCE, OF_A_SOURCE + WHILE_HANDLING])
def test_the_words_of_the_error_in_python_stand_for_all(text: str) -> None:
    assert error_line(RuntimeError(text)) == "topic orders, queue b/0: offsets 3 to 7 are gone"


def test_the_innermost_cause_is_told() -> None:
    outer, inner = RuntimeError("Job aborted"), RuntimeError(OF_A_SOURCE)
    outer.__cause__ = inner
    assert error_line(outer).startswith("topic orders")


def test_a_refusal_without_a_traceback_is_its_words() -> None:
    text = (
        "[PYTHON_DATA_SOURCE_ERROR] Failed: pyspark_ternmq.source.offsets.loss.DataLoss: 17 messages were lost: "
        "topic a\n SQLSTATE: 38000"
    )
    assert error_line(RuntimeError(text)) == "17 messages were lost: topic a"
    assert error_line(RuntimeError("ternmq.errors.NotFound: TOPIC_NOT_FOUND: there is no topic 'a'")) == (
        "TOPIC_NOT_FOUND: there is no topic 'a'"
    )


def test_a_call_that_failed_in_a_function_of_each_batch_is_told_by_its_innermost_cause() -> None:
    text = """[STREAM_FAILED] Query [id = 7] terminated with exception: An exception was raised by the Python Proxy.
Return Message: Traceback (most recent call last):
  File "job.py", line 7, in _write
    frame.write.parquet(folder)
py4j.protocol.Py4JJavaError: An error occurred while calling o901.parquet.
: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows.
\tat org.apache.spark.sql.Rows.write(Rows.scala:1)
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
\t... 17 more
"""
    assert error_line(RuntimeError(text)) == "java.io.IOException: No space left on device"
    without_cause = text.partition("Caused by")[0]
    assert error_line(RuntimeError(without_cause)) == (
        "org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows."
    )
    bare = without_cause.partition("\n: org")[0]
    assert error_line(RuntimeError(bare)) == "An error occurred while calling o901.parquet."


def test_an_error_of_spark_is_its_first_line() -> None:
    error = RuntimeError("[UNRESOLVED_COLUMN.X] A column `a` cannot be resolved. SQLSTATE: 42703;\n'Project ['a]\n")
    assert error_line(error) == "A column `a` cannot be resolved. SQLSTATE: 42703;"
    unknown = RuntimeError("An error occurred while calling o17.start.\n: java.io.IOException: disk full\n\tat org.x\n")
    assert error_line(unknown) == "java.io.IOException: disk full"
    assert error_line(RuntimeError()) == "RuntimeError"
