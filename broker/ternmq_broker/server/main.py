"""`ternmq broker`: one storage broker of a cluster as a process, from `ready` to a clean end."""

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from ternmq_broker.broker import Broker
from ternmq_broker.broker_settings import BrokerSettings
from ternmq_broker.server.deletion_log import DeletionLog
from ternmq_broker.server.lease import BrokerLease
from ternmq_broker.server.load_report import LoadReport
from ternmq_broker.server.proxy_connections import ProxyConnections
from ternmq_broker.server.registry_copy import check_copy_fits, copy_file, keep_copy
from ternmq_broker.server.replication.membership import ShardMembership
from ternmq_broker.server.replication.replica import ShardReplica
from ternmq_broker.server.replication.replica_files import ReplicaFiles
from ternmq_broker.server.storage_front import StorageFront
from ternmq_broker.server.store_identity import STORE_ID, describe_loss, store_id
from ternmq_common.clock import SystemClock
from ternmq_common.errors import StartupError
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_common.pacing.backoff import RETRY_S
from ternmq_common.process.own_version import own_version
from ternmq_common.shard.model import ConsumerGroup
from ternmq_registry.copies.copy_form import RegistryCopy
from ternmq_registry.errors import RegistryUnavailable
from ternmq_registry.members.shards import JoiningReplica
from ternmq_registry.registry_joining import age_text, join_registry
from ternmq_registry.unknown_topics import unknown_topics, warning_of
from ternmq_runtime import process
from ternmq_runtime.http.front import HttpFront, describe_copy
from ternmq_runtime.observability.figures import MemberFigures
from ternmq_runtime.observability.process_observability import ProcessObservability
from ternmq_runtime.process_tls import ProcessTls

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from ternmq_common.server_settings import BrokerServerSettings
    from ternmq_registry.directory import RegistryDirectory

_log = logging.getLogger(__name__)


def run(settings: "BrokerServerSettings") -> int:
    """Serve until SIGTERM or SIGINT, or until another process is this broker; returns the exit code.

    StartupError if it can't begin.
    """
    broker = BrokerServer(settings, SystemClock())

    async def start(stack: AsyncExitStack) -> str:
        await broker.start(stack)
        return f"ready storage={broker.address} http={broker.http_address}"

    return process.run_server(settings, start, over=broker.superseded)


class BrokerServer:
    """All parts of a broker process but the process."""

    def __init__(self, settings: "BrokerServerSettings", clock: SystemClock) -> None:
        self._settings = settings
        self._clock = clock
        self._not_started: str | None = "the registry was not read yet"
        self._broker: Broker | None = None
        self._replica: ShardReplica | None = None
        self._lease: BrokerLease | None = None
        self._directory: RegistryDirectory | None = None
        self.superseded = asyncio.Event()
        self.address = self.http_address = ""

    async def start(self, stack: AsyncExitStack) -> None:
        """Start all parts; `stack` stops them. StartupError with the reason if that fails."""
        settings = self._settings
        observability = ProcessObservability(settings, service="ternmq-broker", instance=settings.broker_name)
        stack.push_async_callback(observability.stop_export)
        await observability.start_export()
        tls = await ProcessTls.load_files(settings, stack)
        observability.watch_certificates(tls.certificate_figures)
        http = HttpFront(
            lambda: self._not_started,
            self._problem_reason,
            degraded=self._degraded_reason,
            copy_age_s=lambda: self._copy_age_s,
            metrics=observability.render_metrics,
            tls=tls.http,
        )
        stack.push_async_callback(http.stop_listening)
        self.http_address = await http.start_listening(settings.http)
        # A copy of the registry has the address where proxies look for this broker.
        front = StorageFront(settings.storage, tls=tls.storage)
        stack.callback(front.close)
        self.address = front.address
        file, fits = copy_file(settings), check_copy_fits(settings, self._advertised_address)
        directory, copy = await join_registry(settings, stack, self._clock, file=file, fits=fits)
        self._directory = directory
        if settings.replicas > 1 or _is_replicated(directory, settings.broker_name):
            if copy is not None:
                await self._wait_for_registry(directory, copy)
            self._not_started = "the store is being recovered"
            await self._start_replica(directory, front, observability, tls.to_brokers, stack)
            keep_copy(directory, file, stack)
        else:
            self._not_started = "the store is being recovered"
            broker = await self._open_broker(directory, stack)
            await self._start_broker(broker, directory, copy, front, observability, stack)
        self._not_started = None

    @property
    def _advertised_address(self) -> str:
        return self._settings.advertised_storage or self.address

    async def _wait_for_registry(self, directory: "RegistryDirectory", copy: RegistryCopy) -> None:
        """Wait for the registry: leaders and leases in a copy are outdated, so replicas can't go by it."""
        self._not_started = (
            "a broker with replicas neither leads nor follows by a copy of the registry: it waits for it"
        )
        _log.warning(
            "the registry can't be reached: %s; there is a copy of it, %s, but %s",
            directory.problem, age_text(copy), self._not_started,
        )  # fmt: skip
        await directory.wait_until_reached()

    async def _start_replica(
        self,
        directory: "RegistryDirectory",
        front: StorageFront,
        observability: ProcessObservability,
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
        broker_settings = BrokerSettings.from_storage(settings)
        files = await asyncio.to_thread(ReplicaFiles, broker_settings)
        store = await asyncio.to_thread(store_id, settings.data_dir, is_used=files.current_store.log.log_end > 0)
        self._not_started = "the replica has not joined its shard yet"
        member = JoiningReplica(
            store_id=store,
            name=settings.replica_name or f"replica-{store[:6]}",
            address=self._advertised_address,
            version=own_version(),
        )
        membership = ShardMembership(settings, directory, member)
        try:
            entry = await membership.join_shard()
        except BaseException:
            await asyncio.to_thread(files.close)
            raise
        replica = self._replica = ShardReplica(
            membership,
            files,
            broker_settings,
            directory,
            front,
            observability,
            self._clock,
            rules=_group_lookup(directory),
            over=self.superseded,
            grace_s=settings.shutdown_grace_ms / 1000,
            tls=tls,
        )
        await front.start()
        stack.push_async_callback(front.stop, 0)
        stack.push_async_callback(replica.stop)
        observability.watch_member(replica.member_figures)
        observability.watch_replica(replica.replica_figures)
        replica.start(entry)

    async def _open_broker(self, directory: "RegistryDirectory", stack: AsyncExitStack) -> Broker:
        process.open_data_dir(self._settings.data_dir, stack)
        settings = BrokerSettings.from_storage(self._settings)
        broker = await asyncio.to_thread(Broker.open, settings, _group_lookup(directory), self._clock)
        broker.set_topic_lookup(directory.find_topic)
        return broker

    async def _start_broker(
        self,
        broker: Broker,
        directory: "RegistryDirectory",
        copy: RegistryCopy | None,
        front: StorageFront,
        observability: ProcessObservability,
        stack: AsyncExitStack,
    ) -> None:
        """Start as the broker of that name; by a copy of the registry until the registry is back."""
        deletion_log = DeletionLog(broker, directory, self._settings.data_dir)
        lease = self._lease = await self._new_lease(broker, directory)
        if copy is None:
            self._not_started = "the broker is not registered yet"
            await self._register_broker(lease, broker, directory, stack)
            await deletion_log.begin_with_registry()
            await self._warn_of_unknown_topics(broker, directory)
        else:
            stack.push_async_callback(broker.close)
            broker.start()
            await deletion_log.begin_from_copy(copy.synced_up_to)
            _log.warning(
                "the registry can't be reached: %s; serving from a copy of it, %s; this broker is not registered "
                "until it is back", directory.problem, age_text(copy),
            )  # fmt: skip
        observability.watch_broker(broker.figures)
        self._broker = broker
        load = await self._serve_proxies(broker, directory, deletion_log, front, observability, stack)
        keeper = keep_copy(directory, copy_file(self._settings), stack, deletion_log)
        deletion_log.on_synced = keeper.request_write
        if copy is None:
            lease.start(load.current_load)
        else:
            tasks = await stack.enter_async_context(BackgroundTasks())
            tasks.start(self._register_later(lease, broker, directory, deletion_log, load), name="registration")

    async def _new_lease(self, broker: Broker, directory: "RegistryDirectory") -> BrokerLease:
        """The lease of this broker, which is not registered yet."""
        settings = self._settings
        own = await asyncio.to_thread(store_id, settings.data_dir, is_used=broker.is_used)
        await asyncio.to_thread(broker.live_files.keep_file, settings.data_dir / STORE_ID)
        lease = BrokerLease(
            directory.registry,
            name=broker.name,
            store_id=own,
            address=self._advertised_address,
            version=own_version(),
            lease_ms=settings.lease_ms,
        )
        lease.superseded = self.superseded
        return lease

    async def _register_broker(
        self, lease: BrokerLease, broker: Broker, directory: "RegistryDirectory", stack: AsyncExitStack
    ) -> None:
        """Register the broker, and start it.

        StartupError if it may not be that broker: then the store, which may be another broker's, stays as it was
        opened.
        """
        try:
            gone = await self._take_lease(lease, broker, directory)
        except BaseException:
            await asyncio.to_thread(broker.abandon_files)
            raise
        stack.push_async_callback(broker.close)
        broker.start()
        for topic in gone:
            await broker.administering.forget_topic(topic)

    async def _take_lease(self, lease: BrokerLease, broker: Broker, directory: "RegistryDirectory") -> list[str]:
        """Register. Returns the topics that were deleted while the broker was removed, which only this call returns."""
        settings = self._settings
        own = lease.store_id
        gone = await asyncio.to_thread(directory.registry.list_deleted_topics, own) if settings.rejoin else []
        # The registry knows the store from here on, and what it must remove; proxies find no broker until then.
        await lease.register_broker(
            rejoin=settings.rejoin, is_empty=not broker.is_used, instead_of=settings.accept_empty_store
        )
        before = directory.snapshot.brokers.get(broker.name)
        if before is not None and before.store_id != own:
            _log.warning("%s", describe_loss(before, directory.snapshot))
        return gone

    async def _register_later(
        self,
        lease: BrokerLease,
        broker: Broker,
        directory: "RegistryDirectory",
        deletion_log: DeletionLog,
        load: LoadReport,
    ) -> None:
        """Register once the registry is back; end the process if that is refused."""
        try:
            while True:
                try:
                    await directory.wait_until_reached()
                    for topic in await self._take_lease(lease, broker, directory):
                        await broker.administering.forget_topic(topic)
                    await deletion_log.begin_with_registry()
                    break
                except RegistryUnavailable as error:
                    _log.warning("the broker can't be registered yet: %s", error.message)
                    await asyncio.sleep(RETRY_S)
            lease.start(load.current_load)
            await self._warn_of_unknown_topics(broker, directory)
        except StartupError as error:
            _log.critical("the registry is back, and this process can't be broker %s, and ends: %s", broker.name, error)
            self.superseded.set()
        except Exception:  # noqa: BLE001 - the outermost of this task, and it logs
            _log.critical("the registry is back, and the broker can't be registered; it ends", exc_info=True)
            self.superseded.set()

    async def _serve_proxies(
        self,
        broker: Broker,
        directory: "RegistryDirectory",
        deletion_log: DeletionLog,
        front: StorageFront,
        observability: ProcessObservability,
        stack: AsyncExitStack,
    ) -> LoadReport:
        """Serve proxies. Returns the load for the heartbeats."""
        settings, lease = self._settings, self._lease
        assert lease is not None
        proxies = ProxyConnections(broker, directory, deletion_log, observability.continue_trace)
        await front.start(proxies)
        load = LoadReport(broker, proxies, directory)
        stack.push_async_callback(self._report_last_load, lease, load, directory)
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

    async def _report_last_load(self, lease: BrokerLease, load: LoadReport, directory: "RegistryDirectory") -> None:
        """Report the broker's unfinished messages at its end: no client calls it any more."""
        last = await load.final_load()
        if directory.problem is None:
            await lease.report_load(last)

    async def _warn_of_unknown_topics(self, broker: Broker, directory: "RegistryDirectory") -> None:
        """Warn of topics that the registry does not know; call it after the deletions are done."""
        settings = self._settings
        known = directory.snapshot.topics
        waiting = 0 if known else await broker.figures.count_timers() + broker.figures.current_figures().transactions
        rebuild = f"ternmq registry rebuild --data-dir {settings.data_dir} --broker-name {broker.name} --registry URL"
        if warning := warning_of(unknown_topics(broker.inspecting.held_topics(), known), waiting, rebuild):
            _log.warning("%s", warning)

    def _degraded_reason(self) -> str | None:
        of_store = None if self._broker is None else self._broker.degraded
        if self._replica is not None:
            of_store = self._replica.degraded_reason
        return self._clock.find_problem() or of_store or describe_copy(self._copy_age_s)

    @property
    def _copy_age_s(self) -> float | None:
        """The age of the copy of the registry that a broker without replicas uses; else None."""
        return None if self._directory is None or self._broker is None else self._directory.copy_age_s

    def _problem_reason(self) -> str | None:
        """Why messages can't be stored or received now; None if they can.

        A lease that can't be renewed is no such reason: proxies that know the broker go on using it.
        """
        if self._not_started is not None:
            return self._not_started
        if self._replica is not None:
            return self._replica.problem_reason
        assert self._broker is not None
        return self._broker.problem


def _is_replicated(directory: "RegistryDirectory", name: str) -> bool:
    entry = directory.snapshot.brokers.get(name)
    return entry is not None and bool(entry.replicas)


def _group_lookup(directory: "RegistryDirectory") -> "Callable[[str], ConsumerGroup]":
    def find_group(group: str) -> ConsumerGroup:
        return directory.snapshot.groups.get(group) or ConsumerGroup(name=group)

    return find_group
