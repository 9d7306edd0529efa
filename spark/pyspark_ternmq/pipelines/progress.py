"""How far a pipeline is: one line on standard error, written over itself on a terminal, now and then elsewhere.

Elsewhere   a line comes every five seconds if it says something new, and once a minute if it does not.

Rows        what the pipeline has taken in since it was started, and how many of them a second since the last batch.
Batch       number of the last micro-batch that is done.
Lag         offsets of all queues that the last batch left for later ones.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

from pyspark.errors import StreamingQueryException

from pyspark_ternmq.lag import lag_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

LINE_INTERVAL_S, SAME_LINE_INTERVAL_S = 5.0, 60.0
LOOK_INTERVAL_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPosition:
    """How far a query was when its last batch ended; None for what its source does not say."""

    rows: int = 0
    rows_per_second: float = 0.0
    batch: int | None = None
    lag: int | None = None

    def text(self) -> str:
        """`12,000 rows  4,000 rows/s  batch 3  lag 17`."""
        if not self.rows and self.batch is None:
            return "no batch has ended yet"
        parts = [f"{self.rows:,} rows", f"{self.rows_per_second:,.0f} rows/s"]
        if self.batch is not None:
            parts.append(f"batch {self.batch}")
        if self.lag is not None:
            parts.append(f"lag {self.lag:,}")
        return "  ".join(parts)


class ProgressLine:
    """Shows a pipeline's position while its `with` block runs.

    Invariant: after `say` and `__exit__` the cursor is at the start of a line. `batch` is the last reported one.
    """

    def __init__(self, name: str, *, stream: TextIO | None = None, now_s: Callable[[], float] = time.monotonic) -> None:
        self._name, self._stream, self._now_s = name, stream or sys.stderr, now_s
        self._is_terminal = self._stream.isatty()
        self._next_s = self._next_s_of_same = now_s() + LINE_INTERVAL_S
        self._last = ""
        self._width = 0
        self.batch: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_line()

    def update(self, position: QueryPosition) -> None:
        """Show how far a query is."""
        if position.batch is not None:
            self.batch = position.batch
        self.show_progress(position.text())

    def show_progress(self, text: str) -> None:
        """Show the line: at once on a terminal, elsewhere if the last line is old enough, and later if it is the
        same."""
        line = f"{self._name}: {text}"
        if self._is_terminal:
            self._write_text("\r" + line.ljust(self._width))
            self._width = len(line)
        elif self._now_s() >= (self._next_s if line != self._last else self._next_s_of_same):
            now_s = self._now_s()
            self._next_s, self._next_s_of_same = now_s + LINE_INTERVAL_S, now_s + SAME_LINE_INTERVAL_S
            self._last = line
            self._write_text(line + "\n")

    def print_line(self, text: str) -> None:
        """A line that stays."""
        self._end_line()
        self._write_text(f"{self._name}: {text}\n")

    def _end_line(self) -> None:
        if self._width:
            self._write_text("\n")
            self._width = 0

    def _write_text(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class BatchErrors:
    """An error of ours that the function of a batch raised: Spark shows it at the end of pages of traces.

    `kinds` are those that say all there is to say; others stay in Spark's error.
    """

    def __init__(self, *kinds: type[Exception]) -> None:
        self._kinds = kinds
        self._found: Exception | None = None

    @contextmanager
    def note_errors(self) -> Iterator[None]:
        """Around the function."""
        try:
            yield
        except self._kinds as error:
            self._found = error
            raise

    @contextmanager
    def raise_errors(self) -> Iterator[None]:
        """Around what waits for the query: the error itself instead of Spark's."""
        try:
            yield
        except StreamingQueryException:
            if self._found is None:
                raise
            # Without the frames of the thread that Spark called: they say nothing of what was refused.
            raise self._found.with_traceback(None) from None


def follow_query(
    query: "StreamingQuery",
    line: ProgressLine,
    *,
    rows: Callable[[], int] | None = None,
    on_report: Callable[[Mapping[str, Any]], None] = lambda report: None,
    on_look: Callable[[], None] = lambda: None,
) -> None:
    """Show a query's progress until it ends; raises the query's error, and stops the query at any other exception.

    `rows` counts for pipelines that know better than Spark what they took in; `on_report` hears of each batch's report.
    `on_look` is called about twice a second.
    """
    seen = _SeenReports(on_report)
    try:
        while not query.awaitTermination(LOOK_INTERVAL_S):  # type: ignore[arg-type]  # seconds, and parts of them
            on_look()
            line.update(seen.read_position(query, rows))
        line.update(seen.read_position(query, rows))
    except StreamingQueryException:
        raise  # it has ended by itself
    except BaseException:
        query.stop()
        raise


class _SeenReports:
    """Adds up Spark's reports about a query's batches, which Spark keeps for a while.

    A report of no rows says that nothing was there to read: it bears the number of the batch that comes next.
    """

    def __init__(self, on_report: Callable[[Mapping[str, Any]], None]) -> None:
        self._on_report = on_report
        self._rows, self._batch, self._rate = 0, -1, 0.0

    def read_position(self, query: "StreamingQuery", rows: Callable[[], int] | None) -> QueryPosition:
        last = query.lastProgress
        if last is None:
            return QueryPosition(rows=0 if rows is None else rows())
        # Each report costs dozens of calls into Java, so all are requested only if one was missed.
        for report in [last] if last["batchId"] <= self._batch + 1 else query.recentProgress:
            self._add_report(report)
        return QueryPosition(
            rows=self._rows if rows is None else rows(),
            rows_per_second=self._rate,
            batch=self._batch if self._batch >= 0 else None,
            lag=lag_of(last["sources"][0]) if last["sources"] else None,
        )

    def _add_report(self, report: Mapping[str, Any]) -> None:
        if report["numInputRows"] and report["batchId"] > self._batch:
            self._rows += report["numInputRows"]
            self._batch = report["batchId"]
            self._rate = _format_rate(report["processedRowsPerSecond"])
            self._on_report(report)


def _format_rate(value: float) -> float:
    """A batch of no time at all has no rate: Spark divides by zero then."""
    return value if 0 <= value < float("inf") else 0.0
