"""Runs `ternmq up` as a process for the other benchmarks, and reads what it uses."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def start_server(
    folder: Path, *options: str, environment: Mapping[str, str] = {}
) -> tuple["subprocess.Popen[str]", str]:
    """Start a server; return the process, once it serves, and its endpoint."""
    command = [sys.executable, "-m", "ternmq_command.main", "up", "--data-dir", str(folder), "--log-level", "warning"]
    addresses = ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    # Thousands of groups are used, each once.
    variables = {**os.environ, "TERNMQ_AUTO_CREATE_PER_MINUTE": "1000000", **environment}
    server = subprocess.Popen([*command, *addresses, *options], stdout=subprocess.PIPE, text=True, env=variables)
    assert server.stdout is not None
    ready = server.stdout.readline().split()
    return server, ready[1].removeprefix("grpc=")


def status_kib(pid: int, field: str) -> int:
    """Return a field of the process's status that counts memory, such as `VmRSS`."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    raise LookupError(field)


def cpu_s(pid: int) -> float:
    """Return the processor seconds of all threads so far, from the kernel's count in nanoseconds, not in ticks."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
