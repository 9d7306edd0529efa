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
from ternmq_broker.opening import make_room_to_start
from ternmq_broker.server.deletion_log import DeletionLog
from ternmq_broker.server.proxies import Proxies
from ternmq_broker.server.storage_front import StorageFront
from ternmq_common.clock import Clock
from ternmq_common.model import Group
from ternmq_common.private_files import narrow
from ternmq_common.server_settings import ServerSettings
from ternmq_registry.directory import Directory
from ternmq_registry.init_user import check_has_user, make_init_user
from ternmq_registry.salvage import sidecars
from ternmq_registry.secret_encryption import OWN_KEY_FILE, secret_encryption_of
from ternmq_registry.shared import SharedRegistry
from ternmq_registry.unknown_topics import unknown_topics, warning_of
from ternmq_runtime import process
from ternmq_runtime.http.front import HttpFront
from ternmq_runtime.observability.figures import MemberFigures
from ternmq_runtime.observability.observability import Observability
from ternmq_runtime.workers import inside
from ternmq_runtime.workers.siblings import usual_answers

if TYPE_CHECKING:
    from ternmq_runtime.workers.place import Place

_log = logging.getLogger(__name__)
REGISTRY = "registry.db"


async def start(place: "Place", settings: ServerSettings, stack: AsyncExitStack) -> str:
    """Start all parts; `stack` stops them. Returns the ready line. StartupError with the reason if that fails."""
    observability = Observability(settings, service="ternmq-broker", instance=place.member)
    stack.push_async_callback(observability.stop)
    await observability.start()
    directory, registry = await _open_registry(place, settings, stack)
    broker = await _open_broker(settings, directory, stack)
    observability.watch_broker(broker.figures)
    http = HttpFront(
        lambda: None,
        lambda: broker.problem,
        degraded=lambda: broker.degraded,
        metrics=observability.scrape,
        internal=usual_answers(settings),
    )
    stack.push_async_callback(http.stop)
    await http.listen(place.http)
    if not place.is_restart:
        await asyncio.to_thread(registry.begin)
        await _warn_of_unknown_topics(broker, directory, settings)
    deletion_log = DeletionLog(broker, directory, place.own_folder)
    await deletion_log.begin()
    front = StorageFront(place.storage)
    stack.callback(front.close)
    proxies = Proxies(broker, directory, deletion_log, observability.continued)
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
    place: "Place", settings: ServerSettings, stack: AsyncExitStack
) -> tuple[Directory, SharedRegistry]:
    process.open_data_dir(settings.data_dir, stack)
    await asyncio.to_thread(make_room_to_start, settings.data_dir / STORE)
    database = settings.data_dir / REGISTRY
    narrow(database, *sidecars(database))
    secret_encryption = await asyncio.to_thread(secret_encryption_of, settings, settings.data_dir)
    registry = await asyncio.to_thread(
        SharedRegistry.open,
        database,
        broker=settings.broker_name,
        address=place.storage,
        secret_encryption=secret_encryption,
    )
    stack.callback(registry.close)
    await asyncio.to_thread(make_init_user, registry, settings, settings.data_dir)
    await asyncio.to_thread(check_has_user, registry, settings)
    directory = Directory(registry)
    stack.push_async_callback(directory.stop)
    await directory.start()
    return directory, registry


async def _open_broker(settings: ServerSettings, directory: Directory, stack: AsyncExitStack) -> Broker:
    def rules(group: str) -> Group:
        return directory.snapshot.groups.get(group) or Group(name=group)

    broker = await asyncio.to_thread(Broker.open, BrokerSettings.of(settings), rules, Clock())
    stack.push_async_callback(broker.close)
    await asyncio.to_thread(broker.watch_file, settings.data_dir / REGISTRY)
    await asyncio.to_thread(broker.keep_file, settings.data_dir / OWN_KEY_FILE)
    broker.know_topics(directory.find_topic)
    broker.start()
    return broker


async def _warn_of_unknown_topics(broker: Broker, directory: Directory, settings: ServerSettings) -> None:
    known = directory.snapshot.topics
    waiting = 0 if known else await broker.figures.pending_timers() + broker.figures.now().transactions
    rebuild = f"ternmq registry rebuild --data-dir {settings.data_dir}"
    if warning := warning_of(unknown_topics(broker.held_topics(), known), waiting, rebuild):
        _log.warning("%s", warning)


if __name__ == "__main__":
    sys.exit(inside.run(ServerSettings, start))
