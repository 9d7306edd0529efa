"""Finds the table that contains a path, or that there is none. Pure but for `FileSystem`.

Delta       a folder with `_delta_log`; Iceberg: one with `metadata/*.metadata.json`
Lake        of a folder with `_lake.json`, its `data` is read. The file also tells the format of tables whose metadata
            their catalog keeps elsewhere
Part        a path below a table is that part of it whose columns have the values that its folders name. The folders
            are ignored: a merge may put the same rows into `hour=7` that came in `hour=07`
Refused     a folder above a table, and a single file of one
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pyspark_ternmq.pipelines.lake.registration import partition_values
from pyspark_ternmq.pipelines.lake.tables.marker import MARKER, format_of

if TYPE_CHECKING:
    from pyspark_ternmq.pipelines.files import FileEntry, FileSystem

Kind = Literal["folder", "delta", "iceberg"]
NAMES: Mapping[str, str] = {"delta": "a Delta table", "iceberg": "an Iceberg table"}
DELTA_LOG, ICEBERG_METADATA, METADATA_SUFFIX, DATA = "_delta_log", "metadata", ".metadata.json", "data"
_GLOB = frozenset("*?[{")


class WrongSource(Exception):
    """A path is not what it is read as, or can't be read here; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePlace:
    """A place of rows: a table's folder and the `values` that columns of the wanted part have, or a folder or file.

    `requested` is the path as the caller gave it.
    """

    kind: Kind
    path: str
    requested: str
    values: Mapping[str, str] = field(default_factory=dict)


def places_of(files: "FileSystem", path: str) -> list[SourcePlace]:
    """Find the places of a path; a pattern may have several. Raises WrongSource if one can't be read."""
    root = files.qualify_path(path)
    if not files.exists(root) and _GLOB & set(path):
        found = [place_of(files, one) for one in files.find_matching(root)]
    else:
        found = [place_of(files, root)]
    # A part of a table may have rows although no folder has its name any more.
    found = [place for place in found if place.values or files.exists(place.requested)]
    if not found:
        raise WrongSource(f"there is nothing at {path}")
    return found


def place_of(files: "FileSystem", path: str) -> SourcePlace:
    """Find the place of one path, which has scheme and host."""
    for folder in _parent_folders(path):
        try:
            kind = _table_in(files, folder)
            is_lake = kind is None and files.exists(f"{folder}/{MARKER}")
        except OSError:
            # Without the right to look into folders above, as of a bucket, no table there can be read either.
            if folder == path:
                raise
            continue
        if kind is not None:
            return SourcePlace(kind=kind, path=folder, requested=path, values=_partition_values(path, folder, kind))
        if is_lake:
            return _of_lake(files, path, folder)
    return SourcePlace(kind="folder", path=path, requested=path)


def _of_lake(files: "FileSystem", path: str, lake: str) -> SourcePlace:
    """A path in a lake where no table was found on the way up to the lake's folder."""
    wanted = format_of(files, lake) or "parquet"
    if path == lake:
        return place_of(files, f"{lake}/{DATA}")
    if wanted == "parquet":
        return SourcePlace(kind="folder", path=path, requested=path)
    kind_folder = f"{lake}/{path.removeprefix(f'{lake}/').partition('/')[0]}"
    if wanted == "delta":
        raise WrongSource(f"{kind_folder} is a folder of a Delta lake in which no table is yet")
    return SourcePlace(
        kind=wanted, path=kind_folder, requested=path, values=_partition_values(path, kind_folder, wanted)
    )


def _parent_folders(path: str) -> Iterator[str]:
    """The path and the folders that it is in, without the root of the file system."""
    while path and not path.endswith(("/", ":")):
        yield path
        path = path.rpartition("/")[0]


def _table_in(files: "FileSystem", folder: str) -> Kind | None:
    if files.exists(f"{folder}/{DELTA_LOG}"):
        return "delta"
    if files.exists(f"{folder}/{ICEBERG_METADATA}"):
        found = files.files_below(f"{folder}/{ICEBERG_METADATA}")
        if any(entry.path.endswith(METADATA_SUFFIX) for entry in found):
            return "iceberg"
    return None


def _partition_values(path: str, table: str, kind: Kind) -> Mapping[str, str]:
    below = path.removeprefix(table).strip("/")
    names = below.split("/") if below else []
    if not all("=" in name for name in names):
        raise WrongSource(
            f"{path} is in {NAMES[kind]}, {table}: name the table, or a part of it as in {table}/topic=orders"
        )
    return partition_values(f"{below}/")


def check_no_table(path: str, entries: "Sequence[FileEntry]") -> None:
    """WrongSource if a table is somewhere below a folder, whose files are `entries`."""
    for entry in entries:
        *folders, name = entry.path.split("/")
        if DELTA_LOG in folders:
            table, kind = folders[: folders.index(DELTA_LOG)], NAMES["delta"]
        elif folders and folders[-1] == ICEBERG_METADATA and name.endswith(METADATA_SUFFIX):
            table, kind = folders[:-1], NAMES["iceberg"]
        else:
            continue
        where = "/".join((path, *table))
        raise WrongSource(f"{path} has {kind} in it, {where}: name the table itself, so that its live rows are read")
