"""`ternmq up` with a certificate as a process, and as several: TLS at both ports, SIGHUP, and files that are none."""

import signal
import ssl
import subprocess
import sys
import time
from pathlib import Path

import grpc
import pytest

from tests.support.certificates import Certificates
from tests.support.stack import Stack
from tests.support.workers import WorkerStack

pytestmark = [pytest.mark.slow]


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "certificates")


def options(certificates: Certificates) -> list[str]:
    cert, key = certificates.issue("server")
    return ["--tls-cert", str(cert), "--tls-key", str(key)]


def shown(address: str) -> str:
    """The certificate at the address, in PEM form."""
    host, port = address.rsplit(":", 1)
    return ssl.get_server_certificate((host, int(port)), timeout=10)


@pytest.mark.parametrize(("kind", "more"), [(Stack, []), (WorkerStack, ["--workers", "2"])])
def test_tls_is_spoken_at_both_ports(
    kind: type[Stack], more: list[str], certificates: Certificates, tmp_path: Path
) -> None:
    with kind(tmp_path / "data", *options(certificates), *more) as server:
        trusted = grpc.ssl_channel_credentials(certificates.ca.read_bytes())
        with grpc.secure_channel(server.grpc, trusted) as channel:
            grpc.channel_ready_future(channel).result(timeout=20)
        assert shown(server.grpc) == shown(server.http)


def test_sighup_takes_new_files_and_ends_nothing(certificates: Certificates, tmp_path: Path) -> None:
    with Stack(tmp_path / "data", *options(certificates)) as server:
        before = shown(server.grpc)
        options(certificates)
        server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 60
        while shown(server.grpc) == before:
            assert time.monotonic() < deadline
        assert server.process.poll() is None
        assert server.terminate() == 0


def test_a_start_with_files_that_are_none_ends_with_their_names(tmp_path: Path) -> None:
    missing = tmp_path / "none.pem"
    ended = subprocess.run(
        [sys.executable, "-m", "ternmq_command.main", "up", "--data-dir", str(tmp_path / "data"),
         "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--tls-cert", str(missing), "--tls-key", str(missing)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 1
    assert f"tls_cert: {missing} can't be read: No such file or directory" in ended.stderr
