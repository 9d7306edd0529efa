"""Has Spark start its workers with this Python, where it would start another one.

Spark starts `python3` of the PATH for its workers, unless `PYSPARK_PYTHON` says which. In a virtual environment that
nobody activated, as under cron, systemd or an IDE, that is another Python, which does not have this package: Spark says
DATA_SOURCE_NOT_FOUND after half a minute. Java reads the variable when it is started, so this is for the import of the
package, before the session.
"""

import logging
import os
import shutil
import sys
from collections.abc import MutableMapping
from pathlib import Path

_log = logging.getLogger(__name__)
VARIABLES = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
CHOSEN = "PYSPARK_TERNMQ_CHOSEN_PYTHON"
"""The variable that marks a Python which this module chose, and not the user."""


def use_this_python() -> None:
    """Set the variable, or log a line that it is too late for that."""
    try:
        from pyspark import SparkContext
    except ImportError:
        return  # a client of Spark Connect alone, which starts neither Java nor workers
    # spark-submit has started Java already.
    is_java_up = "PYSPARK_GATEWAY_PORT" in os.environ or SparkContext._gateway is not None  # noqa: SLF001
    warning = choose_python(os.environ, sys.executable, shutil.which("python3"), is_java_up=is_java_up)
    if warning is not None:
        _log.warning("%s", warning)


def choose_python(
    environment: MutableMapping[str, str], executable: str, on_path: str | None, *, is_java_up: bool
) -> str | None:
    """Set the Python of Spark's workers in the environment, unless it is set, or `on_path` belongs to the same
    environment as this one. Returns the warning to log if it is too late."""
    if not executable or any(name in environment for name in VARIABLES) or _is_beside(executable, on_path):
        return None
    if is_java_up:
        return (
            f"Spark was started with {on_path or 'python3'} for its workers, which is not this Python: import "
            f"pyspark_ternmq before you create the session, or set PYSPARK_PYTHON={executable}"
        )
    environment["PYSPARK_PYTHON"] = environment[CHOSEN] = executable
    return None


def _is_beside(executable: str, on_path: str | None) -> bool:
    """Whether both are in one folder. Of a virtual environment the file itself is a link to the Python below it."""
    if on_path is None:
        return False
    try:
        return Path(on_path).parent.samefile(Path(executable).parent)
    except OSError:
        return False
