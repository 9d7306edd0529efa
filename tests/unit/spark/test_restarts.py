"""Which errors let a pipeline start again, how often, and what is told."""

import io

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from pyspark_ternmq.pipelines.progress import ProgressLine, QueryPosition
from pyspark_ternmq.pipelines.sessions.restarts import FIRST_WAIT_S, RESTARTS_MAX, is_worker_start, restarted

# As Spark 4.3 said it when a worker was kept from starting.
OF_A_QUERY = (
    "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Python worker failed to connect back. "
    "SQLSTATE: XXKST"
)
OF_ITS_CAUSE = "org.apache.spark.SparkException: Python worker failed to connect back."
OF_A_CALL = f"""An error occurred while calling o140.load.
: {OF_ITS_CAUSE}
\tat org.apache.spark.api.python.PythonWorkerFactory.createSimpleWorker(PythonWorkerFactory.scala:328)
"""
OF_A_TASK = f"""Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: Lost task 0.0
in stage 1.0 (TID 4) (127.0.0.1 executor driver): {OF_ITS_CAUSE}
\tat org.apache.spark.api.python.PythonWorkerFactory.createSimpleWorker(PythonWorkerFactory.scala:328)
"""
OF_A_BATCH = f"""[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: An exception was raised by the
Python Proxy. Return Message: Traceback (most recent call last):
  File "py4j/protocol.py", line 327, in get_return_value
    raise Py4JJavaError(
py4j.protocol.Py4JJavaError: {OF_A_CALL}"""
OF_A_DAEMON = (
    "java.net.SocketTimeoutException: Timed out while waiting for the Python worker to connect back after 60000 ms"
)
OF_A_SOURCE = f"""[PYTHON_DATA_SOURCE_ERROR] Failed when planning:
Traceback (most recent call last):
  File "stream.py", line 41, in latestOffset
    raise ValueError("...")
ValueError: {OF_ITS_CAUSE}
"""


def failure(text: str = OF_A_QUERY, cause: str | None = OF_ITS_CAUSE) -> PySparkException:
    error = PySparkException(text)
    error._cause = None if cause is None else PySparkException(cause)  # type: ignore[attr-defined]  # as Spark has it
    return error


class Pipeline:
    """Fails with these errors, one at each start, after so many batches; then it returns how often it was started."""

    def __init__(self, line: ProgressLine, *errors: Exception, batches: dict[int, int] | None = None) -> None:
        self._line, self._errors, self._batches = line, errors, batches or {}
        self.starts = 0

    def run(self) -> int:
        self.starts += 1
        self._line.update(QueryPosition())
        for number in range(self._batches.get(self.starts, 0)):
            self._line.update(QueryPosition(batch=number))
        if self.starts <= len(self._errors):
            raise self._errors[self.starts - 1]
        return self.starts


@pytest.fixture
def said() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def line(said: io.StringIO) -> ProgressLine:
    return ProgressLine("lake", stream=said, now_s=lambda: 0.0)


@pytest.mark.parametrize(
    "error",
    [failure(), failure(OF_A_TASK, None), Py4JError(OF_A_CALL), failure(OF_A_BATCH, None), failure("", OF_A_DAEMON)],
    ids=["a query", "a task", "a call", "a batch", "a daemon"],
)
def test_a_worker_that_did_not_come_up_is_known_by_what_spark_says(error: Exception) -> None:
    assert is_worker_start(error)


@pytest.mark.parametrize(
    "error",
    [
        failure(OF_A_SOURCE, None),
        failure(OF_A_QUERY, OF_A_SOURCE),
        failure("[STREAM_FAILED] Query terminated with exception: Python worker exited unexpectedly (crashed)", None),
        failure(f"[PARSE_SYNTAX_ERROR] Syntax error at '{OF_ITS_CAUSE}'", None),
    ],
    ids=["the words of a source", "with such a cause", "a worker that crashed", "the words of an expression"],
)
def test_any_other_error_is_not_taken_for_it(error: Exception) -> None:
    assert not is_worker_start(error)


def test_it_goes_on_after_waits_that_grow_and_says_so(line: ProgressLine, said: io.StringIO) -> None:
    waits = list[float]()
    pipeline = Pipeline(line, failure(), failure(), failure())
    assert restarted(pipeline.run, line, wait=waits.append) == 4
    assert waits == [FIRST_WAIT_S, 2 * FIRST_WAIT_S, 4 * FIRST_WAIT_S]
    begin = (
        "lake: Spark could not start a Python worker in time (the machine is busy); starting again from the checkpoint"
    )
    assert said.getvalue().splitlines() == [f"{begin} ({number} of {RESTARTS_MAX})" for number in (1, 2, 3)]


def test_without_a_checkpoint_none_is_told_of(line: ProgressLine, said: io.StringIO) -> None:
    restarted(Pipeline(line, failure()).run, line, has_checkpoint=False, wait=lambda duration_s: None)
    assert said.getvalue().endswith(f"starting again (1 of {RESTARTS_MAX})\n")


def test_after_so_many_in_a_row_the_error_ends_it(line: ProgressLine) -> None:
    pipeline = Pipeline(line, *[failure() for _ in range(RESTARTS_MAX + 1)])
    with pytest.raises(PySparkException, match="failed to connect back"):
        restarted(pipeline.run, line, wait=lambda duration_s: None)
    assert pipeline.starts == RESTARTS_MAX + 1


def test_a_batch_that_is_done_begins_the_count_anew(line: ProgressLine, said: io.StringIO) -> None:
    errors = [failure() for _ in range(2 * RESTARTS_MAX)]
    waits = list[float]()
    pipeline = Pipeline(line, *errors, batches={RESTARTS_MAX + 1: 1})
    assert restarted(pipeline.run, line, wait=waits.append) == 2 * RESTARTS_MAX + 1
    assert waits == [FIRST_WAIT_S * 2**number for number in range(RESTARTS_MAX)] * 2
    assert said.getvalue().count(f"(1 of {RESTARTS_MAX})") == 2


@pytest.mark.parametrize("error", [failure(OF_A_SOURCE, None), ValueError(OF_ITS_CAUSE), KeyboardInterrupt()])
def test_other_errors_end_it_at_once(error: Exception, line: ProgressLine, said: io.StringIO) -> None:
    pipeline = Pipeline(line, error)
    with pytest.raises(type(error)):
        restarted(pipeline.run, line, wait=lambda duration_s: None)
    assert (pipeline.starts, said.getvalue()) == (1, "")
