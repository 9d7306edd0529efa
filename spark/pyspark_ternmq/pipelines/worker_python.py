"""The Python that Spark starts its workers with: quick to start, since Spark waits no longer than 10 s for some.

The zip     Spark puts `pyspark.zip` of its home before all else on a worker's path. A zip has no byte code and gets
            none, so every worker compiles what it imports of PySpark: 1.0 s of processor time instead of 0.4. That is
            room within the 10 s; the whole of a run, most of which is Java's, was not seen to become shorter.
Instead     workers of this machine are started by `worker-python.sh`, which takes the zip off the path and becomes the
            Python that this is; it imports the same PySpark from where it is installed.
Not if      the user chose the workers' Python, or Spark's home is not that of the installed PySpark: the zip
            may be of another release then.
"""

import os
import sys
from collections.abc import MutableMapping
from pathlib import Path

import pyspark

from pyspark_ternmq.worker_python import CHOSEN

WRAPPER = Path(__file__).with_name("worker-python.sh")
# Not TERNMQ_...: a broker that this process starts, as the demo does, refuses names that it does not know.
PYTHON_VARIABLE = "PYSPARK_TERNMQ_PYTHON"


def choose_worker_python(environment: MutableMapping[str, str], *, is_local: bool) -> None:
    """Set the workers' Python in the environment, before Java starts, unless it is set."""
    if "PYSPARK_PYTHON" in environment and environment["PYSPARK_PYTHON"] != environment.get(CHOSEN):
        return
    environment["PYSPARK_PYTHON"] = sys.executable
    installed = Path(pyspark.__file__).parent
    home = environment.get("SPARK_HOME")
    is_same_release = home is None or Path(home).resolve() == installed.resolve()
    # A package may have been copied without the bits that let a file be run.
    if is_local and is_same_release and installed.is_dir() and os.access(WRAPPER, os.X_OK):
        environment[PYTHON_VARIABLE] = sys.executable
        environment["PYSPARK_PYTHON"] = str(WRAPPER)
