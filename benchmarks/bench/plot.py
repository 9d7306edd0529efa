"""Draws the ratios: a dot for the median, a line for the range, a mark for the target."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.bench.tables import Row

INCHES_PER_ROW = 0.28
WIDTH_INCHES = 11.0
COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:red")


def draw(rows: Sequence[Row], path: Path) -> None:
    """Write a PNG, or the format of the name's ending."""
    # Slow to import, and only needed here.
    from matplotlib.figure import Figure

    compared = [row for row in rows if row.ratios]
    figure = Figure(figsize=(WIDTH_INCHES, 1.5 + INCHES_PER_ROW * len(compared)), layout="constrained")
    axes = figure.subplots()
    peers = list(dict.fromkeys(str(row.peer) for row in compared))
    for place, row in enumerate(compared):
        colour = COLOURS[peers.index(str(row.peer)) % len(COLOURS)]
        axes.plot([min(row.ratios), max(row.ratios)], [place, place], color=colour, linewidth=2)
        axes.plot(statistics.median(row.ratios), place, marker="o", color=colour)
        if row.bar:
            axes.plot(row.bar.limit, place, marker="|", markersize=12, color="black")
    axes.axvline(1, color="grey", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yticks(
        range(len(compared)),
        [f"{row.case.work}: {row.case.name}, {row.figure}, {row.setup} / {row.peer}" for row in compared],
        fontsize=7,
    )
    axes.set_ylim(len(compared) - 0.5, -0.5)
    axes.set_xlabel("ratio: dot median, line range of the rounds, | bar")
    axes.grid(visible=True, axis="x", linewidth=0.3)
    figure.savefig(path, dpi=120)
