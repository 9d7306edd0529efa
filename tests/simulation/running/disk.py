"""A disk in memory below a replica's store: what was synced stays, the rest as chance says.

Files       a file's bytes survive when they were synced, its name when the folder's names were; `replace` is both. Of
            what was not, a power cut leaves any part, and zeros for the rest. A file that was cut off may come back as
            long as it was until its cutting was synced. A process that is killed loses nothing.
Generations each process opens the disk anew; what one that is no more still has open writes nothing.
Faults      while `fails` names them, appends, syncs or replacements raise the error.
"""

import asyncio
from typing import TYPE_CHECKING

from ternmq_broker.store.disk.reserve import DiskReserve
from ternmq_broker.store.disk.store_lock import StoreLock
from ternmq_broker.upkeep.disk_room import DiskBytes

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from ternmq_broker.store.disk.live_files import LiveFiles
    from tests.simulation.running.loop import WorldLoop

_FREE = DiskBytes(1 << 40, 1 << 41)
FOLDERS = ("root", "commit_log", "index", "timers", "consumption", "set_aside")


class _Content:
    """A file as the system has it, and as much of it as is safe."""

    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)
        self.safe = bytes(data)
        self.is_changed = False

    def sync(self) -> None:
        if self.is_changed:
            self.safe, self.is_changed = bytes(self.data), False

    def crash(self, dice: "random.Random") -> None:
        """What a power cut leaves."""
        if self.is_changed:
            same = _common(self.safe, self.data)
            newer = bytes(self.data[same:])
            kept = _left_of(newer, dice)
            if len(self.safe) > same:  # it was cut off, or written over
                self.data = bytearray(self.safe if dice.random() < 0.5 else self.safe[:same] + kept)
            else:
                noise = bytes(len(newer) - len(kept)) if dice.random() < 0.3 else b""
                self.data = bytearray(self.safe + kept + noise)
            self.is_changed = True
            self.sync()


def _left_of(unsynced: bytes, dice: "random.Random") -> bytes:
    """Nothing, the first part, or all but a part in between: a disk writes in any order."""
    chance = dice.random()
    if chance < 0.3:
        return b""
    begin, end = sorted((dice.randint(0, len(unsynced)), dice.randint(0, len(unsynced))))
    if chance < 0.6:
        return unsynced[:end]
    return unsynced[:begin] + bytes(end - begin) + unsynced[end:]


def _common(one: bytes, other: bytearray) -> int:
    size = min(len(one), len(other))
    if one[:size] == other[:size]:
        return size
    return next(place for place in range(size) if one[place] != other[place])


class _Names:
    """A folder as the system has it, and its names that are safe."""

    def __init__(self) -> None:
        self.files: dict[str, _Content] = {}
        self.safe: dict[str, _Content] = {}

    def crash(self, dice: "random.Random") -> None:
        files = dict(self.safe)
        unsafe = {name: file for name, file in self.files.items() if self.safe.get(name) is not file}
        files |= {name: file for name, file in unsafe.items() if dice.random() < 0.5}
        for name in [name for name in files if name not in self.files and dice.random() < 0.5]:
            del files[name]
        for file in files.values():
            file.crash(dice)
        self.files, self.safe = files, dict(files)


class SimulatedFile:
    """One that a process has open."""

    def __init__(self, disk: "SimulatedDisk", content: _Content) -> None:
        self._disk = disk
        self._content = content
        self._generation = disk.generation

    @property
    def size(self) -> int:
        return len(self._content.data)

    def append(self, pieces: "Sequence[bytes]") -> None:
        self._disk.check(self._generation, "append")
        self._content.data += b"".join(pieces)
        self._content.is_changed = True

    def read(self, position: int, size: int, *, may_block: bool = True) -> bytes:
        del may_block
        return bytes(self._content.data[position : position + size])

    def read_from_disk(self, position: int, size: int) -> bytes:
        return self.read(position, size)

    def overwrite(self, position: int, data: bytes) -> None:
        self._disk.check(self._generation, "append")
        self._content.data[position : position + len(data)] = data
        self._content.is_changed = True

    def truncate(self, size: int) -> None:
        self._disk.check(self._generation, "truncate")
        del self._content.data[size:]
        self._content.is_changed = True

    def seal(self) -> None: ...

    def sync(self) -> None:
        self._disk.check(self._generation, "sync")
        self._content.sync()

    def close(self) -> None: ...


class SimulatedFolder:
    """One that a process has open."""

    def __init__(self, disk: "SimulatedDisk", names: _Names) -> None:
        self._disk = disk
        self._names = names
        self._generation = disk.generation

    def names(self) -> list[str]:
        return sorted(self._names.files)

    def open(self, name: str, *, reserve_bytes: int = 0) -> SimulatedFile:
        del reserve_bytes
        if name not in self._names.files:
            raise FileNotFoundError(2, "No such file or directory", name)
        return SimulatedFile(self._disk, self._names.files[name])

    def create(self, name: str, *, reserve_bytes: int = 0) -> SimulatedFile:
        del reserve_bytes
        self._disk.check(self._generation, "create")
        if name in self._names.files:
            raise FileExistsError(17, "File exists", name)
        self._names.files[name] = _Content()
        return SimulatedFile(self._disk, self._names.files[name])

    def sync_names(self) -> None:
        self._disk.check(self._generation, "sync")
        self._names.safe = dict(self._names.files)

    def remove(self, name: str) -> None:
        self._disk.check(self._generation, "remove")
        if name not in self._names.files:
            raise FileNotFoundError(2, "No such file or directory", name)
        del self._names.files[name]

    def replace(self, name: str, content: bytes) -> None:
        self._disk.check(self._generation, "replace")
        self._names.files[name] = _Content(content)
        self.sync_names()

    def content(self, name: str) -> bytes | None:
        file = self._names.files.get(name)
        return None if file is None else bytes(file.data)


class SimulatedFolders:
    def __init__(self, disk: "SimulatedDisk") -> None:
        folders = {name: SimulatedFolder(disk, disk.names[name]) for name in FOLDERS}
        self.root, self.commit_log = folders["root"], folders["commit_log"]
        self.index, self.timers = folders["index"], folders["timers"]
        self.consumption, self.set_aside = folders["consumption"], folders["set_aside"]


class _Lock(StoreLock):
    def __init__(self) -> None:
        """Of a process that has the machine for itself."""

    def watch_with(self, live: "LiveFiles") -> None: ...

    def release(self) -> None: ...


class _Reserve(DiskReserve):
    """There is always room; a probe fails as appends do."""

    def __init__(self, disk: "SimulatedDisk") -> None:
        self._disk = disk
        self._generation = disk.generation
        self.size = 0

    @property
    def left_bytes(self) -> int:
        return 0

    def fill_reserve(self) -> None: ...

    def probe_disk(self) -> None:
        self._disk.check(self._generation, "append")

    def give_slice(self, *, may_use_all: bool) -> bool:
        del may_use_all
        return False


class _SyncWorker:
    """Syncs after a while, as a disk does; see `SyncWorker`."""

    def __init__(self, disk: "SimulatedDisk") -> None:
        self._disk = disk
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._is_ending = False

    def start(self, work: "Callable[[], None]", done: "Callable[[], None]") -> None:
        self._work, self._done = work, done
        self._loop = asyncio.get_running_loop()

    def request_work(self) -> None:
        self._is_idle.clear()
        self._loop.call_later(self._disk.sync_s(), self._sync)

    def _sync(self) -> None:
        self._work()
        self._loop.call_later(self._disk.loop.dice.uniform(0, 0.0002), self._tell)

    def _tell(self) -> None:
        self._is_idle.set()
        if not self._is_ending:
            self._done()

    async def stop(self) -> None:
        self._is_ending = True
        await self._is_idle.wait()


class SimulatedDisk:
    """One machine's disk, through all its processes: a `StoreDisk`."""

    def __init__(self, loop: "WorldLoop") -> None:
        self.loop = loop
        self.names = {name: _Names() for name in FOLDERS}
        self.generation = 0
        self.slow_until_s = 0.0
        self.fails: dict[str, OSError] = {}

    # --- StoreDisk

    def lock_store(self) -> StoreLock:
        return _Lock()

    def open_folders(self, live: "LiveFiles | None" = None) -> SimulatedFolders:
        del live
        return SimulatedFolders(self)

    def free_space(self) -> DiskBytes:
        return _FREE

    def open_reserve(self) -> DiskReserve:
        return _Reserve(self)

    def sync_worker(self) -> _SyncWorker:
        return _SyncWorker(self)

    def monotonic_s(self) -> float:
        return self.loop.time()

    def wall_s(self) -> float:
        return self.loop.time()

    def processor_s(self) -> float:
        """How busy the machine of the simulation is must change nothing."""
        return 0.0

    # --- the world

    def sync_s(self) -> float:
        """How long a sync takes now."""
        dice = self.loop.dice
        if self.loop.time() < self.slow_until_s:
            return dice.uniform(0.05, 1.0)
        return dice.uniform(0.0005, 0.004 if dice.random() < 0.9 else 0.05)

    def check(self, generation: int, what: str) -> None:
        """OSError if that fails now, or the process is no more."""
        if generation != self.generation:
            raise OSError(5, "the process that has this open is no more")
        if (error := self.fails.get(what)) is not None:
            raise OSError(error.errno, error.strerror)

    def end_process(self, *, power_lost: bool) -> None:
        """Nobody has it open any more."""
        self.generation += 1
        self.fails.clear()
        if power_lost:
            for names in self.names.values():
                names.crash(self.loop.dice)

    def is_safe(self, needle: bytes) -> bool:
        """Whether a power cut now would leave these bytes in the log."""
        return any(needle in file.safe for file in self.names["commit_log"].safe.values())

    def safe_end(self) -> int:
        """Up to which log offset a power cut now would leave the log."""
        segments = self.names["commit_log"].safe
        last = max(segments, default="0")
        return int(last) + (len(segments[last].safe) if segments else 0)

    def has(self, needle: bytes) -> bool:
        """Whether these bytes are in the log now."""
        return any(needle in file.data for file in self.names["commit_log"].files.values())

    def log(self) -> dict[str, bytes]:
        """The segments."""
        return {name: bytes(file.data) for name, file in sorted(self.names["commit_log"].files.items())}
