"""Formats the report at the end of the demo's second part."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ternmq_command.demo.lake.lake_account import LakeAccount
from ternmq_command.terminal.printing import echo_lines
from ternmq_common.printable import escape_line

CARRIERS_SHOWN = 8


@dataclass(frozen=True, slots=True)
class TableResult:
    """One table, its chart, and its finding."""

    name: str
    rows: Sequence[Mapping[str, Any]]
    table: Path
    chart: Path
    finding: str


@dataclass(frozen=True, slots=True)
class SparkOutput:
    """The results of the second part; `written` rows were added to the lake in this run, `seconds` are by step."""

    account: LakeAccount
    written: int
    batches: int
    seconds: Mapping[str, float]
    results: Sequence[TableResult]


def print_output(output: SparkOutput) -> None:
    echo_lines("\n" + output.account.summary_text() + "\n\n" + format_figures(output))
    _show_carriers(next(result.rows for result in output.results if result.name == "delays_by_carrier"))
    for result in output.results:
        echo_lines(f"{result.finding}\n  {result.table} ({len(result.rows):,} rows)\n  {result.chart}")


def format_figures(output: SparkOutput) -> str:
    seconds = output.seconds
    rate = f"{output.written / seconds['lake']:,.0f} rows/s" if output.written else "0 rows"
    if output.written:
        batches = "1 batch" if output.batches == 1 else f"{output.batches} batches"
        note = f"{output.written:,} rows in {seconds['lake']:.1f} s, {batches}"
    else:
        note = "an earlier run had written them all"
    times = ", ".join(f"{name} {seconds[name]:.1f} s" for name in ("start", "lake", "tables", "charts"))
    rows = (("lake", rate, note), ("time", f"{sum(seconds.values()):.1f} s", times))
    width = max(len(value) for _, value, _ in rows)
    return "\n".join(f"  {name:<10}{value:<{width}}   {note}" for name, value, note in rows)


def _show_carriers(rows: Sequence[Mapping[str, Any]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from pyspark_ternmq.demo.findings import display_name

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("departure delay, min", no_wrap=True)
    for head in ("flights", "median", "p90", "punctual", "cancelled"):
        table.add_column(head, justify="right")
    for row in sorted(rows, key=lambda row: -row["flights"])[:CARRIERS_SHOWN]:
        table.add_row(Text(escape_line(display_name(row))), *_carrier_cells(row))
    Console(highlight=False).print(table)


def _carrier_cells(row: Mapping[str, Any]) -> list[str]:
    flights, cancelled = f"{row['flights']:,}", f"{1 - row['departed'] / row['flights']:.1%}"
    if not row["departed"]:
        return [flights, "", "", "", cancelled]
    delays = (row["median_delay_minutes"], row["p90_delay_minutes"])
    return [flights, *(f"{delay:.0f}" for delay in delays), f"{row['punctual_share']:.0%}", cancelled]
