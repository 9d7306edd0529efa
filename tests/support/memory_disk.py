"""Files in memory that lose power: what was not synced may be gone, in part, or replaced by noise."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class MemoryFile:
    def __init__(self, content: bytes = b"") -> None:
        self.content = bytearray(content)
        self.safe = len(content)
        self.full_after: int | None = None
        self.overwritten: list[tuple[int, bytes]] = []
        """What was there before bytes that were written over it, which are not synced."""

    @property
    def size(self) -> int:
        return len(self.content)

    def append(self, pieces: "Sequence[bytes]") -> None:
        data = b"".join(pieces)
        if self.full_after is not None and len(self.content) + len(data) > self.full_after:
            raise OSError(28, "No space left on device")
        self.content += data

    def read(self, position: int, size: int, *, may_block: bool = True) -> bytes:
        return bytes(self.content[position : position + size])

    def read_from_disk(self, position: int, size: int) -> bytes:
        return self.read(position, size)

    def overwrite(self, position: int, data: bytes) -> None:
        end = position + len(data)
        self.overwritten.append((position, bytes(self.content[position : min(end, self.safe)])))
        self.content[position:end] = data

    def truncate(self, size: int) -> None:
        del self.content[size:]
        self.safe = min(self.safe, size)

    def seal(self) -> None:
        pass

    def sync(self) -> None:
        self.safe = len(self.content)
        self.overwritten.clear()

    def close(self) -> None:
        pass


@dataclass
class MemoryFolder:
    """A folder; `crash` gives what a disk may hold after a power cut."""

    files: dict[str, MemoryFile] = field(default_factory=dict)
    safe_names: set[str] = field(default_factory=set)

    def names(self) -> list[str]:
        return sorted(self.files)

    def open(self, name: str, *, reserve_bytes: int = 0) -> MemoryFile:
        del reserve_bytes
        return self.files[name]

    def create(self, name: str, *, reserve_bytes: int = 0) -> MemoryFile:
        del reserve_bytes
        assert name not in self.files
        self.files[name] = MemoryFile()
        return self.files[name]

    def sync_names(self) -> None:
        self.safe_names = set(self.files)

    def remove(self, name: str) -> None:
        del self.files[name]
        self.safe_names.discard(name)

    def replace(self, name: str, content: bytes) -> None:
        self.files[name] = MemoryFile(content)
        self.safe_names.add(name)

    def content(self, name: str) -> bytes | None:
        return bytes(self.files[name].content) if name in self.files else None

    def crash(self, keep: "Callable[[int], int]", noise: bytes) -> "MemoryFolder":
        """The folder after a power cut: of each file's unsynced bytes the first `keep(count)`, then `noise` in their
        place as far as the file was long, and of what was written over others; a file whose name was not synced may be
        missing."""
        survivor = MemoryFolder()
        for name, file in self.files.items():
            if name not in self.safe_names and keep(1) == 0:
                continue
            unsynced = len(file.content) - file.safe
            kept = file.safe + keep(unsynced)
            lost = len(file.content) - kept
            content = bytearray(file.content[:kept] + noise[:lost])
            for position, before in reversed(file.overwritten):
                new = keep(len(before))
                content[position + new : position + len(before)] = before[new:]
            survivor.files[name] = MemoryFile(bytes(content))
        survivor.sync_names()
        return survivor


@dataclass
class MemoryFolders:
    """The folders of a store."""

    root: MemoryFolder = field(default_factory=MemoryFolder)
    commit_log: MemoryFolder = field(default_factory=MemoryFolder)
    index: MemoryFolder = field(default_factory=MemoryFolder)
    timers: MemoryFolder = field(default_factory=MemoryFolder)
    set_aside: MemoryFolder = field(default_factory=MemoryFolder)

    def crash(self, keep: "Callable[[int], int]", noise: bytes) -> "MemoryFolders":
        return MemoryFolders(
            self.root.crash(keep, noise),
            self.commit_log.crash(keep, noise),
            self.index.crash(keep, noise),
            self.timers.crash(keep, noise),
            self.set_aside.crash(keep, noise),
        )
