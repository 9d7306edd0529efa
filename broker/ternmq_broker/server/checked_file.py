"""The small files beside a broker's store: one line, with a version and a checksum.

Format      `1 CONTENT CRC32` and a newline: the version, any text, and the crc32 of all before the last space as 8
            hexadecimal digits. Earlier versions wrote the bare text; it is read, and written anew. Who reads says how
            that looks: nothing that this format has may look so with one byte changed.
Damage      is refused: what these files say can't be had from anywhere else.
"""

from typing import TYPE_CHECKING
from zlib import crc32

from ternmq_broker.store.files import DiskFolder
from ternmq_common.errors import StartupError

if TYPE_CHECKING:
    import re
    from pathlib import Path

_VERSION = "1"


class CheckedFile:
    """One such file. `old` fits the whole of one without version, `advice` says what to do with a damaged one."""

    def __init__(self, path: "Path", *, old: "re.Pattern[str]", advice: str) -> None:
        self._path = path
        self._old = old
        self._advice = advice

    def read(self) -> str | None:
        """What it says, None if there is none; blocks. StartupError if it is damaged, or too new for us."""
        found = DiskFolder(self._path.parent).content(self._path.name)
        if found is None:
            return None
        text = found.decode(errors="replace")
        if self._old.fullmatch(text.strip()):
            self.write(text.strip())
            return text.strip()
        checked, _, check = text.removesuffix("\n").rpartition(" ")
        version, _, content = checked.partition(" ")
        if not text.endswith("\n") or check != _check(checked):
            raise self.damaged()
        if version != _VERSION:
            raise StartupError(
                f"the file {self._path} is of a newer TernMQ (version {version}, this one knows {_VERSION}): upgrade it"
            )
        return content

    def damaged(self) -> StartupError:
        """What to raise if the content, for all its checksum, makes no sense."""
        return StartupError(f"the file {self._path} is damaged: {self._advice}")

    def write(self, content: str) -> None:
        """Replace it; what it says is durable when this returns. Blocks."""
        assert "\n" not in content
        checked = f"{_VERSION} {content}"
        DiskFolder(self._path.parent).replace(self._path.name, f"{checked} {_check(checked)}\n".encode())


def _check(text: str) -> str:
    return f"{crc32(text.encode()):08x}"
