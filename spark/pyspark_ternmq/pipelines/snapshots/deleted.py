"""Rows of live files that are not live: what deletion vectors and position deletes name."""

import hashlib
from collections.abc import Mapping

import pyarrow as pa


def deleted_rows(deleted: Mapping[str, pa.Array]) -> pa.Table | None:
    """A row for each deleted one: the file's `path` and the number of the `row` in it; None if there are none."""
    parts = [
        pa.table({"path": pa.repeat(pa.scalar(path, pa.string()), len(rows)), "row": rows.cast(pa.int64())})
        for path, rows in deleted.items()
        if len(rows)
    ]
    return pa.concat_tables(parts) if parts else None


def mark_of(deleted: pa.Array | None) -> str:
    """Return a short mark of the deleted rows of a file."""
    if deleted is None or not len(deleted):
        return ""
    return hashlib.sha256(deleted.cast(pa.int64()).to_numpy(zero_copy_only=False).tobytes()).hexdigest()[:16]
