"""The demo's charts, from rows that no Spark has made."""

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import pytest
from matplotlib.image import imread

from pyspark_ternmq.demo import charts
from pyspark_ternmq.demo.findings import Row

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


def test_the_same_rows_make_the_same_chart(tmp_path: Path) -> None:
    for name in ("one.png", "other.png"):
        charts.busiest_routes(ROUTES, tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "other.png").read_bytes()
