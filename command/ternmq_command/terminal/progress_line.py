"""A line on standard error that shows the progress of a long call to a person at a terminal."""

import sys
import time
from typing import Self

from ternmq_command.terminal.output import format_count
from ternmq_command.terminal.printing import echo, overwrite_line

INTERVAL_S = 0.5


class ProgressLine:
    """Counts messages, and shows their number and rate.

    `verb` says what is done with them; `where` follows their number in the last line. During the call, nothing is
    written if standard error is no terminal, or if the line would stand between other lines (`is_quiet`). After a call
    that failed before the first message, nothing is written at all.
    """

    def __init__(self, verb: str, where: str, *, total: int | None = None, is_quiet: bool = False) -> None:
        self._verb, self._where, self._total = verb, where, total
        self._is_shown = not is_quiet and sys.stderr is not None and sys.stderr.isatty()
        self._began_s = self._written_s = time.monotonic()
        self._has_written = False
        self.count = 0

    def add_messages(self, count: int) -> None:
        self.count += count
        now_s = time.monotonic()
        if self._is_shown and now_s - self._written_s >= INTERVAL_S:
            self._written_s, self._has_written = now_s, True
            of = "" if self._total is None else f" of {self._total:,}"
            rate = self.count / (now_s - self._began_s)
            overwrite_line(f"{self._verb} {self.count:,}{of} messages, {rate:,.0f}/s ")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Write how many messages there were and how long they took, on a line of its own."""
        if self._has_written:
            echo(err=True)
        if kind is not None and not self.count:
            return
        took_s = time.monotonic() - self._began_s
        echo(f"{self._verb} {format_count(self.count, 'message')} {self._where} in {took_s:.2f} s", err=True)
