"""One of several workers that share a port: `python -m ternmq_proxy.worker up|proxy`, started by a supervisor.

It is a proxy of a cluster. That of `ternmq up --workers N` reads the stack's registry file, and has one broker.
"""

import asyncio
import sys
from functools import partial
from typing import TYPE_CHECKING

from ternmq_common.clock import Clock
from ternmq_common.server_settings import ProxySettings, ServerSettings
from ternmq_proxy.cluster_main import ProxyServer
from ternmq_proxy.registry_joining import joined
from ternmq_registry.directory import Directory
from ternmq_registry.secret_encryption import secret_encryption_of
from ternmq_registry.shared import SharedRegistry
from ternmq_runtime import process
from ternmq_runtime.workers import inside

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from ternmq_runtime.workers.place import Place


async def start_of_stack(place: "Place", settings: ServerSettings, stack: "AsyncExitStack") -> str:
    """A worker of `ternmq up`, ready when it has its broker."""

    async def opened(stack: "AsyncExitStack") -> Directory:
        secret_encryption = await asyncio.to_thread(secret_encryption_of, settings, settings.data_dir)
        database = settings.data_dir / "registry.db"
        registry = await asyncio.to_thread(
            SharedRegistry.open,
            database,
            broker=settings.broker_name,
            address=place.storage,
            secret_encryption=secret_encryption,
        )
        stack.callback(registry.close)
        directory = Directory(registry)
        stack.push_async_callback(directory.stop)
        await directory.start()
        return directory

    proxy = ProxyServer(
        settings,
        Clock(),
        name=place.member,
        http=place.http,
        registry=opened,
        embedded=settings.broker_name,
        place=place,
    )
    await proxy.start(stack)
    await proxy.connected()
    return process.ready_line(proxy.grpc_addresses, proxy.http_address, proxy.admin_address)


async def start_of_cluster(
    over: asyncio.Event, place: "Place", settings: ProxySettings, stack: "AsyncExitStack"
) -> str:
    """A worker of `ternmq proxy`."""
    clock = Clock()
    proxy = ProxyServer(
        settings,
        clock,
        name=place.member,
        http=place.http,
        registry=lambda stack: joined(settings, stack, clock, over, worker=place.name),
        place=place,
    )
    await proxy.start(stack)
    return process.ready_line(proxy.grpc_addresses, proxy.http_address, proxy.admin_address)


def main(kind: str) -> int:
    """Serve; the process's exit code."""
    if kind == "up":
        return inside.run(ServerSettings, start_of_stack)
    over = asyncio.Event()
    return inside.run(ProxySettings, partial(start_of_cluster, over), over=over)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
