"""Connects a process of a cluster to its registry, which may start later than the process.

A process that kept a copy of it (`CopyFile`) begins with that while the registry is away, and goes on trying.
"""

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from ternmq_common.clock import now_ms
from ternmq_registry.clock_skew import ClockSkew
from ternmq_registry.copies.copy_form import RegistryCopy, UnusableCopy
from ternmq_registry.directory import RegistryAway, RegistryDirectory, connect_registry
from ternmq_registry.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_common.clock import SystemClock
    from ternmq_common.server_settings import MemberSettings
    from ternmq_registry.copies.copy_file import CopyFile
    from ternmq_registry.security.secret_encryption import SecretEncryption

    Fits = Callable[[RegistryCopy], None]

_log = logging.getLogger(__name__)


async def join_registry(
    settings: "MemberSettings",
    stack: AsyncExitStack,
    clock: "SystemClock",
    secret_encryption: "SecretEncryption | None" = None,
    *,
    file: "CopyFile | None" = None,
    fits: "Fits | None" = None,
) -> tuple[RegistryDirectory, RegistryCopy | None]:
    """Open the registry and read it; returns the copy too if it begins with that. StartupError with the reason.

    If the registry can't be reached, it begins with the copy in `file`; without one it waits as long as the settings
    allow. `stack` closes it again; the clock is compared with the registry's; `secret_encryption` is for processes
    that need the secrets of users. `fits` raises UnusableCopy for a copy that this process can't use.
    """
    if file is None:
        return await _open_and_read(settings, stack, clock, secret_encryption, settings.registry_wait_ms / 1000), None
    try:
        return await _open_and_read(settings, stack, clock, secret_encryption, 0.0), None
    except RegistryAway as error:
        copy = await _read_usable_copy(file, secret_encryption, fits)
        if copy is None:
            return await _open_and_read(
                settings, stack, clock, secret_encryption, settings.registry_wait_ms / 1000
            ), None
        registry = await asyncio.to_thread(
            Registry.prepare_postgres,
            settings.registry,
            secret_encryption,
            password_file=settings.registry_password_file,
        )
        directory = _create_directory(registry, settings, stack, clock)
        directory.start_from_copy(copy.snapshot, copy.read_ms, error.unavailable)
        return directory, copy


def age_text(copy: RegistryCopy) -> str:
    """The age of a copy, for the log."""
    return f"{max(0, now_ms() - copy.read_ms) // 1000} s old"


async def _read_usable_copy(
    file: "CopyFile", secret_encryption: "SecretEncryption | None", fits: "Fits | None"
) -> RegistryCopy | None:
    try:
        copy = await asyncio.to_thread(file.read, now_ms(), secret_encryption)
        if copy is not None and fits is not None:
            await asyncio.to_thread(fits, copy)
    except UnusableCopy as error:
        _log.warning("the copy of the registry, %s, is not used: %s", file.path, error)
        return None
    return copy


async def _open_and_read(
    settings: "MemberSettings",
    stack: AsyncExitStack,
    clock: "SystemClock",
    secret_encryption: "SecretEncryption | None",
    wait_s: float,
) -> RegistryDirectory:
    loop = asyncio.get_running_loop()
    end = loop.time() + wait_s
    async with AsyncExitStack() as attempt:
        registry = await connect_registry(
            settings.registry, secret_encryption, password_file=settings.registry_password_file, wait_s=wait_s
        )
        directory = _create_directory(registry, settings, attempt, clock)
        await directory.start(max(0.0, end - loop.time()))
        stack.push_async_callback(attempt.pop_all().aclose)
    return directory


def _create_directory(
    registry: Registry, settings: "MemberSettings", stack: AsyncExitStack, clock: "SystemClock"
) -> RegistryDirectory:
    stack.callback(registry.close)
    skew = ClockSkew(clock, warn_ms=settings.clock_skew_warn_ms, max_ms=settings.clock_skew_max_ms)
    directory = RegistryDirectory(registry, clock_skew=skew)
    stack.push_async_callback(directory.stop)
    return directory
