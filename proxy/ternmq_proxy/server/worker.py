"""A worker process, one of several that share a port: `python -m ternmq_proxy.server.worker up|proxy`, started by a
supervisor.

It is a proxy of a cluster. A worker of `ternmq up --workers N` reads the stack's registry file, and has one broker.
"""

import asyncio
import sys
from functools import partial
from typing import TYPE_CHECKING

from ternmq_common.clock import SystemClock
from ternmq_common.server_settings import ProxySettings, ServerSettings
from ternmq_proxy.server.cluster_main import ProxyServer
from ternmq_proxy.server.registry_joining import join_cluster_registry
from ternmq_registry.directory import RegistryDirectory
from ternmq_registry.security.secret_encryption import secret_encryption_of
from ternmq_registry.shared_registry import SharedRegistry
from ternmq_runtime.workers import worker_process

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from ternmq_runtime.workers.worker_place import WorkerPlace


async def start_of_stack(place: "WorkerPlace", settings: ServerSettings, stack: "AsyncExitStack") -> str:
    """Start a worker of `ternmq up`, which is ready when it has its broker."""

    async def open_registry(stack: "AsyncExitStack") -> RegistryDirectory:
        secret_encryption = await asyncio.to_thread(secret_encryption_of, settings, settings.data_dir)
        database = settings.data_dir / "registry.db"
        registry = await asyncio.to_thread(
            SharedRegistry.open_shared,
            database,
            broker=settings.broker_name,
            address=place.storage,
            secret_encryption=secret_encryption,
        )
        stack.callback(registry.close)
        directory = RegistryDirectory(registry)
        stack.push_async_callback(directory.stop)
        await directory.start()
        return directory

    proxy = ProxyServer(
        settings,
        SystemClock(),
        name=place.member,
        http=place.http,
        registry=open_registry,
        embedded=settings.broker_name,
        place=place,
    )
    await proxy.start(stack)
    await proxy.wait_connected()
    return proxy.ready_line


async def start_of_cluster(
    over: asyncio.Event, place: "WorkerPlace", settings: ProxySettings, stack: "AsyncExitStack"
) -> str:
    """Start a worker of `ternmq proxy`."""
    clock = SystemClock()
    proxy = ProxyServer(
        settings,
        clock,
        name=place.member,
        http=place.http,
        registry=lambda stack: join_cluster_registry(settings, stack, clock, over, worker=place.name),
        place=place,
    )
    await proxy.start(stack)
    return proxy.ready_line


def main(kind: str) -> int:
    """Serve; return the process's exit code."""
    if kind == "up":
        return worker_process.run_worker(ServerSettings, start_of_stack)
    over = asyncio.Event()
    return worker_process.run_worker(ProxySettings, partial(start_of_cluster, over), over=over)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
