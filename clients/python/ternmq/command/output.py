"""What commands print: tables for people, JSON for programs. A record is a dict of plain values in print order."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from google.protobuf.timestamp_pb2 import Timestamp

Record = Mapping[str, object]


def print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_json_line(record: Record) -> None:
    click.echo(json.dumps(record, ensure_ascii=False))


def print_records(records: Sequence[Record], *, as_json: bool, nothing: str) -> None:
    """All records, as one JSON list or a table; `nothing` tells a person that there are none."""
    if as_json:
        print_json(records)
    elif records:
        click.echo(table(records))
    else:
        click.echo(nothing, err=True)


def table(records: Sequence[Record]) -> str:
    """Columns under upper-case names, numbers to the right."""
    columns = list(records[0])
    rows = [[column.upper().replace("_", " ") for column in columns]]
    rows += [[_cell(record[column]) for column in columns] for record in records]
    widths = [max(len(row[i]) for row in rows) for i in range(len(columns))]
    numeric = [all(isinstance(record[column], int | float) for record in records) for column in columns]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in rows
    )


def described(record: Record) -> str:
    """One record as lines of `name  value`."""
    width = max(map(len, record))
    return "\n".join(f"{name.replace('_', ' '):<{width}}  {_cell(value)}" for name, value in record.items())


def iso(timestamp: "Timestamp") -> str | None:
    """`2026-08-01T12:00:00Z`; None if the server did not say."""
    if not timestamp.seconds:
        return None
    return iso_datetime(datetime.fromtimestamp(timestamp.seconds, UTC))


def iso_datetime(moment: datetime, *, timespec: str = "seconds") -> str:
    return moment.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
