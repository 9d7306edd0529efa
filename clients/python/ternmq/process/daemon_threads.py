"""An executor for functions of the user whose threads do not keep the process from ending.

Python joins the threads of a `ThreadPoolExecutor` at exit, however long they take: one call that hangs would keep the
process for ever.
"""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
ResultT = TypeVar("ResultT")


class DaemonThreadExecutor(Executor):
    """Up to `threads_max` threads, each created when a call finds no idle one; further calls wait for their turn."""

    def __init__(self, threads_max: int, *, name: str) -> None:
        self._threads_max = threads_max
        self._name = name
        self._calls: queue.SimpleQueue[tuple[Future[object], Callable[[], object]] | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._changing = threading.Lock()
        self._threads = 0
        self._closed = False

    def submit(self, fn: Callable[P, ResultT], /, *args: P.args, **kwargs: P.kwargs) -> "Future[ResultT]":
        """Call a function in a thread; RuntimeError after `shutdown`."""
        future: Future[ResultT] = Future()
        with self._changing:
            if self._closed:
                raise RuntimeError("its threads have ended, nothing more is called")
            self._calls.put((future, partial(fn, *args, **kwargs)))  # type: ignore[arg-type]
            if not self._idle.acquire(blocking=False) and self._threads < self._threads_max:
                self._threads += 1
                name = f"{self._name}_{self._threads - 1}"
                threading.Thread(target=self._run_calls, name=name, daemon=True).start()
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = True) -> None:
        """Call nothing more; threads end after their current call. It does not wait for them."""
        assert cancel_futures
        assert not wait
        with self._changing:
            self._closed = True
            while True:
                try:
                    call = self._calls.get_nowait()
                except queue.Empty:
                    break
                if call is not None:
                    call[0].cancel()
            for _ in range(self._threads):
                self._calls.put(None)

    def _run_calls(self) -> None:
        while (call := self._calls.get()) is not None:
            future, function = call
            if future.set_running_or_notify_cancel():
                try:
                    result = function()
                except BaseException as error:  # noqa: BLE001 - the future has it
                    future.set_exception(error)
                else:
                    future.set_result(result)
            del call, future, function
            self._idle.release()
