"""Pipelines start again by themselves when Spark could not start a Python worker in time.

The limit   Spark waits 10 s for the worker in which a stream's source plans, and has no setting for that. On a machine
            that is busy, or in a container with a part of a core, that may be too short, and the query ends.
Again       after this error alone; any other ends the pipeline. It goes on from its checkpoint, after waits that grow,
            as often in a row as the limit says: a batch that succeeds resets the count.
Report      is that of the last start: what the ones before it wrote was counted by them.
"""

import re
import time
from collections.abc import Callable
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from pyspark_ternmq.pipelines.progress import ProgressLine
from pyspark_ternmq.pipelines.sessions.session import error_texts

RESTARTS_MAX = 5
FIRST_WAIT_S = 2.0
"""Each wait is twice as long as the one before."""
# The second is that of a worker which a daemon forks, for which Spark waits twice for a minute.
_NOT_STARTED = (
    r"(?:org\.apache\.spark\.SparkException: Python worker failed to connect back\.|"
    r"java\.net\.SocketTimeoutException: Timed out while waiting for the Python worker to connect back.*)"
)
# As the cause of a query's error; and where Java shows what threw it, as in the errors of tasks and of calls.
_ALONE = re.compile(_NOT_STARTED)
_THROWN = re.compile(_NOT_STARTED + r"\n\s+at org\.apache\.spark\.api\.python\.PythonWorkerFactory\b")

ReportT = TypeVar("ReportT")


def restarted(
    run: Callable[[], ReportT],
    line: ProgressLine,
    *,
    has_checkpoint: bool = True,
    wait: Callable[[float], None] = time.sleep,
) -> ReportT:
    """The result of `run`, which is called again if no worker started: it has to be able to continue or start over."""
    restarts = 0
    while True:
        line.batch = None
        try:
            return run()
        except (PySparkException, Py4JError) as error:
            if line.batch is not None:
                restarts = 0
            if restarts == RESTARTS_MAX or not is_worker_start(error):
                raise
        restarts += 1
        line.print_line(
            "Spark could not start a Python worker in time (the machine is busy); starting again"
            f"{' from the checkpoint' if has_checkpoint else ''} ({restarts} of {RESTARTS_MAX})"
        )
        wait(FIRST_WAIT_S * 2 ** (restarts - 1))


def is_worker_start(error: BaseException) -> bool:
    """Whether Spark gave up waiting for a worker; a source that says the same words is not taken for it."""
    return any(_ALONE.fullmatch(text.strip()) or _THROWN.search(text) for text in error_texts(error))
