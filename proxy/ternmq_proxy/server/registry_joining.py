"""Connects a proxy of a cluster to its registry; with a `cache_dir` it keeps a copy, and may start from it."""

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from ternmq_common.errors import StartupError
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_common.pacing.backoff import RETRY_S
from ternmq_registry.copies.copy_file import CopyFile
from ternmq_registry.copies.copy_keeper import CopyKeeper
from ternmq_registry.errors import RegistryUnavailable
from ternmq_registry.registry_joining import age_text, join_registry
from ternmq_registry.security.init_user import create_init_user
from ternmq_registry.security.secret_encryption import secret_encryption_of
from ternmq_registry.sql.database import registry_identity

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from ternmq_common.clock import SystemClock
    from ternmq_common.server_settings import ProxySettings
    from ternmq_registry.directory import RegistryDirectory

_log = logging.getLogger(__name__)
_FILE = "registry-copy"


async def join_cluster_registry(
    settings: "ProxySettings", stack: "AsyncExitStack", clock: "SystemClock", over: asyncio.Event, *, worker: str = ""
) -> "RegistryDirectory":
    """Return the cluster's registry, or its copy, with the user that the settings name; `stack` closes it. Raises
    StartupError. `over` is set if the registry turns out to be unusable when it is back. `worker` names one of several
    processes, each of which keeps its own copy."""
    file = copy_file(settings, worker)
    directory, copy = await join_registry(
        settings, stack, clock, await asyncio.to_thread(secret_encryption_of, settings), file=file
    )
    if copy is None:
        await _make_user(directory, settings)
    else:
        _log.warning(
            "the registry can't be reached: %s; serving from a copy of it, %s, and refusing changes "
            "until it is back", directory.problem, age_text(copy),
        )  # fmt: skip
        tasks = await stack.enter_async_context(BackgroundTasks())
        tasks.start(_join_later(directory, settings, over), name="joining the registry")
    if file is not None:
        keeper = CopyKeeper(directory, file)
        stack.push_async_callback(keeper.stop)
        keeper.start()
    return directory


def copy_file(settings: "ProxySettings", worker: str = "") -> CopyFile | None:
    """Return where the copy is kept, None if there is none. Raises StartupError for a URL that names no registry."""
    if settings.cache_dir is None:
        return None
    return CopyFile(
        path=settings.cache_dir.expanduser() / (f"{_FILE}.{worker}" if worker else _FILE),
        registry=registry_identity(settings.registry),
        holder="proxy",
        age_max_ms=settings.registry_copy_max_age_ms,
    )


async def _make_user(directory: "RegistryDirectory", settings: "ProxySettings") -> None:
    """Create the user, and make the directory know it, also if another process created it since the directory was read:
    a client may connect as that user as soon as this process is ready."""
    is_made = await asyncio.to_thread(create_init_user, directory.registry, settings, None)
    if is_made or (settings.init_user is not None and settings.init_user not in directory.snapshot.access.users):
        with suppress(RegistryUnavailable):  # noted and logged where it was found
            await directory.refresh_snapshot()


async def _join_later(directory: "RegistryDirectory", settings: "ProxySettings", over: asyncio.Event) -> None:
    """Finish the start once the registry is back."""
    try:
        await directory.wait_until_reached()
        while True:
            try:
                await _make_user(directory, settings)
            except StartupError as error:
                if not isinstance(error.__cause__, RegistryUnavailable):
                    raise
                await asyncio.sleep(RETRY_S)
            else:
                return
    except StartupError as error:
        _log.critical("the registry is back, but this proxy cannot use it; shutting down: %s", error)
        over.set()
    except Exception:  # noqa: BLE001 - the outermost of this task, and it logs
        _log.critical("the registry is back, but this proxy cannot use it; shutting down", exc_info=True)
        over.set()
