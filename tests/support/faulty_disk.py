"""Files in memory whose disk is full, or that can't be deleted, when a test says so."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.memory_disk import MemoryFile, MemoryFolder, MemoryFolders

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass
class Faults:
    """What fails now: writes to files whose names begin with one of `full` (an empty one for all), and deletions of
    files of these names."""

    full: tuple[str, ...] = ()
    stuck: set[str] = field(default_factory=set)

    def check_write(self, name: str) -> None:
        if name.startswith(self.full):
            raise OSError(28, "No space left on device", name)


class FaultyFile(MemoryFile):
    def __init__(self, name: str, faults: Faults) -> None:
        super().__init__()
        self._name = name
        self._faults = faults
        self.closed = 0

    def append(self, pieces: "Sequence[bytes]") -> None:
        self._faults.check_write(self._name)
        super().append(pieces)

    def close(self) -> None:
        self.closed += 1


@dataclass
class FaultyFolder(MemoryFolder):
    """`label` is what the names of its files begin with, for `Faults.full`. `opened` has every file that was made."""

    faults: Faults = field(default_factory=Faults)
    label: str = ""
    opened: dict[str, FaultyFile] = field(default_factory=dict)

    def create(self, name: str, *, reserve_bytes: int = 0) -> FaultyFile:
        del reserve_bytes
        assert name not in self.files
        file = FaultyFile(self.label + name, self.faults)
        self.files[name] = self.opened[name] = file
        return file

    def open(self, name: str, *, reserve_bytes: int = 0) -> MemoryFile:
        found = super().open(name, reserve_bytes=reserve_bytes)
        if isinstance(found, FaultyFile):
            return found
        file = FaultyFile(self.label + name, self.faults)
        file.content += found.content
        self.files[name] = self.opened[name] = file
        return file

    def replace(self, name: str, content: bytes) -> None:
        self.faults.check_write(self.label + name)
        super().replace(name, content)

    def remove(self, name: str) -> None:
        if name in self.faults.stuck:
            raise OSError(5, "Input/output error", name)
        super().remove(name)


class FaultyFolders(MemoryFolders):
    """The folders of a store whose disk has `faults`."""

    def __init__(self) -> None:
        faults = self.faults = Faults()
        names = ("root/", "log/", "index/", "timers/", "consumption/")
        root, log, index, timers, self.consumption = (FaultyFolder(faults=faults, label=name) for name in names)
        super().__init__(root, log, index, timers)
        self.index_folder, self.log_folder, self.timer_folder = index, log, timers
