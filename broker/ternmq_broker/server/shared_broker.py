"""The broker of `ternmq up --workers N` as a process: the embedded stack's store and registry, for the workers.

The data directory is that of a stack in one process. The broker needs no lease: the supervisor starts one, and the
store has a lock. Deletions are done as in a cluster; the notes of them belong to the supervisor's run, since an
earlier run may have been a stack in one process, which removes at once and notes nothing.
"""

import asyncio
import logging
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from ternmq_broker.broker import Broker
from ternmq_broker.broker_settings import STORE, BrokerSettings
from ternmq_broker.server.deletion_log import DeletionLog
from ternmq_broker.server.proxy_connections import ProxyConnections
from ternmq_broker.server.storage_front import StorageFront
from ternmq_broker.store_opening import make_room_to_start
from ternmq_common.clock import SystemClock
from ternmq_common.process.private_files import narrow_modes
from ternmq_common.server_settings import ServerSettings
from ternmq_common.shard.model import ConsumerGroup
from ternmq_registry.copies.salvage import find_sidecars
from ternmq_registry.directory import RegistryDirectory
from ternmq_registry.security.init_user import check_has_user, create_init_user
from ternmq_registry.security.secret_encryption import OWN_KEY_FILE, secret_encryption_of
from ternmq_registry.shared_registry import SharedRegistry
from ternmq_registry.unknown_topics import unknown_topics, warning_of
from ternmq_runtime import process
from ternmq_runtime.http.front import HttpFront
from ternmq_runtime.observability.figures import MemberFigures
from ternmq_runtime.observability.process_observability import ProcessObservability
from ternmq_runtime.workers import worker_process
from ternmq_runtime.workers.siblings import create_answers

if TYPE_CHECKING:
    from ternmq_runtime.workers.worker_place import WorkerPlace

_log = logging.getLogger(__name__)
REGISTRY = "registry.db"


async def start(place: "WorkerPlace", settings: ServerSettings, stack: AsyncExitStack) -> str:
    """Start all parts; `stack` stops them. Returns the ready line. StartupError with the reason if that fails."""
    observability = ProcessObservability(settings, service="ternmq-broker", instance=place.member)
    stack.push_async_callback(observability.stop_export)
    await observability.start_export()
    directory, registry = await _open_registry(place, settings, stack)
    broker = await _open_broker(settings, directory, stack)
    observability.watch_broker(broker.figures)
    http = HttpFront(
        lambda: None,
        lambda: broker.problem,
        degraded=lambda: broker.degraded,
        metrics=observability.render_metrics,
        internal=create_answers(settings),
    )
    stack.push_async_callback(http.stop_listening)
    await http.start_listening(place.http)
    if not place.is_restart:
        await asyncio.to_thread(registry.drop_deletions)
        await _warn_of_unknown_topics(broker, directory, settings)
    deletion_log = DeletionLog(broker, directory, place.own_folder)
    await deletion_log.begin_with_registry()
    front = StorageFront(place.storage)
    stack.callback(front.close)
    proxies = ProxyConnections(broker, directory, deletion_log, observability.continue_trace)
    await front.start(proxies)
    stack.push_async_callback(front.stop, settings.shutdown_grace_ms / 1000)
    observability.watch_member(
        lambda: MemberFigures(
            registry_reachable=directory.problem is None,
            registry_version=directory.snapshot.version,
            proxies=len(proxies),
        )
    )
    return f"ready storage={front.address}"


async def _open_registry(
    place: "WorkerPlace", settings: ServerSettings, stack: AsyncExitStack
) -> tuple[RegistryDirectory, SharedRegistry]:
    process.open_data_dir(settings.data_dir, stack)
    await asyncio.to_thread(make_room_to_start, settings.data_dir / STORE)
    database = settings.data_dir / REGISTRY
    narrow_modes(database, *find_sidecars(database))
    secret_encryption = await asyncio.to_thread(secret_encryption_of, settings, settings.data_dir)
    registry = await asyncio.to_thread(
        SharedRegistry.open_shared,
        database,
        broker=settings.broker_name,
        address=place.storage,
        secret_encryption=secret_encryption,
    )
    stack.callback(registry.close)
    await asyncio.to_thread(create_init_user, registry, settings, settings.data_dir)
    await asyncio.to_thread(check_has_user, registry, settings)
    directory = RegistryDirectory(registry)
    stack.push_async_callback(directory.stop)
    await directory.start()
    return directory, registry


async def _open_broker(settings: ServerSettings, directory: RegistryDirectory, stack: AsyncExitStack) -> Broker:
    def find_group(group: str) -> ConsumerGroup:
        return directory.snapshot.groups.get(group) or ConsumerGroup(name=group)

    broker = await asyncio.to_thread(Broker.open, BrokerSettings.from_storage(settings), find_group, SystemClock())
    stack.push_async_callback(broker.close)
    await asyncio.to_thread(broker.live_files.watch_file, settings.data_dir / REGISTRY)
    await asyncio.to_thread(broker.live_files.keep_file, settings.data_dir / OWN_KEY_FILE)
    broker.set_topic_lookup(directory.find_topic)
    broker.start()
    return broker


async def _warn_of_unknown_topics(broker: Broker, directory: RegistryDirectory, settings: ServerSettings) -> None:
    known = directory.snapshot.topics
    waiting = 0 if known else await broker.figures.count_timers() + broker.figures.current_figures().transactions
    rebuild = f"ternmq registry rebuild --data-dir {settings.data_dir}"
    if warning := warning_of(unknown_topics(broker.inspecting.held_topics(), known), waiting, rebuild):
        _log.warning("%s", warning)


if __name__ == "__main__":
    sys.exit(worker_process.run_worker(ServerSettings, start))
