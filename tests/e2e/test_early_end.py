"""SIGTERM and Ctrl-C end a server in order before it serves, too, from the first moment on."""

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.support.until import until

pytestmark = pytest.mark.slow

ANY = "127.0.0.1:0"
GONE_S = 30.0
SERVERS = {
    "up": ("up", "--grpc", ANY, "--http", ANY),
    "up with workers": ("up", "--grpc", ANY, "--http", ANY, "--workers", "2"),
    "broker": ("broker", "--storage", ANY, "--http", ANY),
    "proxy": ("proxy", "--grpc", ANY, "--http", ANY),
    "proxy with workers": ("proxy", "--grpc", ANY, "--http", ANY, "--workers", "2"),
}
SIGNALS = [signal.SIGTERM, signal.SIGINT]
Server = subprocess.Popen[str]


@contextmanager
def started(*arguments: str) -> Iterator[Server]:
    """A server that begins, which is gone afterwards, with all that it started."""
    command = [sys.executable, "-m", "ternmq_command.main", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            yield server
        finally:
            server.kill()


def ended(server: Server) -> tuple[int, str, str]:
    """Exit code and what it wrote."""
    written, told = server.communicate(timeout=GONE_S)
    return server.returncode, written, told


def processes_of(server: Server) -> list[psutil.Process]:
    """The server's, the first one first."""
    return [psutil.Process(server.pid), *psutil.Process(server.pid).children()]


def files_of(process: psutil.Process) -> set[str]:
    """The paths that it has open; none of one that has ended."""
    with suppress(psutil.Error):
        return {file.path for file in process.open_files()}
    return set()


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


@contextmanager
def waiting_at(fifo: Path, server: Server) -> Iterator[None]:
    """Within it the server has the FIFO open, and waits for what is written there, which is nothing.

    A signal between its last look for signals and its read would wait as long as the read, as with all of Python. It
    sleeps when it reads: this end of the FIFO has woken it.
    """
    with fifo.open("wb"):
        while psutil.Process(server.pid).status() != psutil.STATUS_SLEEPING:
            assert server.poll() is None, "it has ended"
            time.sleep(0.01)  # there is no event
        yield


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("arguments", SERVERS.values(), ids=list(SERVERS))
def test_a_server_that_reads_its_settings_ends_at_once(
    fifo: Path, arguments: Sequence[str], number: signal.Signals
) -> None:
    with started(*arguments, "--config", str(fifo)) as server, waiting_at(fifo, server):
        server.send_signal(number)
        assert ended(server) == (0, "", "")


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("name", ["broker", "proxy", "proxy with workers"])
def test_a_server_that_waits_for_its_registry_ends_in_order(tmp_path: Path, name: str, number: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        registry = f"postgresql://u@127.0.0.1:{silent.getsockname()[1]}/ternmq"
        folder = ("--data-dir", str(tmp_path / "data")) if name == "broker" else ()
        with started(*SERVERS[name], *folder, "--registry", registry) as server:
            connected, _ = silent.accept()
            with connected:
                processes = processes_of(server)
                server.send_signal(number)
                code, written, log = ended(server)
    assert (code, written) == (0, "")
    assert "Traceback" not in log
    assert psutil.wait_procs(processes, timeout=GONE_S)[1] == []
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("name", ["up", "up with workers"])
async def test_a_server_that_opens_its_files_ends_in_order_and_can_begin_again(
    tmp_path: Path, name: str, number: signal.Signals
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    registry = data / "registry.db"
    with started(*SERVERS[name], "--data-dir", str(data)) as server:
        with closing(sqlite3.connect(registry, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")  # nobody can open it now
            await until(lambda: any(str(registry) in files_of(each) for each in processes_of(server)))
            processes = processes_of(server)
            server.send_signal(number)
            assert server.stderr is not None
            assert any("stopping" in line for line in server.stderr)
        code, written, log = ended(server)
    assert (code, written) == (0, "")
    assert "Traceback" not in log
    assert psutil.wait_procs(processes, timeout=GONE_S)[1] == []
    with started(*SERVERS[name], "--data-dir", str(data)) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("ready ")
        server.send_signal(number)
        assert ended(server)[0] == 0


def test_a_command_that_is_no_server_ends_as_signals_end_it() -> None:
    """SIGTERM is not success where nothing was to run until it comes."""
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        started("broker", "list", "--endpoint", f"127.0.0.1:{silent.getsockname()[1]}") as command,
    ):
        connected, _ = silent.accept()
        with connected:
            command.send_signal(signal.SIGTERM)
            assert ended(command)[0] == -signal.SIGTERM
