"""Runs a server as a process: from its ready line to a clean end."""

import asyncio
import gc
import logging
import os
import resource
import signal
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from ternmq_common.errors import StartupError
from ternmq_common.installing import COMPILED_HINT
from ternmq_common.process.own_version import own_version
from ternmq_common.process.private_files import UMASK, create_folder, narrow_modes
from ternmq_common.resources.setting import differing_settings
from ternmq_common.server_settings import find_exposure
from ternmq_rpc.build_form import is_compiled
from ternmq_runtime.event_loop import loop_factory
from ternmq_runtime.logs.log_output import configure_logging
from ternmq_runtime.path_claim import PathClaim
from ternmq_runtime.systemd import notify_systemd

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from ternmq_common.server_settings import FrontSettings, ProcessSettings

    Start = Callable[[AsyncExitStack], Awaitable[str]]
    """Starts everything that the stack ends, and returns the ready line."""

_log = logging.getLogger(__name__)
# A thread that has synced the disk waits so long for the interpreter lock. A busy loop releases it for a moment in each
# turn; with an interval longer than a turn, the thread would begin to wait again each time.
_SWITCH_S = 0.0001
_DESCRIPTORS_ENOUGH = 1 << 20
# With less no client could be served: some 50 are open before the first one connects, 64 more may be of HTTP, as many
# of operators, and some are kept for files of the store.
DESCRIPTORS_MIN = 256
# New objects since the last collection that start another one.
_COLLECT_AFTER = 10_000


def run_server(
    settings: "ProcessSettings",
    start: "Start",
    *,
    over: asyncio.Event | None = None,
    name: str = "",
    is_part: bool = False,
) -> int:
    """Run a server until SIGTERM or SIGINT, which may come before the ready line, or until the terminal is closed.
    Return the exit code: 1 if `over` ended it. StartupError: it could not start. `name` distinguishes it in a log that
    several processes write. `is_part`: another process reports what the server is."""
    configure_logging(settings.log_level, settings.log_format, name)
    own_version()  # cached from now on
    _raise_descriptor_limit()
    _check_descriptor_limit()
    sys.setswitchinterval(_SWITCH_S)
    os.umask(UMASK)  # for files that libraries create; ours set their mode themselves
    with asyncio.Runner(loop_factory=loop_factory(settings.loop)) as runner:
        return runner.run(_run_until_stopped(start, over or asyncio.Event(), None if is_part else settings))


def ready_line(
    grpc_addresses: "Sequence[str]", http_address: str, admin_address: str = "", remoting_address: str = ""
) -> str:
    """Return the line that a process prints when it serves clients: `ready grpc=HOST:PORT http=HOST:PORT`, then
    remoting= if it serves that, admin= if operators have a listener of their own, then grpc2= and so on."""
    remoting = f" remoting={remoting_address}" if remoting_address else ""
    admin = f" admin={admin_address}" if admin_address else ""
    others = (f" grpc{number}={address}" for number, address in enumerate(grpc_addresses[1:], start=2))
    return f"ready grpc={grpc_addresses[0]} http={http_address}{remoting}{admin}{''.join(others)}"


def describe_server(settings: "ProcessSettings", ready: str) -> str:
    """Describe a server that serves, for the log, in one line: version, addresses, data directory, changed settings."""
    folder = getattr(settings, "data_dir", None)
    changed = differing_settings(settings)
    changed.pop("data_dir", None)
    settings_text = " ".join(
        f"{name}={value if len(value.split()) == 1 else repr(value)}" for name, value in changed.items()
    )
    return (
        f"ternmq {own_version()} is {ready}"
        + (f"; data directory {folder.absolute()}" if folder is not None else "")
        + (f"; settings: {settings_text}" if changed else "")
        + ("; other settings" if changed else "; all settings")
        + " are the defaults (`ternmq config`)"
    )


def warn_of_exposure(settings: "FrontSettings") -> str | None:
    """Log once which parts of the server are unprotected, and return them. Raises StartupError if that was not
    allowed."""
    exposed = find_exposure(settings)
    if exposed is not None:
        _log.warning("INSECURE: %s (insecure)", exposed)
    return exposed


async def _run_until_stopped(start: "Start", over: asyncio.Event, settings: "ProcessSettings | None") -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    _log.debug("the event loop is of %s", type(loop).__module__)
    for number in (signal.SIGTERM, signal.SIGINT, *((signal.SIGHUP,) if _ends_with_terminal() else ())):
        loop.add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        starting = asyncio.ensure_future(start(stack))
        ends = [asyncio.create_task(stop.wait()), asyncio.create_task(over.wait())]
        await asyncio.wait({starting, *ends}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            ready = starting.result()
            if settings is not None:
                _log.info("%s", describe_server(settings, ready))
                if not is_compiled():
                    _log.info("it runs in plain Python: a send takes 0.6 of the CPU compiled; %s", COMPILED_HINT)
            _print_ready(ready)
            if settings is not None:
                notify_systemd(f"READY=1\nSTATUS={ready}")
            _freeze_objects()
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        else:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
        _log.info("stopping")
        if settings is not None:
            notify_systemd("STOPPING=1")
        for end in ends:
            end.cancel()
    return 1 if over.is_set() else 0


def _ends_with_terminal() -> bool:
    """Return whether SIGHUP means that the terminal of this process was closed; under `nohup` it is ignored. A server
    with certificates reloads them on SIGHUP instead, and goes on."""
    return signal.getsignal(signal.SIGHUP) is signal.SIG_DFL and any(map(os.isatty, range(3)))


def _print_ready(ready: str) -> None:
    """Print the ready line; StartupError if it can't be printed, since its reader would wait for ever."""
    try:
        sys.stdout.write(ready + "\n")
        sys.stdout.flush()
    except OSError as error:
        sys.stdout = None  # else Python would try again at exit, and report the error once more
        raise StartupError(f"can't write to standard output: {error.strerror}") from None


def _freeze_objects() -> None:
    """Exempt the existing objects from garbage collection: calls leave hardly any cycles, and scans took 14 % of a
    receive."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 20, 20)


def _raise_descriptor_limit() -> None:
    """Raise the limit of open files to what the machine allows: a shell's lower limit is for programs with select()."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS_ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS_ENOUGH)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:  # macOS allows less than it says
        _log.warning("the limit of file descriptors stays %d: %s", soft, error)


def _check_descriptor_limit() -> None:
    """StartupError if the limit of open files is too low."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and limit < DESCRIPTORS_MIN:
        raise StartupError(
            f"this process may have {limit} file descriptors, and a server needs {DESCRIPTORS_MIN}, with one for each "
            "client more: raise the limit (systemd: LimitNOFILE, shells: ulimit -Hn as root)"
        )


def open_data_dir(path: "Path", stack: AsyncExitStack) -> None:
    """Create the data directory, and claim its path until `stack` ends; StartupError if that fails or another server
    has it."""
    stack.callback(PathClaim(path).release_path)
    make_data_dir(path)


def make_data_dir(path: "Path") -> None:
    """Create the data directory, for this user alone; StartupError if that fails."""
    try:
        create_folder(path)
        narrow_modes(path)
    except OSError as error:
        raise StartupError(
            f"the data directory {path} can't be created: {error.strerror}; "
            "give this user the right to write there, or choose another --data-dir"
        ) from error
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        raise StartupError(
            f"the data directory {path} is on a file system that is mounted read-only, as one is after errors of its "
            "disk: look at the kernel's log, and mount it to be written"
        )
