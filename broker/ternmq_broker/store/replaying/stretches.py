"""Reads the log ahead in stretches, by worker processes, one for each core, when an index is rebuilt.

A stretch is used where the walk through the log reaches exactly its beginning, and only if it fits what is known of its
queues; the walk itself reads what the workers leave out, or get wrong.
"""

import logging
import os
import pickle
import subprocess
import sys
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import TYPE_CHECKING, Self

from ternmq_broker.store.replaying.stretch_reader import LogStretch, StretchRequest

if TYPE_CHECKING:
    from ternmq_broker.store.log.commit_log import CommitLog

_log = logging.getLogger(__name__)
_WORKER = "ternmq_broker.store.replaying.stretch_worker"
_AHEAD = 2


class StretchReaders:
    """The stretches from a log offset on; a context that ends the worker processes at its end."""

    def __init__(self, log: "CommitLog", begin: int, stretch_bytes: int, *, processes: int | None = None) -> None:
        self._left = deque(_split_log(log, begin, stretch_bytes))
        self._processes = processes or max(2, os.cpu_count() or 1)
        self._idle: SimpleQueue[_StretchWorker] = SimpleQueue()
        self._threads = ThreadPoolExecutor(self._processes, thread_name_prefix="stretches")
        self._under_way: deque[tuple[StretchRequest, Future[LogStretch | None]]] = deque()
        self._workers: list[_StretchWorker] = []

    def __enter__(self) -> Self:
        for _ in range(self._processes):
            worker = _StretchWorker()
            self._workers.append(worker)
            self._idle.put(worker)
        self._submit_requests()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.clear()
        for worker in self._workers:
            worker.end_process()
        self._threads.shutdown(cancel_futures=True)

    def stretch_at(self, log_offset: int) -> tuple[LogStretch | None, int]:
        """Return the stretch that begins there, if there is one; and up to where the walk should read by itself
        otherwise.
        """
        while self._under_way and self._under_way[0][0].end <= log_offset:
            self._under_way.popleft()
            self._submit_requests()
        if not self._under_way or log_offset < self._under_way[0][0].begin:
            return None, self._under_way[0][0].begin if self._under_way else sys.maxsize
        wanted, found = self._under_way[0]
        stretch = found.result()
        return (stretch if stretch is not None and stretch.begin == log_offset else None), wanted.end

    def _submit_requests(self) -> None:
        while self._left and len(self._under_way) < self._processes + _AHEAD:
            wanted = self._left.popleft()
            self._under_way.append((wanted, self._threads.submit(self._read_with_worker, wanted)))

    def _read_with_worker(self, wanted: StretchRequest) -> LogStretch | None:
        worker = self._idle.get()
        try:
            return worker.read_stretch(wanted)
        except (OSError, EOFError, pickle.PickleError) as error:
            _log.warning("a worker process that read a part of the log ended (%s); this process reads it", error)
            return None
        finally:
            self._idle.put(worker)


class _StretchWorker:
    """One worker process; one thread at a time talks to it."""

    def __init__(self) -> None:
        command = (sys.executable, "-m", _WORKER)
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - ours

    def read_stretch(self, wanted: StretchRequest) -> LogStretch:
        """Read a stretch; OSError, EOFError when the process has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump(wanted, self._process.stdin)
        self._process.stdin.flush()
        found = pickle.load(self._process.stdout)  # noqa: S301 - of a process of ours
        assert isinstance(found, LogStretch)
        return found

    def end_process(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                continue  # it ended before it read the last request


def _split_log(log: "CommitLog", begin: int, stretch_bytes: int) -> "list[StretchRequest]":
    """Return requests for all stretches of records of today's layout; none if the log's files are not on a disk."""
    wanted: list[StretchRequest] = []
    begin = max(begin, log.layouts.layout_1_below)
    for base in log.segment_bases:
        path, end = log.path_of(base), log.end_of_segment(base)
        if path is None:
            return []
        wanted += (
            StretchRequest(str(path), base, first, min(first + stretch_bytes, end), log.layouts.key)
            for first in range(max(base, begin), end, stretch_bytes)
        )
    return wanted
