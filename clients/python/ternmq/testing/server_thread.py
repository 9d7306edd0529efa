"""Runs a server as `ternmq up` does, but in a thread with an event loop of its own instead of a process."""

import asyncio
import threading
from concurrent.futures import Future
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from ternmq_common.errors import StartupError
from ternmq_common.installing import SERVER_EXTRA_MODULES, install_hint

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ternmq_common.clock import SystemClock
    from ternmq_common.server_settings import ServerSettings

    Start = Callable[[ServerSettings, SystemClock, AsyncExitStack], Awaitable[tuple[list[str], str, str, str]]]

THREAD_NAME = "ternmq-stack"


class ServerThread:
    """One run of a server, from `start_server` to `stop_server`.

    Invariant: `_loop` is set before `_addresses` has its result, and the loop runs until `stop_server`.
    """

    def __init__(self, settings: "ServerSettings", clock: "SystemClock") -> None:
        self._start_server = _import_start()
        self._settings = settings
        self._clock = clock
        self._addresses = Future[tuple[str, str, str]]()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop
        self._end: asyncio.Event
        # A daemon: a test run that forgets a stack must end all the same.
        self._thread = threading.Thread(target=self._run_loop, name=THREAD_NAME, daemon=True)

    def start_server(self) -> tuple[str, str, str]:
        """Start the server; return the addresses of gRPC, HTTP and the admin listener (empty: none) once all serve;
        StartupError if they can't."""
        self._thread.start()
        try:
            return self._addresses.result()
        except Exception:
            self._thread.join()
            raise

    def stop_server(self) -> None:
        """End the server in order, and wait for that; raises its failure."""
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run_loop(self) -> None:
        try:
            asyncio.run(self._serve_until_end())
        except BaseException as error:  # noqa: BLE001 - the outermost of this thread; the caller's thread raises it
            if self._addresses.done():
                self._failure = error
            else:
                self._addresses.set_exception(error)

    async def _serve_until_end(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        self._loop.set_exception_handler(_handle_exception)
        async with AsyncExitStack() as stack:
            (grpc, *_), http, admin, _ = await self._start_server(self._settings, self._clock, stack)
            self._addresses.set_result((grpc, http, admin))
            await self._end.wait()


def _import_start() -> "Start":
    """Return the function that starts a server; imported late, since most runs of pytest start none."""
    try:
        from ternmq_proxy.server.main import start
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in SERVER_EXTRA_MODULES:
            raise
        raise StartupError(
            f"the server's packages are not installed ({missing.name} is missing): {install_hint('testing')}"
        ) from None
    return start


def _handle_exception(loop: asyncio.AbstractEventLoop, context: "dict[str, Any]") -> None:
    """Log an exception of the loop's callbacks as usual, but ignore those that gRPC causes by itself.

    All event loops of a process share one queue of gRPC's events, and the one that wakes first passes them on: to a
    loop that was closed meanwhile, or there are none left for the others. Both are harmless.
    """
    harmless = isinstance(context.get("exception"), BlockingIOError | RuntimeError)
    if not (harmless and "PollerCompletionQueue" in context["message"]):
        loop.default_exception_handler(context)
