"""Rescues the files that a server still has open of a data directory that was removed, moved, unmounted or replaced.

The kernel keeps a removed file as long as a process has it open, and `/proc/PID/fd` gives it to the process's user. A
broker has its whole log, its journal and its registry open, and a descriptor of each small file that can't be derived
(`store/live_files.py`). A start rebuilds everything else.

Order       Journal, side files, log, registry. A server that has noticed the loss takes no messages, and writes only
            copies for retries and due timers to the log; what the earlier files say is true of a later log.
Names       For a removed file the kernel gives its last name; for one on an unmounted disk a part of it. So a file is
            recognized by the end of its path.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ternmq_broker.store.disk.live_files import KEPT
from ternmq_broker.store.disk.overlay import open_overlay
from ternmq_broker.store_tools.durable_copies import copy_file, sync_folder
from ternmq_broker.store_tools.progress import Progress, ProgressSteps, no_progress
from ternmq_common.errors import StartupError
from ternmq_common.process.private_files import create_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

_PROC = Path("/proc")
_REMOVED = " (deleted)"
_BESIDE = ("store-id", "deletions-done", "secrets.key")
_IN_ORDER = (
    re.compile(r"(?:^|/)(store/consumption/journal)$"),
    re.compile(rf"(?:^|/)(store/(?:index/)?(?:{'|'.join(map(re.escape, sorted(KEPT)))}))$"),
    re.compile(rf"(?:^|/)({'|'.join(_BESIDE)})$"),
    re.compile(r"(?:^|/)(store/commitlog/\d{20})$"),
    re.compile(r"(?:^|/)(registry\.db)$"),
)
_LOG = _IN_ORDER[3]


@dataclass(frozen=True, slots=True)
class RescueResult:
    """The number and size of the files that were copied."""

    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class _OpenFile:
    """One file that the process has open: `name` in a data directory, and the link that opens it."""

    name: str
    link: Path
    size: int


def rescue_files(pid: int, target: Path, progress: Progress = no_progress, *, proc: Path = _PROC) -> RescueResult:
    """Copy what the process has open of its data directory to a new or empty folder, which becomes a data directory.
    StartupError, OSError.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise StartupError(f"{target} is not empty; give a folder that is, or none")
    found = _sort_files(_open_files(pid, proc))
    if not any(_LOG.search(each.name) for each in found):
        raise StartupError(
            f"process {pid} has no store open; a server that lost its data directory says in its log which process has"
        )
    stepping = ProgressSteps(progress, sum(each.size for each in found))
    create_folder(target)
    for each in found:
        place = target / each.name
        create_folder(place.parent)
        with open_overlay(each.link) as file:
            copy_file(file, file.size, place, stepping.add_bytes)
    for folder in (target.parent, target, *target.rglob("*/")):
        sync_folder(folder)
    stepping.finish_steps()
    return RescueResult(len(found), sum(each.size for each in found))


def _open_files(pid: int, proc: Path) -> list[tuple[str, Path]]:
    """Return the path of each open file, as the kernel gives it, and the link to it."""
    folder = proc / str(pid) / "fd"
    try:
        links = [each for each in folder.iterdir() if each.is_symlink()]
    except FileNotFoundError:
        raise StartupError(f"there is no process {pid} on this machine, or no /proc") from None
    except PermissionError:
        raise StartupError(f"process {pid} is another user's; run this as that user, or as root") from None
    found = []
    for link in links:
        try:
            found.append((str(link.readlink()), link))
        except FileNotFoundError:
            continue  # closed meanwhile
    return found


def _sort_files(paths: "Iterable[tuple[str, Path]]") -> list[_OpenFile]:
    found: dict[str, _OpenFile] = {}
    by_place: list[list[str]] = [[] for _ in _IN_ORDER]
    for path, link in sorted(paths, key=lambda each: int(each[1].name)):
        name = path.removesuffix(_REMOVED)
        for pattern, names in zip(_IN_ORDER, by_place, strict=True):
            if match := pattern.search(name):
                key = match[1]
                if key not in found:
                    names.append(key)
                # A file that was just replaced is open twice; the new one has the higher number, or the old one's.
                found[key] = _OpenFile(key, link, link.stat().st_size)
                break
    return [found[name] for names in by_place for name in sorted(names)]
