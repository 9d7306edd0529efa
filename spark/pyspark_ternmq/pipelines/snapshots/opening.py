"""The snapshots of a pipeline's paths: as they are now, or as an earlier plan has them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pyspark_ternmq.pipelines.lake.tables.opening import check_installed
from pyspark_ternmq.pipelines.snapshots.finding import NAMES, SourcePlace, WrongSource, place_of, places_of
from pyspark_ternmq.pipelines.snapshots.folder import FolderSource
from pyspark_ternmq.pipelines.snapshots.snapshot import FILES_MAX, KeptSnapshot, SourceSnapshot, TableSettings

if TYPE_CHECKING:
    from pyspark_ternmq.pipelines.files import FileSystem
    from pyspark_ternmq.pipelines.snapshots.snapshot import SnapshotSource

FileFormat = Literal["parquet", "json", "delta", "iceberg"]
FORMATS: tuple[FileFormat, ...] = ("parquet", "json", "delta", "iceberg")


class SourceChanged(Exception):
    """The files of a plan are not what they were; the message says what changed."""


class SourceSnapshots:
    """Opens them. `columns` are those that will be read; a `wanted` format refuses paths of another."""

    def __init__(
        self, files: "FileSystem", settings: TableSettings, columns: Sequence[str], wanted: FileFormat | None
    ) -> None:
        self._files, self._settings, self._columns, self._wanted = files, settings, columns, wanted

    def take_now(self, paths: Sequence[str]) -> list[SourceSnapshot]:
        """The snapshots of all paths. WrongSource for a path that can't be read, or not in the requested way."""
        places = list[SourcePlace]()
        for path in paths:
            places += [place for place in places_of(self._files, path) if place not in places]
        found = [self._open_current(place) for place in places]
        count = sum(len(one.files) for one in found)
        if count > FILES_MAX:
            raise WrongSource(f"{count:,} files are more than {FILES_MAX:,}: compact them, or name a part of them")
        return found

    def take_again(self, kept: Sequence[KeptSnapshot]) -> list[SourceSnapshot]:
        """Open the files of a plan, and no later ones. Raises SourceChanged if one has changed."""
        try:
            return [self._open_kept(one) for one in kept]
        except WrongSource as error:
            raise SourceChanged(str(error)) from None

    def _open_current(self, place: SourcePlace) -> SourceSnapshot:
        found = self._open_source(self._checked_place(place)).take_snapshot()
        if place.values and not found.files:
            values = ", ".join(f"{name}={value}" for name, value in place.values.items())
            raise WrongSource(f"{NAMES[place.kind]}, {place.path}, has no rows of {values}")
        return found

    def _open_kept(self, kept: KeptSnapshot) -> SourceSnapshot:
        source = self._open_source(place_of(self._files, kept.path))
        now = source.take_snapshot()
        lost = kept.find_lost(now)
        if (now.table and now.table.table_id) != (kept.table and kept.table.table_id):
            raise SourceChanged(f"{kept.path} is another table than it was, or none")
        if not lost:
            return now.only_kept(kept)
        what = f"{len(lost):,} of {count_files(kept)} were removed or changed, the first is {lost[0]}"
        if kept.table is None or now.table is None:
            raise SourceChanged(what)
        if done := source.changes_since(kept.table.version):
            raise SourceChanged(f"{kept.table.text()} had other rows: {', '.join(done)} came after; {what}")
        if any(not self._files.exists(path) for path in lost):
            raise SourceChanged(f"files of {kept.table.text()} were removed since it was compacted; {what}")
        return source.take_snapshot(kept.table.version).only_kept(kept)

    def _checked_place(self, place: SourcePlace) -> SourcePlace:
        is_table = place.kind != "folder"
        if is_table and self._wanted not in (None, place.kind):
            raise WrongSource(f"{place.path} is {NAMES[place.kind]}, and its files are not read as {self._wanted}")
        if not is_table and self._wanted is not None and self._wanted in NAMES:
            raise WrongSource(f"{place.path} is not {NAMES[self._wanted]}")
        return place

    def _open_source(self, place: SourcePlace) -> "SnapshotSource":
        if place.kind == "folder":
            return FolderSource(self._files, place.path)
        try:
            check_installed(place.kind)
        except ValueError as error:
            raise WrongSource(f"{place.path} is {NAMES[place.kind]}, and {error}") from None
        if place.kind == "delta":
            from pyspark_ternmq.pipelines.snapshots.delta import DeltaSource

            return DeltaSource(place, self._columns, self._settings.storage_options)
        from pyspark_ternmq.pipelines.snapshots.iceberg import IcebergSource

        return IcebergSource(place, self._columns, self._settings)


def count_files(kept: KeptSnapshot) -> str:
    return "1 file" if len(kept.files) == 1 else f"{len(kept.files):,} files"
