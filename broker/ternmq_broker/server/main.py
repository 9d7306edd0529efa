"""`ternmq broker`: one storage broker of a cluster as a process, from `ready` to a clean end."""

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from ternmq_broker.broker import Broker
from ternmq_broker.broker_settings import BrokerSettings
from ternmq_broker.server.deletion_log import DeletionLog
from ternmq_broker.server.lease import Lease
from ternmq_broker.server.load import Load
from ternmq_broker.server.proxies import Proxies
from ternmq_broker.server.registry_copy import copy_file, fitting, keep_copy
from ternmq_broker.server.replication.files import ReplicaFiles
from ternmq_broker.server.replication.membership import Membership
from ternmq_broker.server.replication.replica import Replica
from ternmq_broker.server.storage_front import StorageFront
from ternmq_broker.server.store_identity import STORE_ID, loss_told, store_id
from ternmq_common.clock import Clock
from ternmq_common.errors import StartupError
from ternmq_common.model import Group
from ternmq_common.own_version import own_version
from ternmq_registry.copy_form import RegistryCopy
from ternmq_registry.errors import RegistryUnavailable
from ternmq_registry.joining import join, told_age
from ternmq_registry.shards import Joining
from ternmq_registry.unknown_topics import unknown_topics, warning_of
from ternmq_runtime import process
from ternmq_runtime.http.front import HttpFront, told_copy
from ternmq_runtime.observability.figures import MemberFigures
from ternmq_runtime.observability.observability import Observability
from ternmq_runtime.tls import ProcessTls

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from ternmq_common.server_settings import BrokerServerSettings
    from ternmq_registry.directory import Directory

_log = logging.getLogger(__name__)
_AGAIN_S = 1.0


def run(settings: "BrokerServerSettings") -> int:
    """Serve until SIGTERM or SIGINT, or until another process is this broker; returns the exit code.

    StartupError if it can't begin.
    """
    broker = BrokerServer(settings, Clock())

    async def start(stack: AsyncExitStack) -> str:
        await broker.start(stack)
        return f"ready storage={broker.address} http={broker.http_address}"

    return process.run(settings, start, over=broker.superseded)


class BrokerServer:
    """All parts of a broker process but the process."""

    def __init__(self, settings: "BrokerServerSettings", clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._not_started: str | None = "the registry was not read yet"
        self._broker: Broker | None = None
        self._replica: Replica | None = None
        self._lease: Lease | None = None
        self._directory: Directory | None = None
        self.superseded = asyncio.Event()
        self.address = self.http_address = ""

    async def start(self, stack: AsyncExitStack) -> None:
        """Start all parts; `stack` stops them. StartupError with the reason if that fails."""
        settings = self._settings
        observability = Observability(settings, service="ternmq-broker", instance=settings.broker_name)
        stack.push_async_callback(observability.stop)
        await observability.start()
        tls = await ProcessTls.begin(settings, stack)
        observability.watch_certificates(tls.figures)
        http = HttpFront(
            lambda: self._not_started,
            self._problem,
            degraded=self._degraded,
            copy_age_s=lambda: self._copy_age_s,
            metrics=observability.scrape,
            tls=tls.http,
        )
        stack.push_async_callback(http.stop)
        self.http_address = await http.listen(settings.http)
        # A copy of the registry has the address where proxies look for this broker.
        front = StorageFront(settings.storage, tls=tls.storage)
        stack.callback(front.close)
        self.address = front.address
        file, fits = copy_file(settings), fitting(settings, self._advertised)
        directory, copy = await join(settings, stack, self._clock, file=file, fits=fits)
        self._directory = directory
        if settings.replicas > 1 or _is_replicated(directory, settings.broker_name):
            if copy is not None:
                await self._wait_for_registry(directory, copy)
            self._not_started = "the store is being recovered"
            await self._start_replica(directory, front, observability, tls.to_brokers, stack)
            keep_copy(directory, file, stack)
        else:
            self._not_started = "the store is being recovered"
            broker = await self._open(directory, stack)
            await self._begin(broker, directory, copy, front, observability, stack)
        self._not_started = None

    @property
    def _advertised(self) -> str:
        return self._settings.advertised_storage or self.address

    async def _wait_for_registry(self, directory: "Directory", copy: RegistryCopy) -> None:
        """Wait for the registry: leaders and leases in a copy are outdated, so replicas can't go by it."""
        self._not_started = (
            "a broker with replicas neither leads nor follows by a copy of the registry: it waits for it"
        )
        _log.warning(
            "the registry can't be reached: %s; there is a copy of it, %s, but %s",
            directory.problem, told_age(copy), self._not_started,
        )  # fmt: skip
        await directory.reached()

    async def _start_replica(
        self,
        directory: "Directory",
        front: StorageFront,
        observability: Observability,
        tls: "Callable[[], ssl.SSLContext] | None",
        stack: AsyncExitStack,
    ) -> None:
        """Start as one of the replicas of the shard, whether it leads or not."""
        settings = self._settings
        if settings.accept_corruption:
            raise StartupError(
                "a replica never goes on without records that were acknowledged (accept_corruption): start it with an "
                "empty --data-dir, and it copies what its leader has"
            )
        process.open_data_dir(settings.data_dir, stack)
        broker_settings = BrokerSettings.of(settings)
        files = await asyncio.to_thread(ReplicaFiles, broker_settings)
        store = await asyncio.to_thread(store_id, settings.data_dir, is_used=files.store.end > 0)
        self._not_started = "the replica has not joined its shard yet"
        member = Joining(
            store_id=store,
            name=settings.replica_name or f"replica-{store[:6]}",
            address=self._advertised,
            version=own_version(),
        )
        membership = Membership(settings, directory, member)
        try:
            entry = await membership.join()
        except BaseException:
            await asyncio.to_thread(files.close)
            raise
        replica = self._replica = Replica(
            membership,
            files,
            broker_settings,
            directory,
            front,
            observability,
            self._clock,
            rules=_rules(directory),
            over=self.superseded,
            grace_s=settings.shutdown_grace_ms / 1000,
            tls=tls,
        )
        await front.start()
        stack.push_async_callback(front.stop, 0)
        stack.push_async_callback(replica.stop)
        observability.watch_member(replica.member_figures)
        observability.watch_replica(replica.figures)
        replica.start(entry)

    async def _open(self, directory: "Directory", stack: AsyncExitStack) -> Broker:
        process.open_data_dir(self._settings.data_dir, stack)
        settings = BrokerSettings.of(self._settings)
        broker = await asyncio.to_thread(Broker.open, settings, _rules(directory), self._clock)
        broker.know_topics(directory.find_topic)
        return broker

    async def _begin(
        self,
        broker: Broker,
        directory: "Directory",
        copy: RegistryCopy | None,
        front: StorageFront,
        observability: Observability,
        stack: AsyncExitStack,
    ) -> None:
        """Start as the broker of that name; by a copy of the registry until the registry is back."""
        deletion_log = DeletionLog(broker, directory, self._settings.data_dir)
        lease = self._lease = await self._new_lease(broker, directory)
        if copy is None:
            self._not_started = "the broker is not registered yet"
            await self._register(lease, broker, directory, stack)
            await deletion_log.begin()
            await self._warn_of_unknown_topics(broker, directory)
        else:
            stack.push_async_callback(broker.close)
            broker.start()
            await deletion_log.begin_from_copy(copy.synced_up_to)
            _log.warning(
                "the registry can't be reached: %s; this broker goes on with its copy of it, %s, and is not registered "
                "until it is back", directory.problem, told_age(copy),
            )  # fmt: skip
        observability.watch_broker(broker.figures)
        self._broker = broker
        load = await self._serve(broker, directory, deletion_log, front, observability, stack)
        keeper = keep_copy(directory, copy_file(self._settings), stack, deletion_log)
        deletion_log.on_synced = keeper.changed
        if copy is None:
            lease.start(load.now)
        else:
            joining = asyncio.create_task(
                self._register_later(lease, broker, directory, deletion_log, load), name="registration"
            )
            stack.push_async_callback(_ended, joining)

    async def _new_lease(self, broker: Broker, directory: "Directory") -> Lease:
        """The lease of this broker, which is not registered yet."""
        settings = self._settings
        own = await asyncio.to_thread(store_id, settings.data_dir, is_used=broker.is_used)
        await asyncio.to_thread(broker.keep_file, settings.data_dir / STORE_ID)
        lease = Lease(
            directory.registry,
            name=broker.name,
            store_id=own,
            address=self._advertised,
            version=own_version(),
            lease_ms=settings.lease_ms,
        )
        lease.superseded = self.superseded
        return lease

    async def _register(self, lease: Lease, broker: Broker, directory: "Directory", stack: AsyncExitStack) -> None:
        """Register the broker, and start it.

        StartupError if it may not be that broker: then the store, which may be another broker's, stays as it was
        opened.
        """
        try:
            gone = await self._take_lease(lease, broker, directory)
        except BaseException:
            await asyncio.to_thread(broker.abandon)
            raise
        stack.push_async_callback(broker.close)
        broker.start()
        for topic in gone:
            await broker.forget_topic(topic)

    async def _take_lease(self, lease: Lease, broker: Broker, directory: "Directory") -> list[str]:
        """Register. Returns the topics that were deleted while the broker was removed, which only this call returns."""
        settings = self._settings
        own = lease.store_id
        gone = await asyncio.to_thread(directory.registry.topics_gone, own) if settings.rejoin else []
        # The registry knows the store from here on, and what it must remove; proxies find no broker until then.
        await lease.take(rejoin=settings.rejoin, is_empty=not broker.is_used, instead_of=settings.accept_empty_store)
        before = directory.snapshot.brokers.get(broker.name)
        if before is not None and before.store_id != own:
            _log.warning("%s", loss_told(before, directory.snapshot))
        return gone

    async def _register_later(
        self, lease: Lease, broker: Broker, directory: "Directory", deletion_log: DeletionLog, load: Load
    ) -> None:
        """Register once the registry is back; end the process if that is refused."""
        try:
            while True:
                try:
                    await directory.reached()
                    for topic in await self._take_lease(lease, broker, directory):
                        await broker.forget_topic(topic)
                    await deletion_log.begin()
                    break
                except RegistryUnavailable as error:
                    _log.warning("the broker can't be registered yet: %s", error.message)
                    await asyncio.sleep(_AGAIN_S)
            lease.start(load.now)
            await self._warn_of_unknown_topics(broker, directory)
        except StartupError as error:
            _log.critical("the registry is back, and this process can't be broker %s, and ends: %s", broker.name, error)
            self.superseded.set()
        except Exception:  # noqa: BLE001 - the outermost of this task, and it logs
            _log.critical("the registry is back, and the broker can't be registered; it ends", exc_info=True)
            self.superseded.set()

    async def _serve(
        self,
        broker: Broker,
        directory: "Directory",
        deletion_log: DeletionLog,
        front: StorageFront,
        observability: Observability,
        stack: AsyncExitStack,
    ) -> Load:
        """Serve proxies. Returns the load for the heartbeats."""
        settings, lease = self._settings, self._lease
        assert lease is not None
        proxies = Proxies(broker, directory, deletion_log, observability.continued)
        await front.start(proxies)
        load = Load(broker, proxies, directory)
        stack.push_async_callback(self._tell_last, lease, load, directory)
        stack.push_async_callback(front.stop, settings.shutdown_grace_ms / 1000)
        stack.push_async_callback(lease.give_up)
        observability.watch_member(
            lambda: MemberFigures(
                registry_reachable=directory.problem is None,
                registry_version=directory.snapshot.version,
                registry_copy_age_s=directory.copy_age_s,
                lease_age_s=lease.age_s,
                proxies=len(proxies),
                clock_skew_s=directory.clock_skew_s,
            )
        )
        load.start()
        return load

    async def _tell_last(self, lease: Lease, load: Load, directory: "Directory") -> None:
        """Report what the broker holds at its end: no client calls it any more."""
        last = await load.last()
        if directory.problem is None:
            await lease.tell(last)

    async def _warn_of_unknown_topics(self, broker: Broker, directory: "Directory") -> None:
        """Warn of topics that the registry does not know; call it after the deletions are done."""
        settings = self._settings
        known = directory.snapshot.topics
        waiting = 0 if known else await broker.figures.pending_timers() + broker.figures.now().transactions
        rebuild = f"ternmq registry rebuild --data-dir {settings.data_dir} --broker-name {broker.name} --registry URL"
        if warning := warning_of(unknown_topics(broker.held_topics(), known), waiting, rebuild):
            _log.warning("%s", warning)

    def _degraded(self) -> str | None:
        of_store = None if self._broker is None else self._broker.degraded
        if self._replica is not None:
            of_store = self._replica.degraded
        return self._clock.problem() or of_store or told_copy(self._copy_age_s)

    @property
    def _copy_age_s(self) -> float | None:
        """The age of the copy of the registry that a broker without replicas uses; else None."""
        return None if self._directory is None or self._broker is None else self._directory.copy_age_s

    def _problem(self) -> str | None:
        """Why messages can't be stored or received now; None if they can.

        A lease that can't be renewed is no such reason: proxies that know the broker go on using it.
        """
        if self._not_started is not None:
            return self._not_started
        if self._replica is not None:
            return self._replica.problem
        assert self._broker is not None
        return self._broker.problem


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _is_replicated(directory: "Directory", name: str) -> bool:
    entry = directory.snapshot.brokers.get(name)
    return entry is not None and bool(entry.replicas)


def _rules(directory: "Directory") -> "Callable[[str], Group]":
    def rules(group: str) -> Group:
        return directory.snapshot.groups.get(group) or Group(name=group)

    return rules
