"""The progress line, on a terminal and elsewhere, and what it reads of Spark's reports."""

import io
from contextlib import suppress
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from pyspark_ternmq.pipelines.progress import (
    LINE_INTERVAL_S,
    SAME_LINE_INTERVAL_S,
    BatchErrors,
    ProgressLine,
    QueryPosition,
    follow_query,
)
from tests.support.hand_clock import Clock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def report(batch: int, rows: int, *, end: object = None, latest: object = None, rate: float = 0.0) -> dict[str, Any]:
    sources = [{"endOffset": end, "latestOffset": latest}]
    return {"batchId": batch, "numInputRows": rows, "processedRowsPerSecond": rate, "sources": sources}


class Query:
    """A query that has these reports when it is looked at, one look after the other, and then ends."""

    def __init__(self, *looks: list[dict[str, Any]], error: BaseException | None = None) -> None:
        self._looks, self._error, self._look = list(looks), error, 0
        self.is_stopped = False

    @property
    def recentProgress(self) -> list[dict[str, Any]]:  # noqa: N802 - Spark's name
        return self._looks[self._look]

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802
        return self.recentProgress[-1] if self.recentProgress else None

    def awaitTermination(self, timeout: float) -> bool:  # noqa: N802
        del timeout
        if self._look + 1 < len(self._looks):
            self._look += 1
            return False
        if self._error is not None:
            raise self._error
        return True

    def stop(self) -> None:
        self.is_stopped = True


def test_a_terminal_has_one_line_that_is_written_over() -> None:
    stream = Terminal()
    with ProgressLine("lake", stream=stream, now_s=Clock()) as line:
        line.update(QueryPosition(rows=12_000, rows_per_second=3999.6, batch=3, lag=17))
        line.show_progress("done")
    long = "lake: 12,000 rows  4,000 rows/s  batch 3  lag 17"
    assert stream.getvalue() == f"\r{long}\r{'lake: done'.ljust(len(long))}\n"


def test_elsewhere_what_is_not_new_is_said_once_a_minute() -> None:
    stream, clock = io.StringIO(), Clock()
    with ProgressLine("lake", stream=stream, now_s=clock) as line:
        for _ in range(int(2 * SAME_LINE_INTERVAL_S / LINE_INTERVAL_S)):
            clock.now_s += LINE_INTERVAL_S
            line.update(QueryPosition())
        line.update(QueryPosition(rows=10, rows_per_second=2, batch=0, lag=3))
        clock.now_s += LINE_INTERVAL_S
        line.update(QueryPosition(rows=10, rows_per_second=2, batch=0, lag=3))
    waiting = "lake: no batch has ended yet\n"
    assert stream.getvalue() == f"{waiting}{waiting}lake: 10 rows  2 rows/s  batch 0  lag 3\n"


def test_elsewhere_there_is_a_line_now_and_then() -> None:
    stream, clock = io.StringIO(), Clock()
    with ProgressLine("lake", stream=stream, now_s=clock) as line:
        line.show_progress("too early")
        clock.now_s += LINE_INTERVAL_S
        line.show_progress("one")
        line.show_progress("too early again")
        clock.now_s += LINE_INTERVAL_S
        line.show_progress("two")
    assert stream.getvalue() == "lake: one\nlake: two\n"


def test_what_is_said_stays() -> None:
    stream = Terminal()
    with ProgressLine("lake", stream=stream, now_s=Clock()) as line:
        line.show_progress("1")
        line.print_line("not compacted")
    assert stream.getvalue() == "\rlake: 1\nlake: not compacted\n"


def test_reports_are_counted_once_and_missed_ones_are_caught_up() -> None:
    first, second, third = report(0, 5, rate=2.0), report(1, 7), report(2, 11, rate=4.0)
    # A report of no rows has the number of the batch to come.
    idle = report(1, 0)
    query = Query([], [first], [first, idle], [first, idle, second, third])
    stream, heard = Terminal(), list[int]()
    with ProgressLine("p", stream=stream, now_s=Clock()) as line:
        follow_query(query, line, on_report=lambda found: heard.append(found["batchId"]))  # type: ignore[arg-type]
    shown = [text.strip() for text in stream.getvalue().split("\r") if text]
    assert shown[0] == "p: 5 rows  2 rows/s  batch 0"
    assert shown[-1] == "p: 23 rows  4 rows/s  batch 2"
    assert heard == [0, 1, 2]


def test_a_pipeline_may_count_by_itself() -> None:
    stream = Terminal()
    with ProgressLine("p", stream=stream, now_s=Clock()) as line:
        follow_query(Query([], [report(0, 5)]), line, rows=lambda: 99)  # type: ignore[arg-type]
    assert "99 rows" in stream.getvalue()


def test_ctrl_c_stops_the_query() -> None:
    query = Query([], error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt), ProgressLine("p", stream=io.StringIO(), now_s=Clock()) as line:
        follow_query(query, line)  # type: ignore[arg-type]
    assert query.is_stopped


def test_an_error_of_ours_comes_without_sparks_around_it() -> None:
    errors = BatchErrors(KeyError)

    def batch(error: Exception) -> None:
        with errors.note_errors():
            raise error

    def ended() -> None:
        with errors.raise_errors():
            raise StreamingQueryException("[STREAM_FAILED] pages of it")

    with suppress(ValueError):
        batch(ValueError("not one that says all"))
    with pytest.raises(StreamingQueryException):
        ended()
    with suppress(KeyError):
        batch(KeyError("refused"))
    with pytest.raises(KeyError, match="refused") as found:
        ended()
    assert found.value.__cause__ is None
    assert found.value.__suppress_context__
