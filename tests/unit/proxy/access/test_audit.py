"""The audit log's files and lines."""

import json
import os
import re
import stat
import threading
from pathlib import Path

import pytest

from ternmq_proxy.access.audit import NOBODY_PER_MINUTE, PER_MINUTE, AuditLog, LineWriter, RotatedFile
from ternmq_proxy.access.needs import TOPIC_PUB
from ternmq_proxy.call import Call


def test_files_are_put_aside_and_the_oldest_goes(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    file = RotatedFile(path, bytes_max=10, files=2)
    for number in range(8):
        file.write(b"line %d\n" % number)
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names == ["audit.log", "audit.log.1", "audit.log.2"]
    assert [(tmp_path / name).read_bytes() for name in names] == [b"line 7\n", b"line 6\n", b"line 5\n"]
    assert all(stat.S_IMODE(each.stat().st_mode) == 0o600 for each in tmp_path.iterdir())


def test_refusals_are_counted_when_they_are_many(tmp_path: Path) -> None:
    now = [0.0]
    log = AuditLog(tmp_path / "a.log", bytes_max=1 << 20, files=1, wall_ms=lambda: 0, now=lambda: now[0])
    call = Call(client_id="x\n", peer="10.0.0.7:1", user="alice")
    for _ in range(PER_MINUTE + 5):
        log.record_denied(call, "SendMessage", TOPIC_PUB.for_resource("orders"), None)
    log.record_denied(call, "AckMessage", TOPIC_PUB.for_resource("orders"), None)
    now[0] = 61.0
    log.record_denied(call, "SendMessage", TOPIC_PUB.for_resource("orders"), None)
    log.close()
    lines = [json.loads(line) for line in (tmp_path / "a.log").read_text(encoding="ascii").splitlines()]
    assert len(lines) == PER_MINUTE + 2
    assert lines[-1] == {
        "time": "1970-01-01T00:00:00.000Z",
        "user": "alice",
        "source": "10.0.0.7:1",
        "client": "x\n",
        "call": "SendMessage",
        "resource": "Topic:orders",
        "allowed": False,
        "why": "no policy allows it",
        "left_out": 5,
    }


def entries(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


def test_invented_names_neither_fill_the_log_nor_hide_what_users_were_refused(tmp_path: Path) -> None:
    now = [0.0]
    path = tmp_path / "a.log"
    log = AuditLog(path, bytes_max=1 << 20, files=1, wall_ms=lambda: 0, now=lambda: now[0])
    attempts = 0
    for host in range(40):
        for name in range(50):
            for rpc in ("SendMessage", "AckMessage"):
                log.record_unauthenticated(
                    f"user-{name}", "nobody", rpc=rpc, client_id="", peer=f"10.0.0.{host}:{name}"
                )
                attempts += 1
    log.record_denied(
        Call(client_id="x", peer="10.0.0.1:1", user="alice"), "SendMessage", TOPIC_PUB.for_resource("orders"), None
    )
    now[0] = 61.0
    for host in range(40):
        for rpc in ("SendMessage", "AckMessage"):
            log.record_unauthenticated("user", "nobody", rpc=rpc, client_id="", peer=f"10.0.0.{host}:1")
            attempts += 1
    log.close()
    of_alice = [each for each in entries(path) if each["user"] == "alice"]
    of_nobody = [each for each in entries(path) if each["user"] != "alice"]
    assert len(of_alice) == 1
    assert len(of_nobody) == 2 * NOBODY_PER_MINUTE
    counted = len(of_nobody) + sum(int(str(each.get("left_out", 0))) for each in of_nobody)
    assert counted <= attempts
    assert attempts - counted <= 20 * (PER_MINUTE + 50), "of the hosts that had no line in the second minute"


def test_a_pipe_takes_lines_too(tmp_path: Path) -> None:
    """As /dev/stderr is in a container: nothing of it can be read again."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    file = RotatedFile(path, bytes_max=3, files=1)
    for line in (b"line 1\n", b"line 2\n"):
        file.write(line)
    assert os.read(number, 100) == b"line 1\nline 2\n"
    os.close(number)


def test_a_disk_that_can_not_be_written_ends_nothing(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "missing" / "a.log", bytes_max=1 << 20, files=1, wall_ms=lambda: 0)
    log.record_denied(Call(), "SendMessage", TOPIC_PUB.for_resource("orders"), None)
    log.close()


class Held(RotatedFile):
    """Writes nothing until it is let go."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, bytes_max=1 << 20, files=1)
        self.go = threading.Event()

    def write(self, data: bytes) -> None:
        self.go.wait()
        super().write(data)


def test_lines_that_are_lost_are_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = Held(tmp_path / "a.log")
    writer = LineWriter(file, waiting_max=2)
    for number in range(9):
        writer.put(b"%d\n" % number)
    file.go.set()
    writer.close()
    written = len((tmp_path / "a.log").read_bytes().splitlines())
    told = re.search(r"lines lost so far: (\d)", caplog.text)
    assert told is not None
    assert int(told[1]) == 9 - written
    assert written >= 2


class Looked(RotatedFile):
    """Says when it was looked at."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, bytes_max=1 << 20, files=1)
        self.looked = threading.Event()

    def check_path(self) -> None:
        super().check_path()
        self.looked.set()


def test_a_file_that_another_process_takes_away_is_missed_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.log"
    file = Looked(path)
    writer = LineWriter(file, look_every_s=0.001)
    writer.put(b"1\n")
    writer.flush(10)
    path.unlink()
    for _ in range(3):  # while nothing is written
        file.looked.clear()
        assert file.looked.wait(10)
    writer.put(b"2\n")
    writer.flush(10)
    path.rename(tmp_path / "b.log")
    writer.put(b"3\n")
    writer.close()
    assert path.read_bytes() == b"3\n"
    assert [str(path) in message for message in caplog.messages] == [True, True]


def test_files_that_the_server_puts_aside_are_not_missed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = RotatedFile(tmp_path / "a.log", bytes_max=10, files=2)
    for number in range(8):
        file.write(b"line %d\n" % number)
        file.check_path()
    assert caplog.messages == []
