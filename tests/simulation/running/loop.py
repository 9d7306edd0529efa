"""Event loops on one simulated time: the world's, which runs all, and one for each process, which only gives it work.

Time      goes on when nothing is ready to run, to when the next thing is; and a little with each turn, so that who
          waits for it awake sees it go on.
Processes have a loop of their own, as what is shared by the parts of one is found by its loop. Of one that is no more
          nothing runs any more, not even what its coroutines would do when they are closed: all of them are kept to the
          end. Of one that stands still everything waits, in its order, until it goes on.
Threads   `run_in_executor` does the work on the loop after a while, and has it heard of after another.
"""

import asyncio
import heapq
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine
    from contextvars import Context

    from tests.simulation.running.network import Connection, Listener

BEGIN_S = 1000.0
_TURN_S = 1e-5
_THREAD_S = 0.0005
_SLOW_THREAD_S = 0.02


class Stuck(Exception):
    """Nothing is left that could happen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What happens to the work of a thread: it waits for `wait_s`, and is heard of `heard_s` after it was done; with an
    `error` that is what the caller hears, after the work was done, or if not `is_done` before: then it is done
    `later_s` afterwards, None: never."""

    wait_s: float = 0.0
    heard_s: float = 0.0
    error: Exception | None = None
    is_done: bool = False
    later_s: float | None = None


class _Time:
    """In the place of a selector: waiting is time that goes by."""

    def __init__(self, loop: "WorldLoop") -> None:
        self._loop = loop

    def select(self, timeout_s: float | None) -> list[object]:
        if timeout_s is None:
            raise Stuck
        self._loop.pass_time(max(timeout_s, _TURN_S))
        return []

    def close(self) -> None: ...


class WorldLoop(asyncio.BaseEventLoop):
    """Runs all; what is called on it itself happens to no process. `dice` decides what chance does."""

    def __init__(self, dice: "random.Random") -> None:
        super().__init__()
        self.dice = dice
        self._now_s = BEGIN_S
        self._selector = _Time(self)  # what the base class waits by

    def time(self) -> float:
        return self._now_s

    def pass_time(self, seconds: float) -> None:
        self._now_s += seconds

    def _process_events(self, events: list[object]) -> None: ...

    def _write_to_self(self) -> None: ...

    # --- for processes

    def add_ready(self, *handles: asyncio.Handle) -> None:
        """Run these in the next turn."""
        self._ready.extend(handles)  # type: ignore[attr-defined]

    def add_timer(self, timer: asyncio.TimerHandle) -> None:
        """Run it at its time."""
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It stays in the heap until its time."""


class _Handle(asyncio.Handle):
    _loop: "ProcessLoop"

    def _run(self) -> None:
        if self._loop.may_run(self):
            with self._loop.running():
                super()._run()


class _Timer(asyncio.TimerHandle):
    _loop: "ProcessLoop"

    def _run(self) -> None:
        if self._loop.may_run(self):
            with self._loop.running():
                super()._run()


class _Running:
    """While it lasts, the loop that runs is that one."""

    __slots__ = ("_before", "_loop")

    def __init__(self, loop: "ProcessLoop") -> None:
        self._loop = loop
        self._before: list[asyncio.AbstractEventLoop | None] = []

    def __enter__(self) -> None:
        self._before.append(asyncio._get_running_loop())
        asyncio._set_running_loop(self._loop)

    def __exit__(self, *_: object) -> None:
        asyncio._set_running_loop(self._before.pop())


class ProcessLoop(asyncio.BaseEventLoop):
    """The loop of one process, from its start to its end; `name` is that of its machine. `threads` says what happens to
    the work of its threads, and `connect` makes its connections."""

    def __init__(
        self, name: str, world: WorldLoop, connect: "Callable[[str], Coroutine[Any, Any, Connection]]"
    ) -> None:
        super().__init__()
        self.name = name
        self.world = world
        self._connect = connect
        self._running = _Running(self)
        self.is_alive = True
        self.lost_power = False
        self.stands_still = False
        self.threads: Callable[[Callable[..., object]], Fault | None] = lambda _work: None
        self._held: deque[asyncio.Handle] = deque()
        self._kept: list[object] = []
        self._listening: dict[Listener, tuple[Callable[..., object], tuple[Any, ...]]] = {}

    # --- as asyncio has it

    def time(self) -> float:
        return self.world.time()

    def running(self) -> _Running:
        return self._running

    def _call_soon(
        self, callback: "Callable[..., object]", args: tuple[Any, ...], context: "Context | None"
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        self.world.add_ready(handle)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self,
        callback: "Callable[..., object]",
        *args: Any,  # noqa: ANN401
        context: "Context | None" = None,
    ) -> asyncio.Handle:
        return self._call_soon(callback, args, context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: "Callable[..., object]",
        *args: Any,  # noqa: ANN401
        context: "Context | None" = None,
    ) -> asyncio.TimerHandle:
        timer = _Timer(when, callback, args, self, context)
        self.world.add_timer(timer)
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It stays in the heap until its time."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.world.call_exception_handler(context)

    # --- life

    def begin(self, work: "Coroutine[Any, Any, Any]", name: str) -> None:
        """Have the process do the work."""
        with self._running:
            self._kept.append(self.create_task(work, name=name))

    def end(self) -> None:
        """The process is no more."""
        self.is_alive = False
        self._listening.clear()

    def stand_still(self) -> None:
        """Nothing runs until `go_on`."""
        self.stands_still = True

    def go_on(self) -> None:
        """Run what waits."""
        self.stands_still = False
        held, self._held = self._held, deque()
        self.world.add_ready(*held)

    def may_run(self, handle: asyncio.Handle) -> bool:
        """Whether that is to be run now; else it is kept for later, or for ever."""
        if self.is_alive and not self.stands_still:
            return True
        if self.is_alive:
            self._held.append(handle)
        else:
            self._kept.append(handle)
        return False

    # --- threads

    def run_in_executor(  # type: ignore[override]
        self,
        executor: Any,  # noqa: ANN401
        func: "Callable[..., Any]",
        *args: Any,  # noqa: ANN401
    ) -> "asyncio.Future[Any]":
        del executor
        future = self.create_future()
        self.call_later(self._thread_s(), self._do, future, func, args)
        return future

    def _thread_s(self) -> float:
        dice = self.world.dice
        return dice.uniform(0, _SLOW_THREAD_S if dice.random() < 0.05 else _THREAD_S)

    def _do(self, future: "asyncio.Future[Any]", func: "Callable[..., Any]", args: tuple[Any, ...]) -> None:
        if future.cancelled() and self.world.dice.random() < 0.5:
            return  # no thread had taken it yet
        fault = self.threads(func)
        if fault is None:
            self._do_now(future, func, args)
        else:
            self.call_later(fault.wait_s, self._do_with, fault, future, func, args)

    def _do_with(
        self, fault: Fault, future: "asyncio.Future[Any]", func: "Callable[..., Any]", args: tuple[Any, ...]
    ) -> None:
        if fault.error is None:
            self._do_now(future, func, args, fault.heard_s)
            return
        nobody = self.create_future()
        if fault.is_done:
            self._do_now(nobody, func, args)
        elif fault.later_s is not None:
            # The server does it, whatever becomes of the process.
            self.world.call_later(fault.later_s, self._do_now, nobody, func, args)
        nobody.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.call_later(self._thread_s(), _fail, future, fault.error)

    def _do_now(
        self,
        future: "asyncio.Future[Any]",
        func: "Callable[..., Any]",
        args: tuple[Any, ...],
        heard_s: float = 0.0,
    ) -> None:
        try:
            result = func(*args)
        except Exception as error:  # noqa: BLE001 - it is the caller's
            self.call_later(heard_s + self._thread_s(), _fail, future, error)
        else:
            self.call_later(heard_s + self._thread_s(), _finish, future, result)

    # --- sockets

    def add_reader(  # type: ignore[override]
        self,
        fd: Any,  # noqa: ANN401
        callback: "Callable[..., object]",
        *args: Any,  # noqa: ANN401
    ) -> None:
        self._listening[fd] = (callback, args)
        if fd.waiting:
            self.came(fd)

    def remove_reader(self, fd: Any) -> bool:  # noqa: ANN401
        return self._listening.pop(fd, None) is not None

    def came(self, listener: "Listener") -> None:
        """A connection waits at that socket."""
        if (reader := self._listening.get(listener)) is not None:
            callback, args = reader
            self.call_soon(callback, *args)

    async def connect_accepted_socket(  # type: ignore[override]
        self,
        protocol_factory: "Callable[[], asyncio.BaseProtocol]",
        sock: Any,  # noqa: ANN401
        **_: object,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        protocol = protocol_factory()
        return sock.begin(protocol), protocol

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: "Callable[[], asyncio.BaseProtocol]", host: str, port: int, **_: object
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        end = await self._connect(f"{host}:{port}")
        protocol = protocol_factory()
        return end.begin(protocol), protocol


def running_process() -> ProcessLoop:
    """That of the loop which runs."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ProcessLoop)
    return loop


def _finish(future: "asyncio.Future[Any]", result: object) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: "asyncio.Future[Any]", error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
