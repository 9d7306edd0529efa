"""Measures the CPU time of a server on this machine, by Linux's /proc."""

import ipaddress
import os
from pathlib import Path
from typing import Self

from ternmq_common.addresses import parse_address

PROC = Path("/proc")
_LISTENING = "0A"
# Fields of /proc/PID/stat, counted behind the name, which may contain anything.
_USER_TICKS, _SYSTEM_TICKS = 11, 12


class ServerCpu:
    """The CPU time of these processes since the object was created; unknown without processes."""

    def __init__(self, pids: set[int]) -> None:
        self._before = {pid: ticks for pid in pids if (ticks := _cpu_ticks(pid)) is not None}

    @classmethod
    def for_endpoint(cls, endpoint: str) -> Self:
        """Return that of the server at HOST:PORT, if it runs on this machine as this user."""
        host, port = parse_address(endpoint)
        return cls(_listening_pids(port) if _is_loopback(host) else set())

    def used_s(self) -> float | None:
        """Return the CPU seconds since then; None if they are unknown, or a process has ended."""
        ticks = [(_cpu_ticks(pid), before) for pid, before in self._before.items()]
        if not ticks or any(after is None for after, _ in ticks):
            return None
        return sum((after or 0) - before for after, before in ticks) / os.sysconf("SC_CLK_TCK")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listening_pids(port: int) -> set[int]:
    """Return the ids of this user's processes that listen at that port."""
    wanted = {f"socket:[{inode}]" for name in ("tcp", "tcp6") for inode in _socket_inodes(PROC / "net" / name, port)}
    if not wanted:
        return set()
    return {
        int(path.name) for path in PROC.iterdir() if path.name.isdigit() and not wanted.isdisjoint(_open_files(path))
    }


def _socket_inodes(table: Path, port: int) -> set[str]:
    try:
        rows = [line.split() for line in table.read_text().splitlines()[1:]]
    except OSError:  # no Linux
        return set()
    return {row[9] for row in rows if row[3] == _LISTENING and int(row[1].rpartition(":")[2], 16) == port}


def _open_files(process: Path) -> set[str]:
    """Return the files of the process's descriptors; none if it has ended, or belongs to another user."""
    found = set()
    try:
        for descriptor in (process / "fd").iterdir():
            found.add(str(descriptor.readlink()))
    except OSError:
        pass
    return found


def _cpu_ticks(pid: int) -> int | None:
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])
