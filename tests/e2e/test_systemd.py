"""The service file starts a server that says when it serves and when it ends, as systemd wants to hear it."""

import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SERVICE = Path(__file__).parents[2] / "deploy" / "systemd" / "ternmq.service"
PATIENCE_S = 60.0


def section(name: str) -> dict[str, str]:
    parser = ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(SERVICE)
    return dict(parser[name])


@pytest.fixture
def told(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    """The address that a service is given, and the socket of who listens there."""
    name = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.settimeout(PATIENCE_S)
        listening.bind(name if request.param == "path" else "\0" + name)
        yield (name if request.param == "path" else "@" + name), listening


@pytest.mark.parametrize(("told", "workers"), [("path", 1), ("abstract", 2)], indirect=["told"])
def test_the_service_says_when_it_serves_and_when_it_ends(
    told: tuple[str, socket.socket], tmp_path: Path, workers: int
) -> None:
    address, listening = told
    service = section("Service")
    assert (service["Type"], service["NotifyAccess"]) == ("notify", "main")
    words = shlex.split(service["ExecStart"].replace("/var/lib/ternmq", str(tmp_path / "data")))
    assert words[0] == "/opt/ternmq/bin/ternmq"
    command = [sys.executable, "-m", "ternmq_command.main", *words[1:], "--workers", str(workers)]
    environ = {**os.environ, "NOTIFY_SOCKET": address, "TERNMQ_GRPC": "127.0.0.1:0", "TERNMQ_HTTP": "127.0.0.1:0"}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as server:
        try:
            ready, status = listening.recv(4096).decode().split("\n")
            assert ready == "READY=1"
            assert server.stdout is not None
            assert status == f"STATUS={server.stdout.readline().strip()}"
            server.send_signal(signal.SIGTERM)
            assert listening.recv(4096) == b"STOPPING=1"
            assert server.wait(PATIENCE_S) == 0
        finally:
            server.kill()


def test_nobody_who_listens_is_no_reason_to_end(tmp_path: Path) -> None:
    environ = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "nobody")}
    addresses = ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    command = [sys.executable, "-m", "ternmq_command.main", "up", "--data-dir", str(tmp_path / "data"), *addresses]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("ready ")
        server.send_signal(signal.SIGTERM)
        _, written = server.communicate(timeout=PATIENCE_S)
    assert server.returncode == 0
    assert "cannot notify systemd of READY=1" in written
