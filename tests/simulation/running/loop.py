"""An event loop whose time is simulated, and which runs the work of several processes.

Time      goes on when nothing is ready to run, to when the next thing is; and a little with each turn, so that who waits
          for it awake sees it go on.
Processes what a process does runs in its context. Of one that is no more nothing runs any more, not even what its
          coroutines would do when they are closed: all of them are kept to the end. Of one that stands still everything
          waits, in its order, until it goes on.
Threads   `run_in_executor` does the work on the loop after a while, and has it heard of after another.
"""

import asyncio
import heapq
from collections import deque
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine

    from tests.simulation.running.network import Connection, Listener

_TURN_S = 1e-5
_THREAD_S = 0.0005
_SLOW_THREAD_S = 0.02


class Stuck(Exception):
    """Nothing is left that could happen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What happens to the work of a thread: it waits for `wait_s`; with an `error` that is what the caller hears, after
    the work was done, or if not `is_done` before: then it is done `later_s` afterwards, None: never."""

    wait_s: float = 0.0
    error: Exception | None = None
    is_done: bool = False
    later_s: float | None = None


class Process:
    """What runs on one machine from a start to the end; `threads` says what happens to the work of its threads."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alive = True
        self.lost_power = False
        self.stands_still = False
        self.held: deque[asyncio.Handle] = deque()
        self.kept: list[object] = []
        self.threads: Callable[[Callable[..., object]], Fault | None] = lambda _work: None

    def may_run(self, handle: asyncio.Handle) -> bool:
        """Whether that is to be run now; else it is kept for later, or for ever."""
        if not self.is_alive:
            self.kept.append(handle)
            return False
        if self.stands_still:
            self.held.append(handle)
            return False
        return True


PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


class _Handle(asyncio.Handle):
    _context: Context

    def _run(self) -> None:
        process = self._context.get(PROCESS)
        if process is None or process.may_run(self):
            super()._run()  # type: ignore[misc]


class _Timer(asyncio.TimerHandle):
    _context: Context

    def _run(self) -> None:
        process = self._context.get(PROCESS)
        if process is None or process.may_run(self):
            super()._run()  # type: ignore[misc]


class _Time:
    """In the place of a selector: waiting is time that goes by."""

    def __init__(self, loop: "SimulatedLoop") -> None:
        self._loop = loop

    def select(self, timeout_s: float | None) -> list[object]:
        if timeout_s is None:
            raise Stuck
        self._loop.pass_time(max(timeout_s, _TURN_S))
        return []

    def close(self) -> None: ...


class SimulatedLoop(asyncio.BaseEventLoop):
    """See the module. `dice` decides what chance does; `steps` counts what was run."""

    def __init__(self, dice: "random.Random") -> None:
        super().__init__()
        self.dice = dice
        self.steps = 0
        self._now_s = 1000.0
        self._selector = _Time(self)
        self._listening: dict[Listener, tuple[Callable[..., object], tuple[Any, ...], Context]] = {}
        self.connect: Callable[[str], Coroutine[Any, Any, Connection]] | None = None

    # --- time

    def time(self) -> float:
        return self._now_s

    def pass_time(self, seconds: float) -> None:
        self._now_s += seconds

    def _process_events(self, events: list[object]) -> None: ...

    def _write_to_self(self) -> None: ...

    # --- processes

    def _call_soon(
        self, callback: "Callable[..., object]", args: tuple[Any, ...], context: Context | None
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context if context is not None else copy_context())
        self._ready.append(handle)  # type: ignore[attr-defined]
        self.steps += 1
        return handle

    def call_at(
        self, when: float, callback: "Callable[..., object]", *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        self.steps += 1
        timer = _Timer(when, callback, args, self, context if context is not None else copy_context())
        _push(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def begin(self, process: Process, work: "Coroutine[Any, Any, Any]", name: str) -> "asyncio.Task[Any]":
        """Have the process do the work."""
        context = copy_context()
        context.run(PROCESS.set, process)
        task = self.create_task(work, name=f"{process.name}: {name}", context=context)
        process.kept.append(task)
        return task

    def end(self, process: Process) -> None:
        """The process is no more."""
        process.is_alive = False
        for listener in [each for each in self._listening if each.process is process]:
            del self._listening[listener]

    def go_on(self, process: Process) -> None:
        """It stands still no more."""
        process.stands_still = False
        held, process.held = process.held, deque()
        self._ready.extend(held)  # type: ignore[attr-defined]

    # --- threads

    def run_in_executor(self, executor: Any, func: "Callable[..., Any]", *args: Any) -> "asyncio.Future[Any]":  # noqa: ANN401
        del executor
        future = self.create_future()
        self.call_later(self._thread_s(), self._do, future, func, args)
        return future

    def _thread_s(self) -> float:
        return self.dice.uniform(0, _SLOW_THREAD_S if self.dice.random() < 0.05 else _THREAD_S)

    def _do(self, future: "asyncio.Future[Any]", func: "Callable[..., Any]", args: tuple[Any, ...]) -> None:
        if future.cancelled() and self.dice.random() < 0.5:
            return  # no thread had taken it yet
        process = PROCESS.get()
        fault = None if process is None else process.threads(func)
        if fault is None:
            self._do_now(future, func, args)
        else:
            self.call_later(fault.wait_s, self._do_with, fault, future, func, args)

    def _do_with(
        self, fault: Fault, future: "asyncio.Future[Any]", func: "Callable[..., Any]", args: tuple[Any, ...]
    ) -> None:
        if fault.error is None:
            self._do_now(future, func, args)
            return
        nobody = self.create_future()
        if fault.is_done:
            self._do_now(nobody, func, args)
        elif fault.later_s is not None:
            self.call_later(fault.later_s, self._do_now, nobody, func, args)
        nobody.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.call_later(self._thread_s(), _fail, future, fault.error)

    def _do_now(self, future: "asyncio.Future[Any]", func: "Callable[..., Any]", args: tuple[Any, ...]) -> None:
        try:
            result = func(*args)
        except Exception as error:  # noqa: BLE001 - it is the caller's
            self.call_later(self._thread_s(), _fail, future, error)
        else:
            self.call_later(self._thread_s(), _finish, future, result)

    # --- sockets

    def add_reader(self, fd: Any, callback: "Callable[..., object]", *args: Any) -> None:  # noqa: ANN401
        self._listening[fd] = (callback, args, copy_context())
        if fd.waiting:
            self.came(fd)

    def remove_reader(self, fd: Any) -> bool:  # noqa: ANN401
        return self._listening.pop(fd, None) is not None

    def came(self, listener: "Listener") -> None:
        """A connection waits at that socket."""
        if (reader := self._listening.get(listener)) is not None:
            callback, args, context = reader
            self.call_soon(callback, *args, context=context)

    async def connect_accepted_socket(  # type: ignore[override]
        self, protocol_factory: "Callable[[], asyncio.BaseProtocol]", sock: Any, **_: object
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        protocol = protocol_factory()
        return sock.begin(protocol), protocol

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: "Callable[[], asyncio.BaseProtocol]", host: str, port: int, **_: object
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        assert self.connect is not None
        end = await self.connect(f"{host}:{port}")
        protocol = protocol_factory()
        return end.begin(protocol), protocol


def _push(heap: list[asyncio.TimerHandle], timer: asyncio.TimerHandle) -> None:
    heapq.heappush(heap, timer)


def _finish(future: "asyncio.Future[Any]", result: object) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: "asyncio.Future[Any]", error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
