"""Registers the files of a committed batch with the lake's format, once they are at their places."""

from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark_ternmq.pipelines.lake.commits import BatchManifest

# By which columns tables are parted, in this order; files of the same values are in one folder.
TABLE_PARTITION = ("topic", "date", "hour")


class LakeTables(Protocol):
    """The tables of one lake, one for each kind of rows."""

    def register_batch(self, manifest: "BatchManifest") -> None:
        """Make a batch's files part of their tables; those that are stay as they are.

        LakeBroken if a table can't take them; the batch can be registered again then.
        """


class PlainFiles:
    """Implements `LakeTables`: a file that is in its folder is all that there is to it."""

    def register_batch(self, manifest: "BatchManifest") -> None:
        """Nothing is missing."""


def partition_values(path: str) -> "Mapping[str, str]":
    """Return the partition values in a path `data/topic=T/date=D/hour=07/...`, without Spark's escapes."""
    pairs = (folder.partition("=") for folder in path.split("/")[:-1] if "=" in folder)
    return {name: unquote(value) for name, _, value in pairs}


def table_uri(path: str) -> str:
    """A folder as Hadoop writes it, as libraries outside of Java do."""
    scheme, _, rest = path.partition(":")
    if scheme == "file":
        return f"file:///{rest.lstrip('/')}"
    return f"s3:{rest}" if scheme in {"s3a", "s3n"} else path


def hadoop_path(uri: str, root: str) -> str:
    """The other way round: a file as a library names it, as Hadoop does that has its table at `root`."""
    scheme, _, rest = uri.partition(":")
    if scheme == "file" or not rest:
        return f"file:/{(rest or scheme).lstrip('/')}"
    root_scheme = root.partition(":")[0]
    return f"{root_scheme}:{rest}" if scheme == "s3" and root_scheme in {"s3a", "s3n"} else uri
