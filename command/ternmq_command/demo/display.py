"""Shows the progress of the demo: bars in a terminal, a line every few seconds elsewhere."""

import sys
import time
from types import TracebackType
from typing import Protocol, Self

from ternmq_command.demo.ledger import Ledger
from ternmq_command.terminal.printing import echo
from ternmq_common.printable import escape_line

LINE_INTERVAL_S = 2.0


class DemoDisplay(Protocol):
    """Shows a ledger on standard error while its `with` block runs."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def update(self, ledger: Ledger) -> None: ...

    def show_text(self, text: str) -> None: ...


def display_for(wanted: int) -> DemoDisplay:
    return BarDisplay(wanted) if sys.stderr.isatty() else LineDisplay(wanted)


class LineDisplay:
    """Shows plain lines."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._next_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def update(self, ledger: Ledger) -> None:
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + LINE_INTERVAL_S
            percent = 100 * ledger.consumed_count // self._wanted
            self.show_text(
                f"sent {ledger.sent_count:,}  consumed {ledger.consumed_count:,} of {self._wanted:,} ({percent}%)"
            )

    def show_text(self, text: str) -> None:
        echo(f"demo: {text}", err=True)


class BarDisplay:
    """Shows one bar for sent and one for consumed messages, with each consumer's share."""

    def __init__(self, wanted: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description:<8}"),
            BarColumn(bar_width=40),
            TextColumn("{task.completed:>9,.0f}"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[note]}"),
        )
        self._bars = Progress(*columns, console=Console(stderr=True), refresh_per_second=8)
        self._sent = self._bars.add_task("sent", total=wanted, note="")
        self._consumed = self._bars.add_task("consumed", total=wanted, note="")

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def update(self, ledger: Ledger) -> None:
        shares = (f"consumer {number}: {count:,}" for number, count in sorted(ledger.by_consumer.items()))
        self._bars.update(self._sent, completed=ledger.sent_count, note=f"{ledger.sending.rate:,.0f}/s")
        note = f"{ledger.consuming.rate:,.0f}/s  {'  '.join(shares)}"
        self._bars.update(self._consumed, completed=ledger.consumed_count, note=note)

    def show_text(self, text: str) -> None:
        self._bars.console.print(escape_line(text), markup=False, highlight=False)
