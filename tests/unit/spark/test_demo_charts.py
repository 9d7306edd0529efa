"""The demo's charts, from rows that no Spark has made."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.patches import Rectangle

from pyspark_ternmq.demo import charts
from pyspark_ternmq.demo.findings import Row
from pyspark_ternmq.demo.style import draw_figure

HOURS: list[Row] = [
    {
        "scheduled_hour": datetime(2013, 1, day, hour),  # noqa: DTZ001 - New York's clock
        "origin": origin,
        "flights": day + hour,
        "departed": day + hour - 1,
        "mean_delay_minutes": 4.5,
    }
    for day in range(1, 9)
    for hour in (5, 8, 17)
    for origin in ("EWR", "JFK", "LGA")
]
CARRIERS: list[Row] = [
    {
        "carrier": "XX",
        "carrier_name": name,
        "flights": flights,
        "departed": departed,
        "mean_delay_minutes": p90 / 2,
        "median_delay_minutes": median,
        "p90_delay_minutes": p90,
        "punctual_share": 0.75,
    }
    for name, flights, departed, median, p90 in (
        ("Late Air Inc.", 5000, 4900, 3.0, 80.0),
        ("Early Air Inc.", 5000, 5000, -9.0, -7.0),
        ("Rare Air Inc.", 3, 3, 0.0, 0.5),
    )
]
GROUNDED: Row = {**CARRIERS[0], "departed": 0, "median_delay_minutes": None, "p90_delay_minutes": None}
ROUTES: list[Row] = [
    {
        "dest": f"D{number:02}",
        "dest_name": "Somewhere" if number % 2 else f"D{number:02}",
        "origin": "JFK",
        "flights": 100 - number,
        "departed": 90 - number,
        "mean_delay_minutes": number - 3.0 if number else None,
        "carriers": 2,
        "distance_miles": 500,
    }
    for number in range(30)
]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that are drawn from here on."""
    figures = list[Figure]()

    @contextmanager
    def kept(file: Path, *, title: str, subtitle: str) -> Iterator[Figure]:
        with draw_figure(file, title=title, subtitle=subtitle) as made:
            yield made
            figures.append(made)

    monkeypatch.setattr(charts, "draw_figure", kept)
    return figures


Chart = Callable[[Sequence[Row], Path], str]


@pytest.mark.parametrize(
    ("draw", "rows"),
    [
        (charts.hourly_departures, HOURS),
        (charts.hourly_departures, HOURS[:1]),
        (charts.delays_by_carrier, CARRIERS),
        (charts.delays_by_carrier, [*CARRIERS, {**GROUNDED, "punctual_share": None}]),
        (charts.busiest_routes, ROUTES),
        (charts.busiest_routes, ROUTES[:1]),
    ],
    ids=["hours", "one hour", "carriers", "a carrier that stayed at home", "routes", "one route"],
)
def test_a_chart_has_the_size_of_a_screen_and_is_not_blank(draw: Chart, rows: Sequence[Row], tmp_path: Path) -> None:
    title = draw(rows, tmp_path / "chart.png")
    pixels = imread(tmp_path / "chart.png")
    assert title
    assert pixels.shape[:2] == (1080, 1920)
    assert 0.02 < pixels[:, :, :3].std() < 0.5


def test_the_carriers_title_names_the_top_bar_though_a_carrier_with_few_flights_is_later(
    drawn: list[Figure], tmp_path: Path
) -> None:
    rare: Row = {**CARRIERS[2], "p90_delay_minutes": 500.0}
    title = charts.delays_by_carrier([rare, *CARRIERS[:2]], tmp_path / "chart.png")
    labels = [label.get_text() for label in drawn[0].axes[0].get_yticklabels()]
    assert labels == ["Late Air", "Early Air", "Rare Air"]
    assert title.startswith(f"One in ten {labels[0]} flights departs 80 minutes late or more; at {labels[1]}, ")


def test_the_hours_title_names_every_bar_that_stands_out(drawn: list[Figure], tmp_path: Path) -> None:
    title = charts.hourly_departures(HOURS, tmp_path / "chart.png")
    bars = drawn[0].axes[1]
    heights = defaultdict[int, float](float)
    for patch in bars.patches:
        assert isinstance(patch, Rectangle)
        heights[round(patch.get_x() + patch.get_width() / 2)] += patch.get_height()  # the airports', one on another
    labels = [label.get_text() for label in bars.get_xticklabels()]
    standing_out = [labels[place] for place, height in sorted(heights.items()) if height > 0]
    assert title.startswith(f"Departures peak at {', '.join(standing_out[:-1])} and {standing_out[-1]}")


def test_each_route_has_the_name_of_its_airport_beside_it(drawn: list[Figure], tmp_path: Path) -> None:
    named = [{**row, "dest_name": f"Airport {row['dest']}"} for row in ROUTES]
    title = charts.busiest_routes(named, tmp_path / "chart.png")
    axes = drawn[0].axes[0]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    texts = {text.get_text() for text in axes.texts}
    assert title.startswith(labels[0].replace("\N{RIGHTWARDS ARROW}", "to"))
    assert {f"Airport {label.split()[-1]}" for label in labels} <= texts


def test_the_same_rows_make_the_same_chart(tmp_path: Path) -> None:
    for name in ("one.png", "other.png"):
        charts.busiest_routes(ROUTES, tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "other.png").read_bytes()
