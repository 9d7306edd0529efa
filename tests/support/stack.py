"""Real server processes for tests: `ternmq up`, on free ports, with its data in a folder that the test gives.

Ready    a server prints one line, `ready NAME=HOST:PORT ...`; `start` waits on the pipe for it.
Restart  comes back on the same folder and the same ports, so that clients can reconnect.
Errors   whatever goes wrong is raised with the end of the server's log.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Self

import psutil

from tests.support.ports import free_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 60.0
LOG_TAIL_CHARACTERS = 4000


def config_options(folder: Path, settings: str) -> tuple[str, str]:
    """The options of a server that reads these settings, which are written to a file in the folder."""
    config = folder / "ternmq.toml"
    config.write_text(settings)
    return "--config", str(config)


class ServerProcess:
    """A server: `with ServerProcess(...) as server`. `addresses` has what its ready line names, and stays the same.

    `within` comes before the command, such as `ip netns exec NAME`, and becomes it.

    Invariants: after `start` the process has served; after `__exit__` no process is left.
    """

    within: Sequence[str] = ()

    def __init__(
        self, folder: Path, *arguments: str, addresses: Sequence[str], environment: Mapping[str, str] = {}
    ) -> None:
        """`addresses` are the names of the options that take an address, and of the addresses of the ready line."""
        self._folder, self._arguments, self._environment = folder, arguments, environment
        self.addresses = {name: free_address() for name in addresses}
        self.log = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process of the last `start`, which may have ended since."""
        assert self._process is not None, "the server was not started"
        return self._process

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill9()

    def start(self) -> None:
        """Start the server and return once it serves."""
        self.begin()
        self.wait_until_ready()

    def begin(self) -> None:
        """Start the server's process."""
        assert self._process is None or self._process.poll() is not None, "the server runs already"
        self._folder.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            environment = {**os.environ, **self._environment}
            self._process = subprocess.Popen(self.command(), stdout=subprocess.PIPE, stderr=log, env=environment)

    def wait_until_ready(self) -> None:
        """Return once the server that has begun serves."""
        try:
            self.addresses = ready_addresses(self._first_line(START_TIMEOUT_S), self.addresses)
        except BaseException:
            self.kill9()
            raise

    def command(self) -> Sequence[str]:
        """The command line of the server."""
        options = (text for name, address in self.addresses.items() for text in (f"--{name}", address))
        return (*self.within, sys.executable, "-m", "ternmq_command.main", *self._arguments, *options)

    def pause(self) -> None:
        """Stop answering, as a machine that hangs."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill9(self) -> None:
        """End the server as a crash does; nothing happens if it has ended."""
        self.process.kill()  # also one that was paused
        self.process.wait()
        self._close_output()

    def kill9_with_workers(self) -> None:
        """End the server and its workers, as the end of their machine does."""
        workers = psutil.Process(self.process.pid).children(recursive=True)
        self.kill9()
        for each in workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(workers)

    def terminate(self) -> int:
        """Ask the server to end and return its exit code."""
        self.process.terminate()
        try:
            code = self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill9()
            raise AssertionError(f"no end within {STOP_TIMEOUT_S} s of SIGTERM\n{self.log_tail()}") from None
        self._close_output()
        return code

    def restart(self) -> None:
        """End the server in order if it still runs, and start it again on the same data and ports."""
        if self.process.poll() is None:
            self.terminate()
        self.start()

    def log_tail(self) -> str:
        """The end of what all processes of this server wrote to their standard error."""
        return self.log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]

    def _first_line(self, timeout_s: float) -> str:
        assert self.process.stdout is not None
        output, received = self.process.stdout.fileno(), b""
        deadline = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            while not received.endswith(b"\n"):
                if not selector.select(deadline - time.monotonic()):
                    raise AssertionError(f"not ready within {timeout_s} s, printed {received!r}\n{self.log_tail()}")
                chunk = os.read(output, 1)
                if not chunk:
                    code = self.process.wait()
                    raise AssertionError(f"ended with {code} before it was ready\n{self.log_tail()}")
                received += chunk
        return received.decode()

    def _close_output(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.close()


class Stack(ServerProcess):
    """A running `ternmq up`: `with Stack(tmp_path) as stack: ... stack.grpc`."""

    def __init__(self, folder: Path, *options: str, environment: Mapping[str, str] = {}) -> None:
        self.data_dir = folder / "data"
        arguments = ("up", "--data-dir", str(self.data_dir), *options)
        super().__init__(folder, *arguments, addresses=("grpc", "http"), environment=environment)

    @property
    def grpc(self) -> str:
        return self.addresses["grpc"]

    @grpc.setter
    def grpc(self, address: str) -> None:
        self.addresses["grpc"] = address

    @property
    def http(self) -> str:
        return self.addresses["http"]

    @http.setter
    def http(self, address: str) -> None:
        self.addresses["http"] = address


def ready_addresses(line: str, names: Iterable[str]) -> dict[str, str]:
    """The addresses of these names, out of `ready NAME=HOST:PORT ...`."""
    words = line.split()
    addresses = dict(word.split("=", 1) for word in words[1:] if "=" in word)
    wanted = list(names)
    if words[:1] != ["ready"] or not set(wanted) <= addresses.keys():
        raise AssertionError(f"the server's first line is not a ready line: {line!r}")
    return {name: addresses[name] for name in wanted}
