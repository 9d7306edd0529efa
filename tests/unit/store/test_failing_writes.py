"""The store on a disk of which every call may fail, whole or in part, those that undo a failed append too."""

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ternmq_broker.store.disk.files import DiskFile, DiskFolders, WriteNotUndone
from ternmq_broker.store.message_store import MessageStore
from tests.unit.store.test_message_store import SEGMENT_BYTES, bodies, incoming

QUEUES = [("orders", 0), ("orders", 1)]
WORKS, FAILS, TORN = "works", "fails", "torn"
CALLS = ("open", "pwritev", "pwrite", "posix_fallocate", "ftruncate", "unlink")


class FaultyCalls:
    """The calls of the system that write, in place of `os`'s: while it is `failing`, each takes the next of these
    outcomes. `kill` closes what was opened, as the end of a process does."""

    def __init__(self) -> None:
        self._outcomes: Iterator[str] = iter(())
        self._opened: dict[int, int] = {}  # descriptor to inode
        self._real: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in (*CALLS, "close")}

    def __enter__(self) -> None:
        for name in CALLS:
            setattr(os, name, self._faulty(name))
        os.close = self._close

    def __exit__(self, *_: object) -> None:
        for name, call in self._real.items():
            setattr(os, name, call)

    @contextlib.contextmanager
    def failing(self, outcomes: Sequence[str]) -> Iterator[None]:
        self._outcomes = iter(outcomes)
        try:
            yield
        finally:
            self._outcomes = iter(())

    def kill(self) -> None:
        for fd, inode in list(self._opened.items()):
            with contextlib.suppress(OSError):  # closed by the file object that had it
                if os.fstat(fd).st_ino == inode:
                    self._close(fd)
        self._opened.clear()

    def _close(self, fd: int) -> None:
        self._opened.pop(fd, None)
        self._real["close"](fd)

    def _faulty(self, name: str) -> Callable[..., Any]:
        real = self._real[name]

        def call(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401
            outcome = next(self._outcomes, WORKS)
            if outcome == TORN and name == "pwritev":
                fd, pieces, position = arguments
                whole = b"".join(pieces)
                self._real["pwrite"](fd, whole[: 2 * len(whole) // 3], position)
            if outcome != WORKS:
                raise OSError(errno.EIO if outcome == FAILS else errno.ENOSPC, "planned", name)
            result = real(*arguments, **named)
            if name == "open" and not arguments[1] & os.O_DIRECTORY:  # those close by themselves
                self._opened[result] = os.fstat(result).st_ino
            return result

        return call


class FailingWrites(RuleBasedStateMachine):
    """Append while calls fail, heal, and kill in any order: what was acknowledged is there, in order and once, and
    what was refused never. Of a batch of which nobody knows that, the first messages may be there after a kill."""

    @initialize()
    def start(self) -> None:
        self.path = Path(tempfile.mkdtemp())
        self.calls = FaultyCalls()
        self.calls.__enter__()
        self.written: dict[tuple[str, int], list[bytes]] = {queue: [] for queue in QUEUES}
        self.unknown: tuple[tuple[str, int], list[bytes]] | None = None
        self.open()

    def open(self) -> None:
        self.store = MessageStore(DiskFolders(self.path), segment_bytes=SEGMENT_BYTES)

    @rule(
        queue=st.sampled_from(QUEUES),
        batch=st.lists(st.binary(min_size=1, max_size=900), min_size=1, max_size=6),
        outcomes=st.lists(st.sampled_from([WORKS, FAILS, TORN]), max_size=8),
    )
    def append(self, queue: tuple[str, int], batch: list[bytes], outcomes: list[str]) -> None:
        messages = [incoming(body) for body in batch]
        try:
            with self.calls.failing(outcomes):
                self.store.writer.append_batch(*queue, messages, 1)
        except WriteNotUndone:
            self.unknown = queue, batch
        except OSError:
            pass  # refused
        else:
            self.written[queue] += batch
            self.unknown = None

    @rule(outcomes=st.lists(st.sampled_from([WORKS, FAILS]), max_size=4))
    def roll(self, outcomes: list[str]) -> None:
        with contextlib.suppress(OSError), self.calls.failing(outcomes):
            self.store.log.roll_segment()

    @rule(body=st.binary(min_size=1, max_size=400))
    def heal(self, body: bytes) -> None:
        self.append(QUEUES[0], [body], [])
        assert self.written[QUEUES[0]][-1] == body
        assert self.unknown is None

    @rule()
    def sync(self) -> None:
        self.store.log.sync_segments()

    @rule()
    def kill(self) -> None:
        self.calls.kill()
        self.open()
        if self.unknown is not None:
            queue, batch = self.unknown
            self.written[queue] += batch[: len(bodies(self.store, *queue)) - len(self.written[queue])]
            self.unknown = None

    @invariant()
    def nothing_is_lost_and_nothing_comes_that_was_refused(self) -> None:
        for queue, written in self.written.items():
            assert bodies(self.store, *queue) == written

    def teardown(self) -> None:
        self.calls.kill()
        self.calls.__exit__()
        shutil.rmtree(self.path)


TestFailingWrites = FailingWrites.TestCase


def test_a_read_over_the_end_of_a_segment_has_no_zeros_of_its_reserved_room(tmp_path: Path) -> None:
    store = MessageStore(DiskFolders(tmp_path), segment_bytes=SEGMENT_BYTES)
    for body in (b"in the first segment", b"in the second"):
        store.writer.append_batch("orders", 0, [incoming(body)], 1)
        store.log.roll_segment()
    assert bodies(store, "orders", 0) == [b"in the first segment", b"in the second"]
    store.close()


def test_bytes_of_a_write_that_could_not_be_undone_are_removed_before_the_next(tmp_path: Path) -> None:
    file = DiskFile(tmp_path / "file", os.O_CREAT, 1 << 20)
    file.append([b"kept"])
    calls = FaultyCalls()
    with calls:
        with pytest.raises(WriteNotUndone, match="could not be removed"), calls.failing([TORN, FAILS]):
            file.append([b"x" * 300])
        with pytest.raises(OSError, match="planned"), calls.failing([FAILS]):
            file.append([b"next"])
        file.append([b", next"])
    file.seal()
    assert (tmp_path / "file").read_bytes() == b"kept, next"
    file.close()
