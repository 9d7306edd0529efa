"""One call of `ternmq mirror`: opens both clusters, shows its progress, stops at a signal, and prints a summary."""

import asyncio
import signal
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from ternmq_command.calls.remoting_calls import RemotingAccess
from ternmq_command.exit_codes import INTERRUPTED
from ternmq_command.mirror.checkpoint import CheckpointFolder
from ternmq_command.mirror.copier import Shared
from ternmq_command.mirror.copies import Ways
from ternmq_command.mirror.mirroring import Mirroring, Wish
from ternmq_command.mirror.source import Source
from ternmq_command.mirror.target import Target
from ternmq_command.terminal.output import print_json_line
from ternmq_command.terminal.printing import echo, overwrite_line

_LINE_S, _LOG_S = 0.5, 60.0
_NOTE_S = 30.0
_NOTES_KEPT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorCall:
    """The arguments of the command line."""

    name_servers: list[str]
    source_access: RemotingAccess
    target_access: RemotingAccess
    source_name: str | None
    target_name: str
    skips_refused: bool
    rate: float
    state: Path | None
    wish: Wish
    as_json: bool


class Display:
    """Notes on standard error, the same one at most every `_NOTE_S` seconds; a line with lags and rate at a terminal,
    and one each minute elsewhere."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._shown_s = self._counted_s = time.monotonic()
        self._counted = 0
        self._has_line = False
        self._notes: dict[str, float] = {}

    def print_note(self, text: str) -> None:
        """Print a note."""
        now = time.monotonic()
        if now - self._notes.get(text, -_NOTE_S) < _NOTE_S:
            return
        if len(self._notes) >= _NOTES_KEPT:
            self._notes.clear()
        self._notes[text] = now
        self.end_line()
        echo(f"note: {text}", err=True)

    def show(self, mirroring: Mirroring) -> None:
        """Show how far it is."""
        now = time.monotonic()
        if now - self._shown_s < (_LINE_S if self._is_terminal else _LOG_S):
            return
        copied = mirroring.shared.counts.copied
        rate = (copied - self._counted) / (now - self._counted_s)
        self._counted, self._counted_s, self._shown_s = copied, now, now
        behind = sorted(((lag, topic) for topic, lag in mirroring.lags.items() if lag), reverse=True)
        named = ", ".join(f"{topic} {lag:,}" for lag, topic in behind[:3])
        text = f"copied {copied:,} messages, {rate:,.0f}/s, lag {sum(lag for lag, _ in behind):,}"
        text += f" ({named})" if named else ""
        if self._is_terminal:
            overwrite_line(f"{text:<78} ")
            self._has_line = True
        else:
            echo(text, err=True)

    def end_line(self) -> None:
        """End a line that is not whole."""
        if self._has_line:
            echo(err=True)
            self._has_line = False


def run_mirror(call: MirrorCall) -> None:
    """Mirror until a signal comes, or all is copied."""
    if asyncio.run(_run(call)) == signal.SIGINT:
        raise SystemExit(INTERRUPTED)


async def _run(call: MirrorCall) -> int:
    """Return the number of the signal that ended it, 0 for none."""
    display, ended_by = Display(), 0
    async with (
        Source(call.name_servers, call.source_access) as source,
        Target(call.wish.target, call.target_access) as target,
    ):
        await source.refresh()
        ways = Ways(source=call.source_name or source.cluster or "source", target=call.target_name)
        shared = Shared(source, target, ways, display.print_note, skips_refused=call.skips_refused, rate=call.rate)

        def stop(number: int) -> None:
            nonlocal ended_by
            ended_by = ended_by or number
            shared.stopping.set()

        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop, number)
        with nullcontext() if call.state is None else CheckpointFolder(call.state) as folder:
            mirroring = Mirroring(shared, call.wish, folder, display.show)
            try:
                await mirroring.run()
            finally:
                display.end_line()
                _print_result(mirroring, as_json=call.as_json)
    return ended_by


def _print_result(mirroring: Mirroring, *, as_json: bool) -> None:
    counts = mirroring.shared.counts
    record = {
        "copied": counts.copied,
        "lag": sum(mirroring.lags.values()),
        "lost": counts.lost,
        "doubles": mirroring.doubles,
        "looped": counts.looped,
        "changed": counts.changed,
        "refused": counts.refused,
        "moves": counts.moved_groups,
    }
    if as_json:
        print_json_line(record)
    else:
        echo(", ".join(f"{name} {count:,}" for name, count in record.items()))
