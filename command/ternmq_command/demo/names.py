"""What the codes in the flights stand for: tables of the data set that don't go through the broker."""

import csv

from ternmq_command.demo.flights import data_file


def carrier_names() -> dict[str, str]:
    return _names("airlines.csv", "carrier")


def airport_names() -> dict[str, str]:
    return _names("airports.csv", "faa")


def _names(file: str, code: str) -> dict[str, str]:
    with (data_file().parent / file).open(encoding="utf-8", newline="") as lines:
        return {line[code]: line["name"] for line in csv.DictReader(lines)}
