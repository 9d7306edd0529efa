"""The demo's second part, whole: the real flights, a broker, Spark, and what it leaves on the disk."""

import csv
import math
import re
import signal
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest
from matplotlib.image import imread

from ternmq_command.demo.flights import ROWS, Row, data_file, read_rows
from ternmq_command.demo.lake.names import airport_names

TIMEOUT_S = 900
pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.timeout(2 * TIMEOUT_S),
]
MESSAGES, MORE = 3000, 4000
TABLES = ("hourly_departures", "delays_by_carrier", "busiest_routes")


def command(folder: Path, messages: int) -> list[str]:
    demo = [sys.executable, "-m", "ternmq_command.demo", "--spark"]
    return [*demo, "--messages", str(messages), "--data-dir", str(folder)]


def run(folder: Path, messages: int) -> str:
    done = subprocess.run(command(folder, messages), capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_flights_become_tables_and_charts(tmp_path: Path) -> None:
    said = run(tmp_path, MESSAGES)
    assert account(MESSAGES) in said
    for name in TABLES:
        assert f"{tmp_path / 'tables' / name}.parquet (" in said
        assert f"{tmp_path / 'charts' / name}.png" in said
    assert re.search(r"lake +[\d,]+ rows/s +3,000 rows in [\d.]+ s, 1 batch", said)
    assert_tables_are_right(tmp_path, MESSAGES)
    assert_charts_show_something(tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill-9"])
def test_a_demo_that_is_stopped_while_the_lake_fills_leaves_no_broker_and_is_continued(
    tmp_path: Path, how: signal.Signals
) -> None:
    with subprocess.Popen(command(tmp_path, MESSAGES), stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stderr is not None
        next(line for line in demo.stderr if line.startswith("lake: broker ready"))
        started = psutil.Process(demo.pid).children(recursive=True)
        demo.send_signal(how)
        rest = demo.stderr.read()
    assert demo.returncode == (-signal.SIGKILL if how == signal.SIGKILL else 130), rest
    assert not psutil.wait_procs(started, timeout=TIMEOUT_S)[1]
    assert account(MORE) in run(tmp_path, MORE)
    assert_tables_are_right(tmp_path, MORE)


def test_each_airport_to_which_a_flight_goes_has_a_name() -> None:
    assert {row["dest"] for _, row in read_rows(data_file(), ROWS)} <= airport_names().keys()


def test_without_java_nothing_is_started_and_one_line_says_what_to_install(tmp_path: Path) -> None:
    without_java = {"PATH": str(tmp_path), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        command(tmp_path / "data", MESSAGES),
        env=without_java,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 2
    assert re.fullmatch(r"ternmq: Spark needs Java 17 or later, .*apt install openjdk-17-jre-headless\)\n", done.stderr)
    assert not (tmp_path / "data").exists()


def account(count: int) -> str:
    return f"{count:,} messages in the topic, {count:,} rows in the lake, each flight once; 0 late, 0 malformed"


def assert_tables_are_right(folder: Path, count: int) -> None:
    flights = [row for _, row in read_rows(data_file(), count)]
    found = {name: pq.read_table(folder / "tables" / f"{name}.parquet").to_pylist() for name in TABLES}
    expected = {
        "hourly_departures": hourly_departures(flights),
        "delays_by_carrier": delays_by_carrier(flights),
        "busiest_routes": busiest_routes(flights),
    }
    for name in TABLES:
        assert_same_rows(found[name], expected[name])


def assert_same_rows(found: Sequence[Mapping[str, Any]], expected: Sequence[Mapping[str, Any]]) -> None:
    """In the same order; figures may differ by the order in which they were added."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.keys() == other.keys()
        for column, value in other.items():
            if isinstance(value, float):
                assert math.isclose(one[column], value, rel_tol=1e-9), (column, one, other)
            else:
                assert one[column] == value, (column, one, other)


def hourly_departures(flights: Iterable[Row]) -> list[dict[str, Any]]:
    groups = grouped(flights, lambda row: (hour_of(row), row["origin"]))
    return [
        {"scheduled_hour": hour, "origin": origin, **counts(groups[hour, origin])} for hour, origin in sorted(groups)
    ]


def delays_by_carrier(flights: Iterable[Row]) -> list[dict[str, Any]]:
    names = names_of("airlines.csv", "carrier")
    made = []
    for carrier, of_carrier in grouped(flights, lambda row: row["carrier"]).items():
        known = sorted(delays(of_carrier))
        made.append(
            {
                "carrier": carrier,
                "carrier_name": names[carrier],
                **counts(of_carrier),
                "median_delay_minutes": float(statistics.median(known)),
                "p90_delay_minutes": percentile(known, 0.9),
                "punctual_share": sum(delay < 15 for delay in known) / len(known),
            }
        )
    return sorted(made, key=lambda row: (-row["p90_delay_minutes"], row["carrier"]))


def busiest_routes(flights: Iterable[Row]) -> list[dict[str, Any]]:
    names = airport_names()
    made = [
        {
            "dest": dest,
            "dest_name": names[dest],
            "origin": origin,
            **counts(of_route),
            "carriers": len({row["carrier"] for row in of_route}),
            "distance_miles": max(int(row["distance"]) for row in of_route),
        }
        for (origin, dest), of_route in grouped(flights, lambda row: (row["origin"], row["dest"])).items()
    ]
    return sorted(made, key=lambda row: (-row["flights"], row["origin"], row["dest"]))


def grouped(flights: Iterable[Row], key: Any) -> dict[Any, list[Row]]:  # noqa: ANN401
    groups = defaultdict(list)
    for row in flights:
        groups[key(row)].append(row)
    return groups


def counts(flights: Sequence[Row]) -> dict[str, Any]:
    known = delays(flights)
    mean = sum(known) / len(known) if known else None
    return {"flights": len(flights), "departed": len(known), "mean_delay_minutes": mean}


def delays(flights: Iterable[Row]) -> list[int]:
    return [int(row["dep_delay"]) for row in flights if "dep_delay" in row]


def hour_of(row: Row) -> datetime:
    year, month, day, hour = (int(row[part]) for part in ("year", "month", "day", "hour"))
    return datetime(year, month, day, hour)  # noqa: DTZ001 - New York's clock


def percentile(ordered: Sequence[int], share: float) -> float:
    """Between the two nearest values, in proportion."""
    place = (len(ordered) - 1) * share
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    return low + (high - low) * (place - math.floor(place))


def names_of(file: str, code: str) -> dict[str, str]:
    with (data_file().parent / file).open(encoding="utf-8", newline="") as lines:
        return {line[code]: line["name"] for line in csv.DictReader(lines)}


def assert_charts_show_something(folder: Path) -> None:
    for name in TABLES:
        pixels = imread(folder / "charts" / f"{name}.png")
        assert pixels.shape[:2] == (1080, 1920)
        assert 0.05 < pixels[:, :, :3].std() < 0.5
