"""The audit log's files and lines."""

import json
import stat
from pathlib import Path

from ternmq_proxy.access.audit import PER_MINUTE, AuditLog, RotatedFile
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
        log.denied(call, "SendMessage", TOPIC_PUB.of("orders"), None)
    log.denied(call, "AckMessage", TOPIC_PUB.of("orders"), None)
    now[0] = 61.0
    log.denied(call, "SendMessage", TOPIC_PUB.of("orders"), None)
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


def test_a_disk_that_can_not_be_written_ends_nothing(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "missing" / "a.log", bytes_max=1 << 20, files=1, wall_ms=lambda: 0)
    log.denied(Call(), "SendMessage", TOPIC_PUB.of("orders"), None)
    log.close()
