"""A Spark session for a pipeline, and its errors in one line.

Local       a pipeline that a person starts on one machine: no web interface, no host names, as many shuffle partitions
            as cores; any of it can be set otherwise by `config`.
Elsewhere   nothing is set but the name and UTC: the cluster's own settings hold.
Java        looked for where Spark's launcher looks (JAVA_HOME, then PATH) before it starts, since what the launcher
            says without one fills a screen.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TypeGuard

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from pyspark_ternmq.last_line import refusal_in
from pyspark_ternmq.pipelines.worker_python import choose_worker_python

DEFAULT_MASTER = "local[*]"
LOCAL_SHUFFLE_PARTITIONS_MAX = 8
JAVA_NEEDED = (
    "Spark needs Java 17 or later, and none was found by JAVA_HOME or PATH (Debian, Ubuntu: "
    "apt install openjdk-17-jre-headless)"
)
# The lines of a Python traceback that Spark passes on: the last one has the error's class and words.
_TRACEBACK = "Traceback (most recent call last):"
_WHILE_HANDLING = "During handling of the above exception, another exception occurred:"
_ERROR_LINE = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*): (?P<words>.+)$")
_OF_A_CALL = "An error occurred while calling "
# Java's error follows the line about a call, and each cause follows the one above it.
_JAVA_ERROR = re.compile(r"^(?:Caused by: |: )(?!py4j\.)(?P<words>\S.*)$", re.MULTILINE)
_CONDITION = re.compile(r"^\[[A-Z0-9_.]+\]\s*")


class SparkMissing(Exception):
    """Spark can't start here; the message says what to install."""


def spark_session(
    name: str, *, master: str | None = None, config: Mapping[str, str] | None = None, is_quiet: bool = False
) -> SparkSession:
    """The process's session; a new one if it has none. SparkMissing without Java.

    `master` is where it runs; without one it is the master of `spark-submit`, or this machine. `config` are settings of
    Spark, and take precedence over those set here. A quiet one leaves standard error to the pipeline: what Java and
    the workers write there is kept only to say why Java did not start.
    """
    # spark-submit has started Java already, and says there which master is meant. An active session is one of this
    # thread; whether the process has any, only the context tells.
    is_started = "PYSPARK_GATEWAY_PORT" in os.environ or SparkContext._active_spark_context is not None  # noqa: SLF001
    if not is_started and find_java() is None:
        raise SparkMissing(JAVA_NEEDED)
    if master is None and not is_started:
        master = DEFAULT_MASTER
    settings = {**settings_for(master), **({"spark.log.level": "OFF"} if is_quiet else {}), **(config or {})}
    choose_worker_python(os.environ, is_local=not is_started and is_local(master))
    if not is_started:
        _start_java(name, master or DEFAULT_MASTER, settings, is_quiet=is_quiet)
    builder: SparkSession.Builder = SparkSession.builder  # a property by a decorator that mypy can't look into
    builder = builder.appName(name).config(map=dict(settings))
    session = (builder if master is None else builder.master(master)).getOrCreate()
    session.sparkContext.setLogLevel(settings["spark.log.level"])
    return session


def _start_java(name: str, master: str, settings: Mapping[str, str], *, is_quiet: bool) -> None:
    conf = SparkConf(loadDefaults=False).setAppName(name).setMaster(master).setAll(list(settings.items()))
    with tempfile.TemporaryFile() as output:
        streams = {"stdout": output, "stderr": output} if is_quiet else {}
        try:
            gateway = launch_gateway(conf, streams)  # type: ignore[no-untyped-call]
        except PySparkRuntimeError as error:
            if error.getCondition() != "JAVA_GATEWAY_EXITED":
                raise
            output.seek(0)
            output_text = " ".join(output.read().decode(errors="replace").split())
            raise SparkMissing(
                f"Java ended before Spark was up (Java 17 or later is needed). {output_text}".strip()
            ) from error
    SparkContext(conf=conf, gateway=gateway)


def settings_for(master: str | None) -> dict[str, str]:
    """Return the default settings of a pipeline's session."""
    # Spark's warnings in a pipeline's life (a slow batch, a missing native library) are not for the terminal.
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
    }
    if is_local(master):
        settings |= {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(min(local_cores(master), LOCAL_SHUFFLE_PARTITIONS_MAX)),
        }
    return settings


def is_local(master: str | None) -> TypeGuard[str]:
    return master is not None and master.startswith("local")


def local_cores(master: str) -> int:
    """How many tasks run at once on `local`, `local[4]`, `local[*]`, `local[4, 2]`."""
    match = re.fullmatch(r"local(?:\[\s*(\d+|\*).*\])?", master)
    if match is None or match[1] is None:
        return 1
    return (os.cpu_count() or 1) if match[1] == "*" else max(int(match[1]), 1)


def find_java() -> str | None:
    """The program that Spark's launcher would run, or None."""
    if home := os.environ.get("JAVA_HOME"):
        program = Path(home) / "bin" / "java"
        return str(program) if os.access(program, os.X_OK) else None
    return shutil.which("java")


def error_line(error: BaseException) -> str:
    """An error of Spark as one line: the words of the error in Python that caused it, or the first of Spark's own.

    Spark wraps what a data source raises into several errors, with tracebacks of Python and of Java.
    """
    for text in error_texts(error):
        if (words := _last_of_traceback(text)) is not None:
            return words
        if (words := refusal_in(text)) is not None:
            return words
    # The first line of an error that Spark does not know says which call it was.
    lines = [line for line in str(error).splitlines() if line.strip() and not line.startswith(_OF_A_CALL)]
    return _CONDITION.sub("", lines[0].strip().removeprefix(": ")) if lines else type(error).__name__


def error_texts(error: BaseException | None) -> list[str]:
    """The error's text and those of its causes, the innermost first."""
    texts = list[str]()
    while error is not None:
        texts.append(str(error))
        error = getattr(error, "_cause", None) or error.__cause__
    return texts[::-1]


def _last_of_traceback(text: str) -> str | None:
    """The words of the last error of the last Python traceback in a text.

    What went wrong only because of it, as Spark's worker tidied up, counts for nothing.
    """
    _, found, rest = text.partition(_WHILE_HANDLING)[0].rpartition(_TRACEBACK)
    if not found:
        return None
    for line in rest.splitlines():
        # Lines of the traceback itself are indented; the first that is not names the error.
        if match := _ERROR_LINE.match(line):
            words = match["words"].strip()
            return _innermost_of_java(rest) or words if words.startswith(_OF_A_CALL) else words
    return None


def _innermost_of_java(text: str) -> str | None:
    """Return the innermost cause of a Java error in a text, if there is one."""
    found = [match["words"].strip() for match in _JAVA_ERROR.finditer(text)]
    return _CONDITION.sub("", found[-1]) if found else None
