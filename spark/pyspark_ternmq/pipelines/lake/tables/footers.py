"""Statistics of rows from the footer of a Parquet file, in the form that Delta keeps beside the file's name."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyarrow import fs

# Columns that readers skip files by.
_BOUNDED = ("queue_id", "offset", "born_timestamp", "store_timestamp")
_MS = timedelta(milliseconds=1)


def delta_statistics(path: str, file_system: "fs.FileSystem") -> str:
    """Rows of a file, and the bounds of the columns that are looked for."""
    footer = pq.read_metadata(path, filesystem=file_system)
    lowest, highest, nulls = dict[str, object](), dict[str, object](), dict[str, int]()
    for name, found in _column_statistics(footer):
        nulls[name] = sum(one.null_count for one in found)
        bounded = [one for one in found if one.has_min_max]
        if bounded:
            lowest[name] = _bound_text(min(one.min for one in bounded), is_upper=False)
            highest[name] = _bound_text(max(one.max for one in bounded), is_upper=True)
    bounds = {"minValues": lowest, "maxValues": highest, "nullCount": nulls}
    return json.dumps({"numRecords": footer.num_rows, **bounds})


def _column_statistics(footer: pq.FileMetaData) -> Iterator[tuple[str, list[Any]]]:
    """Return the statistics of each row group, for columns that have them in all."""
    names = {footer.schema.column(number).path: number for number in range(footer.num_columns)}
    for name in _BOUNDED:
        if (number := names.get(name)) is None:
            continue
        found = [footer.row_group(group).column(number).statistics for group in range(footer.num_row_groups)]
        if found and all(one is not None and one.has_null_count for one in found):
            yield name, found


def _bound_text(value: object, *, is_upper: bool) -> object:
    """Delta has times to the millisecond: a lower bound is rounded down, an upper one up."""
    if not isinstance(value, datetime):
        return value
    whole = value.replace(microsecond=value.microsecond // 1000 * 1000)
    if is_upper and whole < value:
        whole += _MS
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{whole.microsecond // 1000:03d}Z"
