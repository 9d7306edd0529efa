"""Reads the names of airports and carriers, from tables of the data set that don't go through the broker."""

import csv

from ternmq_command.demo.flights import data_file

# Airports of Puerto Rico and of the Virgin Islands, which are destinations of flights but not in the data set's table.
AIRPORTS_LEFT_OUT = {
    "BQN": "Rafael Hernandez",
    "PSE": "Mercedita",
    "SJU": "Luis Munoz Marin Intl",
    "STT": "Cyril E King",
}


def carrier_names() -> dict[str, str]:
    return _read_names("airlines.csv", "carrier")


def airport_names() -> dict[str, str]:
    return AIRPORTS_LEFT_OUT | _read_names("airports.csv", "faa")


def _read_names(file: str, code: str) -> dict[str, str]:
    with (data_file().parent / file).open(encoding="utf-8", newline="") as lines:
        return {line[code]: line["name"] for line in csv.DictReader(lines)}
