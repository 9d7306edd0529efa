"""Processor time, memory and cores of running processes, from /proc."""

import contextlib
import os
import resource
import threading
from collections.abc import Collection, Iterator
from pathlib import Path

import psutil

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
MB = 1_000_000
_URGENT = 10


def family(roots: Collection[int]) -> list[int]:
    """Return these processes and all that descend from them."""
    return [
        pid for root in roots for pid in (root, *(child.pid for child in psutil.Process(root).children(recursive=True)))
    ]


def cpu_s(roots: Collection[int]) -> float:
    """Return the processor seconds of these and their descendants so far, including ended threads and children."""
    return sum(_ticks(pid) for pid in family(roots)) / TICKS_PER_S


def _ticks(pid: int) -> int:
    # The name in parentheses may have spaces; after it come the state and, as fields 14 to 17, the four times.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15]))


def memory_mb(roots: Collection[int], field: str = "VmRSS") -> float:
    """Return the resident megabytes of these and their descendants; with field `RssAnon` without pages of files."""
    return sum(_status_kib(pid, field) for pid in family(roots)) * 1024 / MB


def _status_kib(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    raise LookupError(f"process {pid} has no {field}")


@contextlib.contextmanager
def pinned(cores: Collection[int]) -> Iterator[None]:
    """Keep processes that this thread starts in the block on these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def urgent() -> Iterator[None]:
    """Have processes that this thread starts in the block get their core at once, if this user may request that."""
    thread = threading.get_native_id()
    before = os.getpriority(os.PRIO_PROCESS, thread)
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, thread, before - _URGENT)
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, thread, before)


@contextlib.contextmanager
def in_the_background(roots: Collection[int]) -> Iterator[None]:
    """Lower the priority of these and their descendants for the block: they run only on an idle core."""
    _schedule(roots, os.SCHED_IDLE)
    try:
        yield
    finally:
        _schedule(roots, os.SCHED_OTHER)


def _schedule(roots: Collection[int], policy: int) -> None:
    for pid in family(roots):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):  # threads come and go
                os.sched_setscheduler(int(thread.name), policy, os.sched_param(0))


def allow_many_files() -> None:
    """Raise the limit of open files: thousands of connections are files, here and in processes started from here."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
