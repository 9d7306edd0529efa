"""Formats what commands print: tables for people, JSON for programs.

A record is a dict of plain values in print order.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from ternmq_command.terminal.paging import split_pages
from ternmq_command.terminal.printing import echo, echo_lines, echo_raw
from ternmq_common.printable import escape_json, escape_line, escape_lines

Record = Mapping[str, object]
# Number of records by which a table determines the widths of its columns.
STREAM_PAGE = 256
AGE_UNITS_S = {"d": 86_400, "h": 3600, "m": 60, "s": 1}


def print_json(value: object) -> None:
    echo_lines(format_json(value, indent=2))


def print_deleted(kind: str, name: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"name": name, "deleted": True})
    else:
        echo(f"{kind} {name} deleted")


def print_json_line(record: Record) -> None:
    echo(format_json(record))


def format_json(value: object, *, indent: int | None = None) -> str:
    """Return JSON in which letters are not escaped, but control characters that act on a terminal are."""
    return escape_json(json.dumps(value, indent=indent, ensure_ascii=False))


def print_records(records: Sequence[Record], *, as_json: bool, nothing: str) -> None:
    """Print all records, as one JSON list or a table; `nothing` is the line for people if there are none."""
    if as_json:
        print_json(records)
    elif records:
        echo_lines(format_table(records))
    else:
        echo(nothing, err=True)


def print_stream(records: Iterable[Record], *, as_json: bool) -> int:
    """Print records as they come, as JSON lines or a table whose columns only grow; return the number of records."""
    count, widths = 0, None
    for page in split_pages(records, STREAM_PAGE):
        count += len(page)
        if as_json:
            for record in page:
                print_json_line(record)
            continue
        rows, is_first = _table_rows(page), widths is None
        widths = _column_widths(rows, widths or [0] * len(rows[0]))
        echo_lines(_align_rows(rows if is_first else rows[1:], widths, _numeric_columns(page)))
    return count


def drop_empty_columns(records: Sequence[Record], *columns: str) -> list[dict[str, object]]:
    """Return the records without those of the given columns that are None in all of them."""
    empty = [column for column in columns if all(record[column] is None for record in records)]
    return [{name: value for name, value in record.items() if name not in empty} for record in records]


def format_table(records: Sequence[Record]) -> str:
    """Format records as a table: upper-case column names, numbers aligned to the right."""
    rows = _table_rows(records)
    return _align_rows(rows, _column_widths(rows, [0] * len(rows[0])), _numeric_columns(records))


def _table_rows(records: Sequence[Record]) -> list[list[str]]:
    """Return the rows of a table: the names of the columns, then the records."""
    columns = list(records[0])
    names = [column.upper().replace("_", " ") for column in columns]
    return [names, *([format_cell(record[column]) for column in columns] for record in records)]


def _column_widths(rows: Sequence[Sequence[str]], at_least: Sequence[int]) -> list[int]:
    return [max(least, *(len(row[i]) for row in rows)) for i, least in enumerate(at_least)]


def _numeric_columns(records: Sequence[Record]) -> list[bool]:
    return [all(isinstance(record[column], int | float) for record in records) for column in records[0]]


def _align_rows(rows: Sequence[Sequence[str]], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in rows
    )


def format_record(record: Record, *, raw: bool = False) -> str:
    """Format one record as lines of `name  value`; with `raw`, values are not escaped."""
    shown = _format_raw_cell if raw else format_cell
    width = max(map(len, record))
    return "\n".join(f"{name.replace('_', ' '):<{width}}  {shown(value)}" for name, value in record.items())


def print_full_message(record: Record, *, raw: bool = False) -> None:
    """Print a whole message: its fields, then `properties`, then `body`, if there are any.

    A body keeps its lines and tabs. With `raw`, nothing is escaped.
    """
    parts = [
        format_record({name: value for name, value in record.items() if name not in ("properties", "body")}, raw=raw)
    ]
    if properties := record["properties"]:
        assert isinstance(properties, dict)
        pairs = properties if raw else {escape_line(name): escape_line(value) for name, value in properties.items()}
        width = max(map(len, pairs))
        parts.append("\n".join(["properties", *(f"  {name:<{width}}  {value}" for name, value in pairs.items())]))
    if "body" in record:
        body = str(record["body"])
        parts.append(body if raw else escape_lines(body))
    (echo_raw if raw else echo_lines)("\n\n".join(parts))


def iso_or_none(moment: datetime | None, *, timespec: str = "seconds") -> str | None:
    """Format a time as `2026-08-01T12:00:00Z`; None if the server has none."""
    return None if moment is None else iso_datetime(moment, timespec=timespec)


def iso_datetime(moment: datetime, *, timespec: str = "seconds") -> str:
    return moment.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def format_count(number: int, thing: str) -> str:
    """Format a number of things: `1 message`, `2,000 messages`."""
    return f"{number} {thing}" if number == 1 else f"{number:,} {thing}s"


def format_age(seconds: float) -> str:
    """Format an age by its two largest units: `0.4s`, `12s`, `5m3s`, `3h12m`, `2d3h`."""
    if seconds < 1:
        return f"{seconds:.1f}s"
    rest, parts = int(seconds), list[str]()
    for unit, size in AGE_UNITS_S.items():
        number, rest = divmod(rest, size)
        if number or parts:
            parts.append(f"{number}{unit}" if number else "")
    return "".join(parts[:2])


def format_cell(value: object) -> str:
    """Format a value for people, on one line and without anything that acts on their terminal."""
    return escape_line(_format_raw_cell(value))


def _format_raw_cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ",".join(map(str, value)) or "-"
    return str(value)
