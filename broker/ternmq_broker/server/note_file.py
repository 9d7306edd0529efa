"""The small files beside a broker's store: checked files (`store/checked_file`) that hold one text.

Earlier versions wrote the bare text; it is read, and written as a checked file. The reader defines what bare text
looks like: no checked file may look like it after one changed byte. A damaged file is refused, as its content is
nowhere else.
"""

from typing import TYPE_CHECKING

from ternmq_broker.store.disk import checked_file
from ternmq_broker.store.disk.checked_file import DamagedFile, NewerFormat
from ternmq_broker.store.disk.files import DiskFolder
from ternmq_broker.store.disk.live_files import LiveFiles
from ternmq_common.errors import StartupError

if TYPE_CHECKING:
    import re
    from pathlib import Path

_VERSION = 1


class NoteFile:
    """One such file. `old` matches the whole of a bare text, `advice` is what to do with a damaged file."""

    def __init__(self, path: "Path", *, old: "re.Pattern[str]", advice: str) -> None:
        self._path = path
        self._old = old
        self._advice = advice
        self._opened: DiskFolder | None = None

    def _open_folder(self) -> DiskFolder:
        """The folder of the file, opened once: a removed folder is not created again."""
        if self._opened is None:
            self._opened = DiskFolder(self._path.parent, LiveFiles())
        return self._opened

    def read(self) -> str | None:
        """Read the text; None if there is no file; blocks. StartupError if it is damaged, or of a newer version."""
        name = self._path.name
        found = self._open_folder().content(name)
        if found is None:
            return None
        bare = found.decode(errors="replace").strip()
        if self._old.fullmatch(bare):
            self.write(bare)
            return bare
        try:
            content = checked_file.decode_file(name, name, _VERSION, found)
        except DamagedFile as error:
            raise self.damage_error() from error
        except NewerFormat as error:
            raise StartupError(f"{self._path} is of a newer TernMQ, start that version: {error}") from error
        if not isinstance(content, str):
            raise self.damage_error()
        return content

    def damage_error(self) -> StartupError:
        """The error to raise if the content makes no sense despite its checksum."""
        return StartupError(f"the file {self._path} is damaged: {self._advice}")

    def write(self, content: str) -> None:
        """Replace the text; durable when this returns. Blocks."""
        checked_file.write_checked(self._open_folder(), self._path.name, self._path.name, _VERSION, content)
