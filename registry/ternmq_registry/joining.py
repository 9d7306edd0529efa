"""How a process of a cluster comes to its registry, which may come up later than the process."""

import asyncio
from typing import TYPE_CHECKING

from ternmq_registry.directory import Directory, connected_registry

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from ternmq_common.server_settings import MemberSettings
    from ternmq_registry.sealing import Sealing


async def join(settings: "MemberSettings", stack: "AsyncExitStack", sealing: "Sealing | None" = None) -> Directory:
    """Open the registry and read it, waiting for it as long as the settings say; StartupError says why it can't be.

    `stack` closes it again; `sealing` is for who needs the secrets of users.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + settings.registry_wait_ms / 1000
    registry = await connected_registry(settings.registry, sealing, wait_s=settings.registry_wait_ms / 1000)
    stack.callback(registry.close)
    directory = Directory(registry)
    stack.push_async_callback(directory.stop)
    await directory.start(max(0.0, end - loop.time()))
    return directory
