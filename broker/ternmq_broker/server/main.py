"""`ternmq broker`: one storage broker of a cluster as a process, from `ready` to a clean end."""

import asyncio
import logging
from contextlib import AsyncExitStack
from importlib.metadata import version
from typing import TYPE_CHECKING

from ternmq_broker.broker import Broker
from ternmq_broker.broker_settings import BrokerSettings
from ternmq_broker.server.deletion_log import DeletionLog
from ternmq_broker.server.lease import Lease
from ternmq_broker.server.load import Load
from ternmq_broker.server.proxies import Proxies
from ternmq_broker.server.replication.files import ReplicaFiles
from ternmq_broker.server.replication.membership import Membership
from ternmq_broker.server.replication.replica import Replica
from ternmq_broker.server.storage_front import StorageFront
from ternmq_broker.server.store_identity import loss_told, store_id
from ternmq_common.clock import Clock
from ternmq_common.errors import StartupError
from ternmq_common.model import Group
from ternmq_registry.joining import join
from ternmq_registry.shards import Joining
from ternmq_registry.unknown_topics import unknown_topics, warning_of
from ternmq_runtime import process
from ternmq_runtime.observability.figures import MemberFigures
from ternmq_runtime.observability.http_front import HttpFront
from ternmq_runtime.observability.observability import Observability
from ternmq_runtime.tls import ProcessTls

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from ternmq_common.server_settings import BrokerServerSettings
    from ternmq_registry.directory import Directory

_log = logging.getLogger(__name__)


def run(settings: "BrokerServerSettings") -> int:
    """Serve until SIGTERM or SIGINT, or until another process is this broker; the process's exit code. StartupError: it
    could not begin."""
    broker = BrokerServer(settings, Clock())

    async def start(stack: AsyncExitStack) -> str:
        await broker.start(stack)
        return f"ready storage={broker.address} http={broker.http_address}"

    return process.run(settings, start, over=broker.superseded)


class BrokerServer:
    """All of a broker process but the process."""

    def __init__(self, settings: "BrokerServerSettings", clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._not_started: str | None = "the registry was not read yet"
        self._broker: Broker | None = None
        self._replica: Replica | None = None
        self._lease: Lease | None = None
        self.superseded = asyncio.Event()
        self.address = self.http_address = ""

    async def start(self, stack: AsyncExitStack) -> None:
        """Begin everything; `stack` ends it. StartupError says why it can't begin."""
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
            metrics=observability.scrape,
            tls=tls.http,
        )
        stack.push_async_callback(http.stop)
        self.http_address = await http.listen(settings.http)
        directory = await join(settings, stack, self._clock)
        self._not_started = "the store is being recovered"
        front = StorageFront(settings.storage, tls=tls.storage)
        stack.callback(front.close)
        self.address = front.address
        if settings.replicas > 1 or _is_replicated(directory, settings.broker_name):
            await self._start_replica(directory, front, observability, tls.to_brokers, stack)
        else:
            broker = await self._open(directory)
            self._not_started = "the broker is not registered yet"
            await self._register(broker, directory, front, stack)
            observability.watch_broker(broker.figures)
            self._broker = broker
            await self._serve(broker, directory, front, observability, stack)
        self._not_started = None

    async def _start_replica(
        self,
        directory: "Directory",
        front: StorageFront,
        observability: Observability,
        tls: "Callable[[], ssl.SSLContext] | None",
        stack: AsyncExitStack,
    ) -> None:
        """Be one of the replicas of the shard, whether it leads or not."""
        settings = self._settings
        if settings.accept_corruption:
            raise StartupError(
                "a replica never goes on without records that were acknowledged (accept_corruption): start it with an "
                "empty --data-dir, and it copies what its leader has"
            )
        process.make_data_dir(settings.data_dir)
        broker_settings = BrokerSettings.of(settings)
        files = await asyncio.to_thread(ReplicaFiles, broker_settings)
        store = await asyncio.to_thread(store_id, settings.data_dir, is_used=files.store.end > 0)
        self._not_started = "the replica has not joined its shard yet"
        member = Joining(
            store_id=store,
            name=settings.replica_name or f"replica-{store[:6]}",
            address=settings.advertised_storage or front.address,
            version=version("ternmq"),
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

    async def _open(self, directory: "Directory") -> Broker:
        process.make_data_dir(self._settings.data_dir)
        settings = BrokerSettings.of(self._settings)
        return await asyncio.to_thread(Broker.open, settings, _rules(directory), self._clock)

    async def _register(
        self, broker: Broker, directory: "Directory", front: StorageFront, stack: AsyncExitStack
    ) -> None:
        """Become the broker of that name, and begin to run; StartupError if that may not be: then the store, which may
        be that of another broker, stays as it was opened."""
        try:
            gone = await self._take_lease(broker, directory, front)
        except BaseException:
            await asyncio.to_thread(broker.abandon)
            raise
        stack.push_async_callback(broker.close)
        broker.start()
        for topic in gone:
            await broker.forget_topic(topic)

    async def _take_lease(self, broker: Broker, directory: "Directory", front: StorageFront) -> list[str]:
        """Register. Returns the topics that were deleted while it was removed, of which nobody keeps that."""
        settings = self._settings
        own = await asyncio.to_thread(store_id, settings.data_dir, is_used=broker.is_used)
        lease = self._lease = Lease(
            directory.registry,
            name=broker.name,
            store_id=own,
            address=settings.advertised_storage or front.address,
            version=version("ternmq"),
            lease_ms=settings.lease_ms,
        )
        lease.superseded = self.superseded
        gone = await asyncio.to_thread(directory.registry.topics_gone, own) if settings.rejoin else []
        # The registry says what a store is to remove when it knows the store; proxies find nobody until then.
        await lease.take(rejoin=settings.rejoin, is_empty=not broker.is_used, instead_of=settings.accept_empty_store)
        before = directory.snapshot.brokers.get(broker.name)
        if before is not None and before.store_id != own:
            _log.warning("%s", loss_told(before, directory.snapshot))
        return gone

    async def _serve(
        self,
        broker: Broker,
        directory: "Directory",
        front: StorageFront,
        observability: Observability,
        stack: AsyncExitStack,
    ) -> None:
        settings, lease = self._settings, self._lease
        assert lease is not None
        deletion_log = DeletionLog(broker, directory, settings.data_dir)
        await deletion_log.begin()
        await self._warn_of_unknown_topics(broker, directory)
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
                lease_age_s=lease.age_s,
                proxies=len(proxies),
                clock_skew_s=directory.clock_skew_s,
            )
        )
        load.start()
        lease.start(load.now)

    async def _tell_last(self, lease: Lease, load: Load, directory: "Directory") -> None:
        """Nobody asks the broker for anything any more: what it holds now is what is away with it."""
        last = await load.last()
        if directory.problem is None:
            await lease.tell(last)

    async def _warn_of_unknown_topics(self, broker: Broker, directory: "Directory") -> None:
        """To be called when what was deleted is removed."""
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
        return self._clock.problem() or of_store

    def _problem(self) -> str | None:
        """Why messages can't be stored, or can't be received, now. A lease that can't be renewed does not keep the
        proxies that know the broker from using it."""
        if self._not_started is not None:
            return self._not_started
        if self._replica is not None:
            return self._replica.problem
        assert self._broker is not None
        return self._broker.problem


def _is_replicated(directory: "Directory", name: str) -> bool:
    entry = directory.snapshot.brokers.get(name)
    return entry is not None and bool(entry.replicas)


def _rules(directory: "Directory") -> "Callable[[str], Group]":
    def rules(group: str) -> Group:
        return directory.snapshot.groups.get(group) or Group(name=group)

    return rules
