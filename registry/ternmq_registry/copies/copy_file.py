"""The file with a process's copy of the registry: replaced as a whole, readable by its owner only."""

import itertools
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ternmq_common.process.private_files import create_file, create_folder, narrow_modes
from ternmq_registry.copies.copy_form import COPY_BYTES_MAX, RegistryCopy, UnusableCopy, decode_copy, encode_copy

if TYPE_CHECKING:
    from pathlib import Path

    from ternmq_registry.security.secret_encryption import SecretEncryption

_NUMBERS = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyFile:
    """The file at `path`, of the registry of this identity, kept by this holder. Reads and writes block.

    `age_max_ms`: the maximal age of a copy that is used, 0 for any. `bytes_max`: its maximal size. `makes_folder`: the
    folder is created if it is not there; a data directory that is gone is not.
    """

    path: "Path"
    registry: str
    holder: str
    age_max_ms: int = 0
    bytes_max: int = COPY_BYTES_MAX
    makes_folder: bool = True

    def read(self, now_ms: int, secret_encryption: "SecretEncryption | None" = None) -> RegistryCopy | None:
        """Read the copy, with users as `secret_encryption` can decrypt them; None if there is none. UnusableCopy."""
        try:
            with self.path.open("rb") as file:
                data = file.read(self.bytes_max + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UnusableCopy(f"it can't be read: {error.strerror}") from error
        if len(data) > self.bytes_max:
            raise UnusableCopy(f"it has more than {self.bytes_max} bytes")
        copy = decode_copy(
            self.path.name, data, registry=self.registry, holder=self.holder, secret_encryption=secret_encryption
        )
        age_ms = now_ms - copy.read_ms
        if self.age_max_ms and age_ms > self.age_max_ms:
            raise UnusableCopy(f"it is {age_ms // 1000} s old, and {self.age_max_ms // 1000} s are allowed")
        return copy

    def write(self, copy: RegistryCopy) -> None:
        """Replace the file; durable when this returns. OSError.

        UnusableCopy if it would be too large: then none is left, since the former one gets more outdated with every
        change.
        """
        data = encode_copy(copy)
        if len(data) > self.bytes_max:
            self.path.unlink(missing_ok=True)
            raise UnusableCopy(f"it would have {len(data)} bytes, and {self.bytes_max} are allowed")
        if self.makes_folder:
            create_folder(self.path.parent)
        # Another process may keep the same file.
        part = self.path.with_name(f"{self.path.name}.{os.getpid()}-{next(_NUMBERS)}")
        try:
            with create_file(part) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.path)
        except OSError:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            raise
        _sync_folder(self.path.parent)

    def clear(self) -> None:
        """Remove unfinished files of a process that was killed. OSError."""
        if self.path.parent.is_dir():
            narrow_modes(self.path.parent)
            for part in self.path.parent.glob(f"{self.path.name}.*-*"):
                if not _is_running(part.name):
                    part.unlink(missing_ok=True)


def _is_running(name: str) -> bool:
    number = name.rpartition(".")[2].partition("-")[0]
    if not number.isdigit():
        return True  # not one of ours
    try:
        os.kill(int(number), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return int(number) != os.getpid()


def _sync_folder(folder: "Path") -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
