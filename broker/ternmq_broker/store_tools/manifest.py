"""The manifest of a backup: the file `backup.json`, written last, so that a folder without it is no backup.

    TernMQ backup 1 <crc32>
    {"made_ms", "program", "log_start", "log_end", "last_stored_ms", "is_running", "files": {<path below `data`>:
     [<bytes>, <SHA-256>] ...}}

The files are below the folder `data`, as they are in a data directory.
"""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ternmq_broker.store.disk import checked_file
from ternmq_broker.store.disk.checked_file import DamagedFile, NewerFormat
from ternmq_broker.store_tools.durable_copies import sync_folder, write_new_file
from ternmq_common.errors import StartupError

if TYPE_CHECKING:
    from pathlib import Path

NAME = "backup.json"
DATA = "data"
_WHAT, _VERSION = "backup", 1
_PARTIAL = "backup.json.new"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupManifest:
    """The content of the manifest.

    `last_stored_ms` is when the newest message was stored, 0 without any; `files` has size and SHA-256 of each.
    """

    made_ms: int
    program: str
    is_running: bool
    log_start: int
    log_end: int
    last_stored_ms: int
    files: dict[str, tuple[int, str]]

    @property
    def size_bytes(self) -> int:
        return sum(size for size, _ in self.files.values())

    def write_manifest(self, target: "Path") -> None:
        """Write the manifest, which makes the folder a backup; durable when this returns."""
        partial = target / _PARTIAL
        write_new_file(partial, checked_file.encode_file(_WHAT, _VERSION, asdict(self)))
        partial.replace(target / NAME)
        sync_folder(target)


def read_manifest(backup: "Path") -> BackupManifest:
    """Read the manifest of a backup. StartupError: it is no whole backup."""
    try:
        content = checked_file.decode_file(NAME, _WHAT, _VERSION, (backup / NAME).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        reason = f"it has no {NAME}, which is written last: it was interrupted, or is none"
    except DamagedFile as error:
        reason = str(error)
    except NewerFormat as error:
        raise StartupError(f"the backup {backup} was written by a newer version of TernMQ: {error}") from error
    else:
        assert isinstance(content, dict)
        files = {name: (size, digest) for name, (size, digest) in content.pop("files").items()}
        return BackupManifest(**content, files=files)
    raise StartupError(f"{backup} is no whole backup: {reason}")
