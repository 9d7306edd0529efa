"""The audit log: which user changed what on the server, and which calls were refused. Each line is a JSON object:

    {"time": "2026-11-23T02:40:00.000Z", "user": "alice", "source": "10.0.0.7:4711", "client": "host@1@0@x",
     "call": "DeleteTopic", "resource": "Topic:orders", "allowed": false, "why": "no policy allows it"}

Allowed calls of the admin service that change something are always written; refusals `PER_MINUTE` times a minute for
each host, user and call, with `left_out` as the number of earlier ones that were not written. Unauthenticated calls
count by host and call alone, since names can be invented, and all of them share `NOBODY_PER_MINUTE`: so they neither
push older entries out of the files, nor hide refusals of users. Secrets and signatures are never written; names are
those of peers, escaped as in JSON.

Removed     a file that another process removed, moved or replaced is followed by a new one; its entries may be gone,
            so the server's log reports it within a second.
Threads     a thread of its own writes; the event loop hands lines to it. If it falls behind by `WAITING_MAX` lines, or
            can't write, lines are lost, and the server's log has their number.
"""

import contextlib
import json
import logging
import os
import queue
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ternmq_common.pacing.log_throttle import LogThrottle
from ternmq_common.printable import cut_text, escape_json
from ternmq_common.process.private_files import FILE_MODE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from ternmq_common.access.decision import AccessRequest
    from ternmq_common.access.users import AccessPolicy
    from ternmq_proxy.access.needs import NamedNeed
    from ternmq_proxy.call import Call

_log = logging.getLogger(__name__)
_lines = logging.getLogger("ternmq_proxy.audit")
PER_MINUTE = 10
NOBODY_PER_MINUTE = 60
WAITING_MAX = 10_000
_LOOK_EVERY_S = 1.0


class AuditLog:
    """The audit log of one process. It writes to `path` and keeps `files` older files of `bytes_max`; without a path it
    writes to the server's log at level info. `wall_ms` is the machine's clock, `now` a monotonic clock in seconds."""

    def __init__(
        self,
        path: "Path | None",
        *,
        bytes_max: int,
        files: int,
        wall_ms: "Callable[[], int]",
        now: "Callable[[], float]" = time.monotonic,
    ) -> None:
        self._wall_ms = wall_ms
        self._throttle = LogThrottle(now, per_minute=PER_MINUTE)
        self._throttle_of_nobody = LogThrottle(now, per_minute=PER_MINUTE)
        self._all_of_nobody = LogThrottle(now, per_minute=NOBODY_PER_MINUTE)
        self._writer = None if path is None else LineWriter(RotatedFile(path, bytes_max, files))

    def close(self) -> None:
        """Write the waiting lines; block until they are written."""
        if self._writer is not None:
            self._writer.close()

    def flush(self, patience_s: float) -> None:
        """Wait until the waiting lines are written, at most `patience_s` seconds, so that the file can be read."""
        if self._writer is not None:
            self._writer.flush(patience_s)

    def record_allowed(self, call: "Call", rpc: str, needs: "Iterable[tuple[NamedNeed, AccessPolicy | None]]") -> None:
        """Record that an allowed call is about to change something."""
        for (need, name), policy in needs:
            why = "a super user" if policy is None else str(policy)
            self._write_entry(
                call.user,
                call.peer,
                call.client_id,
                rpc,
                _resource_text(need.for_resource(name)),
                allowed=True,
                why=why,
            )

    def record_own_change(self, call: "Call", rpc: str, resource: str) -> None:
        """Record that a call is about to change something of the caller's own, which needs no policy."""
        self._write_entry(call.user, call.peer, call.client_id, rpc, resource, allowed=True, why="the user's own")

    def record_denied(self, call: "Call", rpc: str, question: "AccessRequest", policy: "AccessPolicy | None") -> None:
        """Record that a call was refused; `policy` is the policy that denies it, None if no policy allows it."""
        why = "no policy allows it" if policy is None else str(policy)
        self._write_refusal(call.user, call.peer, call.client_id, rpc, _resource_text(question), why)

    def record_foreign_client(self, call: "Call", rpc: str) -> None:
        """Record that a call was refused because its client id belongs to another user's client."""
        self._write_refusal(call.user, call.peer, call.client_id, rpc, "", "the client id is another user's")

    def record_unauthenticated(self, access_key: str, reason: str, *, rpc: str, client_id: str, peer: str) -> None:
        """Record that a call was refused because it is not authenticated; `access_key` is the name that it claims."""
        left_out = self._throttle_of_nobody.admit_line(peer, rpc)
        if left_out is None:
            return
        others = self._all_of_nobody.admit_line("", "nobody", times=1 + left_out)
        if others is not None:
            why = f"not authenticated: {reason}"
            self._write_entry(access_key, peer, client_id, rpc, "", allowed=False, why=why, left_out=left_out + others)

    def _write_refusal(self, user: str, peer: str, client_id: str, rpc: str, resource: str, why: str) -> None:
        left_out = self._throttle.admit_line(peer, f"{rpc} {user}")
        if left_out is not None:
            self._write_entry(user, peer, client_id, rpc, resource, allowed=False, why=why, left_out=left_out)

    def _write_entry(
        self,
        user: str,
        peer: str,
        client_id: str,
        rpc: str,
        resource: str,
        *,
        allowed: bool,
        why: str,
        left_out: int = 0,
    ) -> None:
        moment = datetime.fromtimestamp(self._wall_ms() / 1000, UTC)
        entry: dict[str, str | bool | int] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "user": cut_text(user),
            "source": peer,
            "client": cut_text(client_id),
            "call": rpc,
            "resource": cut_text(resource, 400),
            "allowed": allowed,
            "why": cut_text(why, 1000),
        }
        if left_out:
            entry["left_out"] = left_out
        line = escape_json(json.dumps(entry))
        if self._writer is None:
            _lines.info("%s", line)
        else:
            self._writer.put(line.encode() + b"\n")


class RotatedFile:
    """The file `path` with the older ones `path.1`, `path.2` and so on, readable by this user alone. A line that a full
    disk or the death of the process left incomplete is ended before the next line."""

    def __init__(self, path: "Path", bytes_max: int, files: int) -> None:
        self._path, self._bytes_max, self._files = path, bytes_max, files
        self._is_whole = False
        self._file_id: tuple[int, int] | None = None

    def write(self, data: bytes) -> None:
        """Append data, after rotating the files if this one would grow too long. Raises OSError."""
        self.check_path()
        size = self._file_size()
        if size and size + len(data) > self._bytes_max:
            self._rotate_files()
            size = 0
        if size and not self._is_whole and self._is_torn():
            data = b"\n" + data
        self._is_whole = False
        number = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, FILE_MODE)
        with os.fdopen(number, "ab") as file:
            self._file_id = _file_id(os.fstat(number))
            file.write(data)
        self._is_whole = True

    def check_path(self) -> None:
        """Log an error if the file that was written last is no longer at its path. Raises OSError."""
        if self._file_id is None:
            return
        try:
            is_there = _file_id(self._path.stat()) == self._file_id
        except FileNotFoundError:
            is_there = False
        if not is_there:
            self._file_id = None
            _log.error(
                "the audit log %s was removed, moved or replaced by another process; continuing with a new file; the "
                "server itself keeps it short (audit_log_bytes, audit_log_files)",
                self._path,
            )

    def _file_size(self) -> int:
        """Return the size of the file; 0 if it is missing, and for a pipe or a terminal."""
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0

    def _is_torn(self) -> bool:
        """Return whether the file, which is not empty, ends within a line."""
        with self._path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read() != b"\n"

    def _rotate_files(self) -> None:
        for number in range(self._files - 1, 0, -1):
            older = self._numbered_path(number)
            if older.exists():
                older.replace(self._numbered_path(number + 1))
        self._path.replace(self._numbered_path(1))
        self._file_id = None

    def _numbered_path(self, number: int) -> "Path":
        return self._path.with_name(f"{self._path.name}.{number}")


class LineWriter:
    """Writes lines in a thread, in order; at most `waiting_max` lines wait."""

    def __init__(
        self, file: RotatedFile, waiting_max: int = WAITING_MAX, *, look_every_s: float = _LOOK_EVERY_S
    ) -> None:
        self._file = file
        self._look_every_s = look_every_s
        self._waiting_max = waiting_max
        self._waiting: queue.Queue[bytes | threading.Event | None] = queue.Queue()
        self._lost = self._reported = 0
        self._throttle = LogThrottle(time.monotonic)
        self._thread = threading.Thread(target=self._write_lines, name="audit log", daemon=True)
        self._thread.start()

    def put(self, line: bytes) -> None:
        """Queue a line for writing; it is lost if too many wait."""
        if self._waiting.qsize() < self._waiting_max:
            self._waiting.put(line)
        else:
            self._lost += 1

    def flush(self, patience_s: float) -> None:
        """Wait until the waiting lines are written, at most `patience_s` seconds."""
        is_written = threading.Event()
        self._waiting.put(is_written)
        is_written.wait(patience_s)

    def close(self) -> None:
        """Write the waiting lines; block until they are written."""
        self._waiting.put(None)
        self._thread.join()

    def _write_lines(self) -> None:
        while (line := self._next_line()) is not None:
            if isinstance(line, threading.Event):
                line.set()
                continue
            reason = "it is slower than what is to be written"
            try:
                self._file.write(line)
            except OSError as error:
                self._lost += 1
                reason = error.strerror or str(error)
            if self._lost > self._reported:
                self._log_failure(reason)

    def _next_line(self) -> bytes | threading.Event | None:
        """Return the next item; check the file's path while there is none."""
        while True:
            try:
                return self._waiting.get(timeout=self._look_every_s)
            except queue.Empty:
                with contextlib.suppress(OSError):  # the next line fails too, and the failure is logged
                    self._file.check_path()

    def _log_failure(self, reason: str) -> None:
        """Log how many lines were lost, once a minute, since a full disk stays full for a while."""
        if self._throttle.is_due():
            self._reported = self._lost
            _log.error("cannot write the audit log: %s; lines lost so far: %d", reason, self._reported)


def _file_id(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _resource_text(question: "AccessRequest") -> str:
    return f"{question.kind}:{question.name}"
