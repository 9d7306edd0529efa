"""The marker of a lake's format: `_lake.json` in its folder. Folders from before it was written are plain Parquet."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from pyspark_ternmq.pipelines.lake.commits import COMMITS, KINDS, LakeBroken
from pyspark_ternmq.pipelines.lake.options import FORMATS, Format

if TYPE_CHECKING:
    from pyspark_ternmq.pipelines.files import FileSystem

MARKER, MARKER_VERSION = "_lake.json", 1


class WrongFormat(ValueError):
    """The lake has another format than the requested one."""


def format_of(files: "FileSystem", root: str) -> Format | None:
    """The format of the lake in a folder; None if there is no lake."""
    if files.exists(f"{root}/{MARKER}"):
        return _parse_marker(files.read(f"{root}/{MARKER}"), root)
    is_lake = any(files.exists(f"{root}/{name}") for name in (*KINDS, COMMITS))
    return "parquet" if is_lake else None


def settle_format(files: "FileSystem", root: str, wanted: Format) -> None:
    """Mark a new lake with its format. Raises WrongFormat if it has another."""
    found = format_of(files, root)
    if found is None:
        _write_marker(files, root, wanted)
        found = format_of(files, root)
    if found != wanted:
        raise WrongFormat(f"{root} is a lake of format {found}, not {wanted}: give the same format, or another folder")


def _write_marker(files: "FileSystem", root: str, wanted: Format) -> None:
    path = f"{root}/{MARKER}"
    # The rest of an earlier try that crashed is no marker yet.
    files.delete(f"{path}.new")
    files.create(f"{path}.new", json.dumps({"version": MARKER_VERSION, "format": wanted}))
    try:
        files.rename(f"{path}.new", path)
    except OSError:
        if not files.exists(path):  # not another process's, which was faster
            raise


def _parse_marker(text: str, root: str) -> Format:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise LakeBroken(f"{root}/{MARKER} is damaged: {error}") from None
    if not isinstance(found, Mapping) or found.get("version") != MARKER_VERSION or found.get("format") not in FORMATS:
        raise LakeBroken(f"{root}/{MARKER} is of a later program, or damaged: {text[:200]!r}")
    return cast("Format", found["format"])
