"""How a process of a cluster comes to its registry, which may come up later than the process."""

import asyncio
from typing import TYPE_CHECKING

from ternmq_registry.clock_skew import ClockSkew
from ternmq_registry.directory import Directory, connected_registry

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from ternmq_common.clock import Clock
    from ternmq_common.server_settings import MemberSettings
    from ternmq_registry.sealing import Sealing


async def join(
    settings: "MemberSettings", stack: "AsyncExitStack", clock: "Clock", sealing: "Sealing | None" = None
) -> Directory:
    """Open the registry and read it, waiting for it as long as the settings say; StartupError says why it can't be.

    `stack` closes it again; the clock is held against the registry's; `sealing` is for who needs the secrets of users.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + settings.registry_wait_ms / 1000
    registry = await connected_registry(
        settings.registry,
        sealing,
        password_file=settings.registry_password_file,
        wait_s=settings.registry_wait_ms / 1000,
    )
    stack.callback(registry.close)
    skew = ClockSkew(clock, warn_ms=settings.clock_skew_warn_ms, max_ms=settings.clock_skew_max_ms)
    directory = Directory(registry, clock_skew=skew)
    stack.push_async_callback(directory.stop)
    await directory.start(max(0.0, end - loop.time()))
    return directory
