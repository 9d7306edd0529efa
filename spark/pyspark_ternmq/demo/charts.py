"""A chart of each table, as a PNG. The title says what the data says; the subtitle, what is shown.

The functions take a table's rows in its order, and return the title.
"""

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.patches import Patch

from pyspark_ternmq.demo.findings import (
    PUNCTUAL_MINUTES,
    WEEKDAYS,
    HourlyProfile,
    Row,
    carrier_finding,
    compared_first,
    display_name,
    few_flights,
    format_minutes,
    hourly_finding,
    route_finding,
    sum_rows,
)
from pyspark_ternmq.demo.style import (
    BLUES,
    DEEP,
    INK,
    LIGHT,
    MIDDLE,
    MUTED,
    WARM,
    columns_beside,
    draw_figure,
    horizontal_bars_frame,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROUTES_SHOWN = 20
AIRPORTS = {"EWR": "Newark", "JFK": "Kennedy", "LGA": "LaGuardia"}
AIRPORT_COLOURS = (DEEP, MIDDLE, LIGHT)
# From here on a cell of the heat map is dark enough for white figures.
DARK_CELL = 0.68


def hourly_departures(rows: Sequence[Row], file: Path) -> str:
    """Weekday by hour as a heat map, and below it the airports' shares of each hour."""
    profile = HourlyProfile.of(rows)
    departed = sum(row["departed"] for row in rows)
    subtitle = f"Departures per day by scheduled hour, New York time; mean of {departed:,} departures"
    title = hourly_finding(profile)
    with draw_figure(file, title=title, subtitle=subtitle) as figure:
        grid = figure.add_gridspec(
            2, 1, height_ratios=(7, 4), left=0.105, right=0.97, top=0.835, bottom=0.105, hspace=0.1
        )
        heat, airports = figure.add_subplot(grid[0]), figure.add_subplot(grid[1])
        _heat_map(heat, profile)
        _stacked_airports(airports, profile)
    return title


def _heat_map(axes: "Axes", profile: HourlyProfile) -> None:
    cells = [list(values) for values in profile.by_weekday.values()]
    most = max((value for row in cells for value in row), default=0.0)
    axes.imshow(cells, aspect="auto", cmap=BLUES, vmin=0, vmax=most)
    for line, row in enumerate(cells):
        for place, value in enumerate(row):
            colour = "white" if value > DARK_CELL * most else INK
            axes.text(place, line, _count_text(value), ha="center", va="center", color=colour, fontsize=11)
    axes.set_yticks(range(len(cells)), [WEEKDAYS[day] for day in profile.by_weekday])
    axes.set_xticks(range(len(profile.hours)), [f"{hour}:00" for hour in profile.hours])
    axes.xaxis.tick_top()
    # White lines between the cells.
    axes.set_xticks([place - 0.5 for place in range(1, len(profile.hours))], minor=True)
    axes.set_yticks([place - 0.5 for place in range(1, len(cells))], minor=True)
    axes.grid(which="minor", color="white", linewidth=2)
    axes.tick_params(which="minor", length=0)
    for edge in axes.spines.values():
        edge.set_visible(False)


def _stacked_airports(axes: "Axes", profile: HourlyProfile) -> None:
    places = range(len(profile.hours))
    floor = [0.0] * len(profile.hours)
    for (origin, values), colour in zip(profile.by_origin.items(), cycle(AIRPORT_COLOURS), strict=False):
        label = f"{AIRPORTS.get(origin, origin)} ({origin})"
        axes.bar(places, values, bottom=floor, width=0.78, color=colour, label=label)
        floor = [low + value for low, value in zip(floor, values, strict=True)]
    for place, value in zip(places, floor, strict=True):
        axes.text(place, value + max(floor) * 0.02, _count_text(value), ha="center", va="bottom", fontsize=11)
    axes.set_xlim(-0.5, len(profile.hours) - 0.5)
    axes.set_ylim(0, max(floor, default=1.0) * 1.32)
    axes.set_xticks(places, [f"{hour}:00" for hour in profile.hours])
    axes.set_xlabel("scheduled hour of departure", labelpad=8)
    axes.set_ylabel("departures per day")
    axes.yaxis.set_label_coords(-0.055, 0.5)
    axes.grid(axis="y")
    axes.legend(loc="upper right", ncols=3, frameon=False, borderaxespad=0.0)


def delays_by_carrier(rows: Sequence[Row], file: Path) -> str:
    """Bars to the 90th percentile of the delay, with the median in them, the worst carrier first.

    What the title compares comes first, so that the title names the top bar; carriers with few flights stand below.
    """
    flown = compared_first(rows)
    subtitle = (
        f"Departure delay of {sum_rows(rows):,} flights; pale, below: carriers with fewer than {few_flights(rows):,}; "
        f"punctual: less than {PUNCTUAL_MINUTES} minutes late"
    )
    title = carrier_finding(rows)
    with draw_figure(file, title=title, subtitle=subtitle) as figure:
        axes = figure.add_axes((0.2, 0.12, 0.575, 0.72))
        horizontal_bars_frame(axes, [display_name(row) for row in flown], "departure delay, minutes after schedule")
        _delay_bars(axes, flown, few=few_flights(rows))
        _carrier_columns(axes, flown)
    return title


def _delay_bars(axes: "Axes", rows: Sequence[Row], *, few: int) -> None:
    places = range(len(rows))
    ends, medians = ([row[column] for row in rows] for column in ("p90_delay_minutes", "median_delay_minutes"))
    axes.barh(places, ends, height=0.62, color=[MIDDLE if row["flights"] >= few else LIGHT for row in rows])
    dots = axes.scatter(medians, places, s=95, color=DEEP, zorder=3)
    reach = max([*ends, 1.0])
    for place, end, median in zip(places, ends, medians, strict=True):
        axes.text(max(end, median) + reach * 0.012, place, format_minutes(end), va="center", fontweight="bold")
        left = min(median, end, 0.0) - reach * 0.018
        axes.text(left, place, format_minutes(median), ha="right", va="center", color=DEEP)
    axes.axvline(0, color=INK, linewidth=1)
    axes.set_xlim(min([*medians, 0.0]) - reach * 0.07, reach * 1.08)
    legend = {
        "median: half of the flights are later": dots,
        "90th percentile: one in ten is later": Patch(color=MIDDLE),
    }
    axes.legend(legend.values(), legend.keys(), loc="lower right", frameon=False, handlelength=1.2)


def _carrier_columns(axes: "Axes", rows: Sequence[Row]) -> None:
    """How many flights, how many of those that departed punctual, how many cancelled."""
    columns = {
        "flights": (1.1, [f"{row['flights']:,}" for row in rows]),
        "punctual": (1.22, [f"{row['punctual_share']:.0%}" for row in rows]),
        "cancelled": (1.34, [f"{1 - row['departed'] / row['flights']:.1%}" for row in rows]),
    }
    columns_beside(axes, columns)


def busiest_routes(rows: Sequence[Row], file: Path) -> str:
    """The routes with the most flights as bars, the mean delay as their colour."""
    shown = rows[:ROUTES_SHOWN]
    subtitle = f"Scheduled flights by route, of {sum_rows(rows):,} in all; darker: departing later on average"
    title = route_finding(rows, shown)
    with draw_figure(file, title=title, subtitle=subtitle) as figure:
        axes = figure.add_axes((0.355, 0.12, 0.55, 0.72))
        labels = [f"{row['origin']} \N{RIGHTWARDS ARROW} {row['dest']}" for row in shown]
        horizontal_bars_frame(axes, labels, "flights")
        # A name that is only the code again says nothing.
        names = [row["dest_name"] if row["dest_name"] != row["dest"] else "" for row in shown]
        columns_beside(axes, {"": (-0.15, names)}, colour=MUTED)
        _route_bars(axes, shown)
    return title


def _route_bars(axes: "Axes", rows: Sequence[Row]) -> None:
    delays = [row["mean_delay_minutes"] or 0.0 for row in rows]
    scale = Normalize(min([*delays, 0.0]), max([*delays, 1.0]))
    axes.barh(range(len(rows)), [row["flights"] for row in rows], height=0.7, color=WARM(scale(delays)))
    reach = max(row["flights"] for row in rows)
    for place, row in enumerate(rows):
        axes.text(row["flights"] + reach * 0.01, place, f"{row['flights']:,}", va="center", fontweight="bold")
    axes.set_xlim(0, reach * 1.1)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    columns_beside(axes, {"mean delay": (1.1, [f"{format_minutes(delay)} min" for delay in delays])})
    colours = axes.inset_axes((0.72, 0.13, 0.26, 0.022))
    bar = axes.figure.colorbar(ScalarMappable(scale, WARM), cax=colours, orientation="horizontal")
    bar.outline.set_visible(False)
    colours.set_title("mean departure delay, minutes", fontsize=11, color=MUTED, pad=8)


def _count_text(value: float) -> str:
    """Whole departures, and parts of one where there is less; nothing where there are none."""
    if value == 0:
        return ""
    return f"{value:.0f}" if value >= 1 else f"{value:.1f}"
