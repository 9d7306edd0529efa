"""What goes wrong at the start is one clear line on standard error that says what to do; what goes wrong later hurts
nobody else."""

import json
import os
import socket
import subprocess
import sys
import urllib.request
from datetime import timedelta
from pathlib import Path

import pytest

from ternmq import Message
from ternmq.blocking import Producer, SimpleConsumer
from tests.support.stack import Stack

pytestmark = pytest.mark.slow
# Root may do anything; without its capabilities it is a user like others.
WITHOUT_POWERS = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()


def refused(
    *options: str, environ: dict[str, str] | None = None, code: int = 1, started_by: tuple[str, ...] = ()
) -> str:
    """The one line that `ternmq up` ends with; its exit code must say that it failed."""
    addresses = ("--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")
    ended = subprocess.run(
        [*WITHOUT_POWERS, *started_by, sys.executable, "-m", "ternmq_command.main", "up", *addresses, *options],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **(environ or {})},
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (code, "")
    lines = [line for line in ended.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, ended.stderr
    return lines[0]


def test_a_second_stack_on_the_same_data(stack: Stack) -> None:
    line = refused("--data-dir", str(stack.data_dir))
    assert f"in use by another stack (process {stack.process.pid})" in line
    assert str(stack.data_dir) in line
    assert "--data-dir" in line


@pytest.mark.parametrize("which", ["grpc", "http"])
def test_a_port_in_use(stack: Stack, tmp_path: Path, which: str) -> None:
    taken = getattr(stack, which)
    line = refused("--data-dir", str(tmp_path / "other"), f"--{which}", taken)
    assert taken in line
    assert f"--{which}" in line


@pytest.mark.parametrize("options", [(), ("--workers", "2")])
def test_too_few_file_descriptors(tmp_path: Path, options: tuple[str, ...]) -> None:
    """A low limit that may be raised is; this one is the highest that the process may have."""
    line = refused("--data-dir", str(tmp_path / "data"), *options, started_by=("prlimit", "--nofile=64:64"))
    assert "this process may have 64 file descriptors, and a server needs 256" in line
    assert "ulimit" in line


def test_a_low_limit_of_descriptors_is_raised_as_far_as_it_may_be(tmp_path: Path) -> None:
    stack = Stack(tmp_path)
    stack.within = ("prlimit", "--nofile=64:4096")
    with stack:
        limits = Path(f"/proc/{stack.process.pid}/limits").read_text()
        assert ["4096", "4096"] in [line.split()[3:5] for line in limits.splitlines()]
        stack.terminate()


def test_a_data_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    line = refused("--data-dir", str(tmp_path / "file"))
    assert str(tmp_path / "file") in line
    assert "--data-dir" in line


def test_a_data_directory_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    line = refused("--data-dir", str(tmp_path / "data"))
    assert "Permission denied" in line
    assert "--data-dir" in line


def test_a_damaged_log_needs_consent(tmp_path: Path) -> None:
    with Stack(tmp_path) as stack:
        with Producer(stack.grpc, topics=["t"]) as producer:
            producer.send_many([Message("t", b"%d" % number) for number in range(10)])
        stack.terminate()
    segment = stack.data_dir / "store" / "commitlog" / f"{0:020d}"
    for index_file in (stack.data_dir / "store" / "index").iterdir():
        index_file.unlink()
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 0xFF
    segment.write_bytes(content)
    line = refused("--data-dir", str(stack.data_dir))
    assert "damaged at log offset" in line
    assert "--accept-corruption" in line
    with (
        Stack(tmp_path, "--accept-corruption") as consenting,
        SimpleConsumer(consenting.grpc, "g", {"t": "*"}, await_duration=timedelta(seconds=2)) as consumer,
    ):
        found: list[bytes] = []
        while views := consumer.receive():
            found += [view.body for view in views]
            consumer.ack(views)
    assert len(found) == 9


def test_an_unknown_setting_names_the_nearest(tmp_path: Path) -> None:
    config = tmp_path / "ternmq.toml"
    config.write_text('retention_mss = "72h"\n')
    line = refused("--data-dir", str(tmp_path / "data"), "--config", str(config), code=2)
    assert "retention_mss" in line
    assert "retention_ms" in line.replace("retention_mss", "")


def test_an_unknown_variable_names_the_nearest(tmp_path: Path) -> None:
    line = refused("--data-dir", str(tmp_path / "data"), environ={"TERNMQ_RETENTON_MS": "3d"}, code=2)
    assert line == "ternmq: unknown variable TERNMQ_RETENTON_MS; did you mean 'TERNMQ_RETENTION_MS'?"


def test_garbage_on_either_port_disturbs_nobody(stack: Stack) -> None:
    with Producer(stack.grpc, topics=["t"]) as producer:
        for address in (stack.grpc, stack.http):
            host, port = address.rsplit(":", 1)
            for garbage in (
                b"\x00" * 100,
                b"GET / HTTP/1.1\r\n\r\n",
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 999,
            ):
                with socket.create_connection((host, int(port)), timeout=10) as connection:
                    connection.sendall(garbage)
        assert producer.send(Message("t", b"still here")).offset == 0
    assert stack.process.poll() is None


@pytest.mark.parametrize("options", [(), ("--workers", "1")], ids=["one process", "workers"])
def test_access_control_without_a_user(tmp_path: Path, options: tuple[str, ...]) -> None:
    line = refused("--data-dir", str(tmp_path / "data"), "--access-control", *options)
    assert "no user is enabled" in line
    assert "--init-user NAME" in line


def test_a_listener_for_everybody_that_nobody_asked_for(tmp_path: Path) -> None:
    line = refused("--data-dir", str(tmp_path / "data"), "--grpc", "0.0.0.0:0")
    assert "0.0.0.0:0 can be reached from other machines" in line
    assert "add --access-control --tls-cert FILE --tls-key FILE" in line
    assert "--insecure" in line


def test_a_listener_for_everybody_that_was_asked_for_is_warned_of(tmp_path: Path) -> None:
    stack = Stack(tmp_path, "--insecure", "--access-control", "--init-user", "root")
    stack.grpc = "0.0.0.0:0"
    with stack:
        log = stack.log.read_text()
        with urllib.request.urlopen(f"http://{stack.http}/health/ready", timeout=20) as answer:
            told = json.loads(answer.read())
    (warning,) = [line for line in log.splitlines() if "INSECURE" in line]
    assert " WARNING " in warning
    assert "0.0.0.0:0 can be reached from other machines, and there is no TLS" in warning
    assert "access control is off" not in warning
    assert told["insecure"] is True
    assert told["insecure_because"] in warning
