"""A server that starts with closed standard streams, as cron and ssh may start it, serves and ends in order."""

import http.client
import os
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.slow

ANY = "127.0.0.1:0"
GONE_S = 30.0
_LOOK_S = 0.05


def is_ready(server: psutil.Process) -> bool:
    """Whether a port of the process says so. It may have no stream to say which ports it has."""
    ports = [each.laddr.port for each in server.net_connections("tcp") if each.status == psutil.CONN_LISTEN]
    return any(answers(port) for port in ports)


def answers(port: int) -> bool:
    with (
        suppress(OSError, http.client.HTTPException),
        closing(http.client.HTTPConnection("127.0.0.1", port, timeout=GONE_S)) as connection,
    ):
        connection.request("GET", "/health/ready")
        return connection.getresponse().status == 200
    return False


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_server_serves_and_ends_in_order(tmp_path: Path, closed: str) -> None:
    options = ("up", "--grpc", ANY, "--http", ANY, "--data-dir", str(tmp_path / "data"))
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "ternmq_command.main", *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        process = psutil.Process(server.pid)
        while server.poll() is None and not is_ready(process):
            time.sleep(_LOOK_S)  # no event: the process has no way to say it
        server.send_signal(signal.SIGTERM)
        assert server.wait(GONE_S) == 0


def up(folder: Path) -> list[str]:
    options = ("up", "--grpc", ANY, "--http", ANY, "--data-dir", str(folder / "data"))
    return [sys.executable, "-m", "ternmq_command.main", *options]


def test_a_server_ends_in_order_when_its_terminal_is_closed(tmp_path: Path) -> None:
    terminal, its_end = os.openpty()
    # `nohup` has SIGHUP ignored by all that it starts.
    command = ["env", "--default-signal=HUP", "setsid", "--ctty", *up(tmp_path)]
    with subprocess.Popen(command, stdin=its_end, stdout=its_end, stderr=its_end) as server:
        os.close(its_end)
        said = b""
        while b"\nready grpc=" not in said:  # the log says it too, in a line before
            try:
                said += os.read(terminal, 4096)
            except OSError as error:
                raise AssertionError(f"it ended with {server.wait(GONE_S)}: {said.decode()}") from error
        os.close(terminal)
        assert server.wait(GONE_S) == 0


def test_a_server_whose_output_nobody_reads_says_so(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(up(tmp_path), stdout=writing, stderr=subprocess.PIPE, text=True, timeout=GONE_S, check=False)
    os.close(writing)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "ternmq: can't write to standard output: Broken pipe"


def test_a_command_that_has_no_output_ends_as_ever() -> None:
    command = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "ternmq_command.main", "version"]
    done = subprocess.run(command, stderr=subprocess.PIPE, timeout=GONE_S, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
