"""Reads and writes the small files beside the commit log; each is read once, when the store is opened.

Derived     The log has the same information: a damaged file counts as missing, and that is logged.
Needed      Nothing else has it: a damaged file refuses the start, unless damage is accepted; then it is set aside and
            counts as missing.
Plain       In a store of layout 1 these files were bare JSON without a checksum.
"""

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ternmq_broker.store.disk import checked_file
from ternmq_broker.store.disk.checked_file import DamagedFile

if TYPE_CHECKING:
    from ternmq_broker.store.disk.files import Folder
    from ternmq_broker.store.disk.set_aside import SetAsideFolder

_log = logging.getLogger(__name__)
VERSION = 1
"""The version of all side files but `format`: their content has not changed since they have checksums."""


@dataclass(frozen=True, slots=True)
class SideFileReader:
    """Reads side files while a store is opened. All methods may raise NewerFormat."""

    set_aside: "SetAsideFolder"
    accept_damage: bool
    may_be_plain: bool

    def read_derived(self, folder: "Folder", name: str) -> object | None:
        """Return the content, None if there is no whole file."""
        try:
            return self._read_file(folder, name)
        except DamagedFile as error:
            _log.warning("%s; rebuilding it from the commit log", error)
            return None

    def read_needed(self, folder: "Folder", name: str) -> object | None:
        """Return the content, None if there is no such file; DamagedFile."""
        try:
            return self._read_file(folder, name)
        except DamagedFile as error:
            if not self.accept_damage:
                raise
            kept = self.set_aside.keep_copy(name, [folder.content(name) or b""])
            _log.error("%s; it was copied to set-aside/%s, and the store goes on without it", error, kept)
            return None

    def _read_file(self, folder: "Folder", name: str) -> object | None:
        data = folder.content(name)
        if data is None:
            return None
        if self.may_be_plain and not checked_file.is_checked(data):
            try:
                content: object = json.loads(data)
            except ValueError as error:
                raise DamagedFile(name, "it is no JSON") from error
            return content
        return checked_file.decode_file(name, name, VERSION, data)


def write_side_file(folder: "Folder", name: str, content: object) -> None:
    """Replace a side file; durable when this returns."""
    checked_file.write_checked(folder, name, name, VERSION, content)
