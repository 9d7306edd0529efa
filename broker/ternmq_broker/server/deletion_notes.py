"""The notes of a broker or replica about deletions that are done: the file `deletions-done`.

File  a `NoteFile`: JSON, `up_to` is the version of the registry up to which all is done, `beyond` what is done above
      it: `[[version, kind, name] ...]`.
"""

import json
import re
from typing import TYPE_CHECKING

from ternmq_broker.server.note_file import NoteFile
from ternmq_common.catalog.cluster import DeletedKind, RegistryDeletion

if TYPE_CHECKING:
    from pathlib import Path

_NOTES = "deletions-done"


class DeletionNotes:
    """The notes of one broker; `folder` has the file. Reads and writes block; one caller at a time."""

    def __init__(self, folder: "Path") -> None:
        self._file = NoteFile(
            folder / _NOTES,
            old=re.compile(r"\{.*\}"),
            advice="restore it from a copy; or delete it, if no deleted topic or group was created again, since "
            "messages of the later one could be removed then",
        )
        self.up_to = 0
        self.beyond: set[RegistryDeletion] = set()

    def read(self) -> bool:
        """Load the file; False if there is none. StartupError if it is damaged."""
        content = self._file.read()
        if content is None:
            return False
        try:
            noted = json.loads(content)
            up_to = int(noted["up_to"])
            beyond = {RegistryDeletion(version, DeletedKind(kind), name) for version, kind, name in noted["beyond"]}
        except (ValueError, TypeError, KeyError) as error:
            raise self._file.damage_error() from error  # one of an earlier version has no checksum
        self.up_to, self.beyond = up_to, beyond
        return True

    def is_done(self, deletion: RegistryDeletion) -> bool:
        return deletion.version <= self.up_to or deletion in self.beyond

    def add_done(self, *deletions: RegistryDeletion) -> None:
        """Note that these deletions are done; durable when it returns. OSError."""
        new = {deletion for deletion in deletions if not self.is_done(deletion)}
        if new:
            self._write_notes(self.up_to, self.beyond | new)

    def raise_up_to(self, up_to: int) -> None:
        """Note that another place records all deletions up to that version; the next write has it too."""
        self.up_to = max(self.up_to, up_to)
        self.beyond = {deletion for deletion in self.beyond if deletion.version > self.up_to}

    def prune_up_to(self, up_to: int) -> None:
        """Drop the single notes up to that version of the registry, as all up to it is done. OSError."""
        if up_to > self.up_to:
            self._write_notes(up_to, {deletion for deletion in self.beyond if deletion.version > up_to})

    def _write_notes(self, up_to: int, beyond: set[RegistryDeletion]) -> None:
        rows = [[each.version, each.kind.value, each.name] for each in sorted(beyond, key=lambda each: each.version)]
        self._file.write(json.dumps({"up_to": up_to, "beyond": rows}))
        self.up_to, self.beyond = up_to, beyond
