"""One replica of a shard: leads or follows, as the registry says, from the start of its process to its end.

A deposed leader goes on as a follower in the same process: the part of its log that was not acknowledged is set aside
when the next leader requires it. A leader that ends, or hands over, first ends its proxies' streams, as an ending
broker does, then waits until an in-sync follower holds all, and then makes it the leader in the registry. One that is
elected while its disk refuses writes gives the leadership back, and follows until a write works.
"""

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING

from ternmq_broker.broker import Broker
from ternmq_broker.replication.space_shortage import SpaceShortage
from ternmq_broker.server.deletion_log import DeletionLog
from ternmq_broker.server.deletion_notes import DeletionNotes
from ternmq_broker.server.load_report import LoadReport
from ternmq_broker.server.proxy_connections import ProxyConnections
from ternmq_broker.server.replication.follower import ShardFollower
from ternmq_broker.server.replication.leader import ReplicatingLeader
from ternmq_broker.server.replication.membership import WonElection, in_sync_set
from ternmq_broker.server.replication.read_connection import ReadService
from ternmq_broker.server.replication.replica_figures import CopyFigures, follower_figures, leader_figures
from ternmq_common.errors import ErrorCode, MessagingError, StartupError
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_common.process.own_version import own_version
from ternmq_registry.errors import RegistryUnavailable
from ternmq_runtime.observability.figures import MemberFigures, MessageCounts, ReplicaFigures

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from ternmq_broker.broker_settings import BrokerSettings
    from ternmq_broker.server.replication.membership import ShardMembership
    from ternmq_broker.server.replication.replica_files import ReplicaFiles
    from ternmq_broker.server.storage_front import StorageFront
    from ternmq_common.catalog.cluster import BrokerEntry
    from ternmq_common.clock import SystemClock
    from ternmq_common.shard.model import ConsumerGroup
    from ternmq_registry.directory import RegistryDirectory
    from ternmq_runtime.observability.process_observability import ProcessObservability

_log = logging.getLogger(__name__)
_HAND_OVER_S = 2.0
_AGAIN_S = 0.5
_POLL_S = 0.01


class ShardReplica:
    """All parts of a replica but its process. `over` is set when it can't go on: it was removed, or can't open its
    files."""

    def __init__(
        self,
        membership: "ShardMembership",
        files: "ReplicaFiles",
        settings: "BrokerSettings",
        directory: "RegistryDirectory",
        front: "StorageFront",
        observability: "ProcessObservability",
        clock: "SystemClock",
        *,
        rules: "Callable[[str], ConsumerGroup]",
        over: asyncio.Event,
        grace_s: float,
        tls: "Callable[[], ssl.SSLContext] | None",
        seconds: "Callable[[], float]" = time.monotonic,
    ) -> None:
        self._membership = membership
        self._files = files
        self._settings = settings
        self._directory = directory
        self._front = front
        self._observability = observability
        self._clock = clock
        self._rules = rules
        self._over = over
        self._grace_s = grace_s
        self._tls = tls
        self._seconds = seconds
        self._stopping = asyncio.Event()
        self._tasks = BackgroundTasks()
        self.follower: ShardFollower | None = None
        self.leader: ReplicatingLeader | None = None
        self.broker: Broker | None = None
        self._proxies: ProxyConnections | None = None
        self._times_led = 0
        self._has_failed_to_move = False
        self._shortage = SpaceShortage()

    # --- figures

    @property
    def problem_reason(self) -> str | None:
        """Why it is not ready: it leads and accepts no messages, or lacks some of its leader's log."""
        if self.broker is not None and self.leader is not None:
            return self.broker.problem or self.leader.refusal_reason
        if self.follower is None:
            return self._files.open_problem or "this replica becomes leader or follower"
        return self.follower.write_problem or self.follower.problem

    @property
    def degraded_reason(self) -> str | None:
        """The problem for an operator, although this replica works; None if there is none."""
        if self.broker is not None:
            return self.broker.degraded
        return None if self.follower is None else self.follower.degraded_reason

    def replica_figures(self) -> ReplicaFigures:
        """The figures of the replica; may be called in any thread."""
        leader = self.leader
        if leader is not None:
            return leader_figures(self._membership, leader, self._times_led)
        return follower_figures(self._membership, self._files, self.follower, self._times_led)

    def member_figures(self) -> MemberFigures:
        """The figures of the member; may be called in any thread.

        A follower's lease is its own; proxies are connected to the leader only.
        """
        leader, follower, proxies = self.leader, self.follower, self._proxies
        age_s = leader.lease_age_s if leader is not None else None if follower is None else follower.lease_age_s
        return MemberFigures(
            registry_reachable=self._directory.problem is None,
            registry_version=self._directory.snapshot.version,
            lease_age_s=age_s,
            proxies=0 if proxies is None else len(proxies),
            clock_skew_s=self._directory.clock_skew_s,
        )

    # --- life

    def start(self, entry: "BrokerEntry") -> None:
        """Lead or follow from now on; `entry` is the shard as this replica has joined it."""
        self._tasks.start(self._lead_or_follow(entry), name="replica")

    async def stop(self) -> None:
        """Hand the leadership over if a replica can take it, and end."""
        self._stopping.set()
        await self._tasks.wait_until_done()
        with contextlib.suppress(MessagingError):  # its lease runs out by itself
            await self._membership.leave_shard()
        try:
            await asyncio.to_thread(self._files.close)
        except OSError as error:
            _log.error("the indexes could not be written, so that the next start takes longer: %s", error)

    async def _lead_or_follow(self, entry: "BrokerEntry") -> None:
        try:
            while not self._stopping.is_set():
                election = await self._follow_until_elected(entry)
                if election is None:
                    return
                refusal = await self._lead_until_over(election)
                if not self._stopping.is_set():
                    await self._files.wait_until_open(self._stopping.is_set)
                    if refusal is not None:
                        self._files.opened.room.write_failed(refusal)
                    entry = await self._read_entry()
        except StartupError as error:
            _log.critical("this replica of shard %s ends: %s", self._membership.shard, error)
            self._over.set()
        except Exception:  # noqa: BLE001 - the outermost of this task, and it logs
            _log.exception("this replica of shard %s ends unexpectedly", self._membership.shard)
            self._over.set()

    async def _read_entry(self) -> "BrokerEntry":
        while True:
            try:
                return (await self._membership.read_entry())[0]
            except RegistryUnavailable as error:
                _log.warning("cannot read the registry: %s", error.message)
                await asyncio.sleep(_AGAIN_S)

    # --- following

    async def _follow_until_elected(self, entry: "BrokerEntry") -> WonElection | None:
        """Follow until this replica leads; None if the process ends."""
        if (
            entry.store_id == self._membership.store_id
            and self._files.opened.room.write_problem is None
            and (election := await self._lead_after_restart(entry)) is not None
        ):
            return election
        notes = await asyncio.to_thread(self._read_notes)
        counts = MessageCounts()
        follower = self.follower = ShardFollower(
            self._membership,
            self._files,
            notes,
            tls=self._tls,
            seconds=self._seconds,
            counts=counts,
            scrub_days=self._settings.store_scrub_days,
        )
        reads = self._read_service(follower, counts)
        self._observability.watch_broker(CopyFigures(self._files, follower, counts))
        self._front.serve_reads(reads)
        tasks = BackgroundTasks()
        following = tasks.start_awaited(follower.run(await self._read_entry()), name="follower")
        ending = tasks.start(self._stopping.wait(), name="end of the follower")
        try:
            await asyncio.wait({following, ending}, return_when=asyncio.FIRST_COMPLETED)
            return following.result() if following.done() else None
        finally:
            follower.is_ending = True
            await tasks.stop()
            self._front.end_reads()
            self._observability.watch_broker(None)
            self.follower = None

    def _read_service(self, follower: ShardFollower, counts: MessageCounts) -> ReadService:
        name = f"{self._membership.shard}/{self._membership.name}"
        return ReadService(
            name=name,
            version=own_version(),
            reads=follower.readable_copy,
            continued=self._observability.continue_trace,
            counts=counts,
        )

    async def _lead_after_restart(self, entry: "BrokerEntry") -> WonElection | None:
        """Lead again in a new epoch, as the registry has this replica as the leader; None if that is over."""
        while True:
            requested_s = self._seconds()
            try:
                epoch = await self._membership.take_leadership(entry.epoch, keeps_move=not self._has_failed_to_move)
                if epoch is None:
                    return None
                entry, _ = await self._membership.read_entry()
            except RegistryUnavailable as error:
                _log.warning("whether this replica leads is not known: %s", error.message)
                await asyncio.sleep(_AGAIN_S)
            else:
                self._has_failed_to_move = False
                # Messages that its files know to be acknowledged can be received before any replica follows.
                acknowledged = self._files.current_store.indexes.spill_limit
                return WonElection(entry, requested_s, acknowledged) if entry.epoch == epoch else None

    # --- leading

    async def _lead_until_over(self, election: WonElection) -> OSError | None:
        """Lead until another replica does, or this one hands over; the files are closed afterwards.

        Returns the error of a disk on which this leadership could not begin; the files are open then.
        """
        try:
            broker, leader = await self._begin_leadership(election)
        except (OSError, StartupError) as error:
            with contextlib.suppress(MessagingError):  # the lease runs out by itself
                await self._membership.give_up_leadership(election.entry.epoch)
            if isinstance(error, OSError):
                return error
            raise
        self._files.mark_closed()
        await self._serve_until_over(broker, leader)
        return None

    async def _begin_leadership(self, election: WonElection) -> tuple[Broker, ReplicatingLeader]:
        """Write what a leader's log begins with. OSError: the disk refuses that; StartupError: it has failed."""
        membership = self._membership
        self._shortage.begin_leadership()
        await asyncio.to_thread(self._note_deletions)
        broker = await asyncio.to_thread(Broker.create, self._files.opened, self._settings, self._rules, self._clock)
        leader = ReplicatingLeader(
            membership,
            broker,
            election.entry,
            leased_at_s=election.leased_at_s,
            acknowledged=election.acknowledged,
            shortage=self._shortage,
            seconds=self._seconds,
        )
        broker.admission.gate = leader
        broker.set_answers_alone(leader.is_async)
        broker.set_topic_lookup(self._directory.find_topic)
        await leader.begin_epoch()
        return broker, leader

    async def _serve_until_over(self, broker: Broker, leader: ReplicatingLeader) -> None:
        """Serve followers and proxies until this leadership is over; the files are closed afterwards."""
        broker.start()
        deletion_log = DeletionLog(broker, self._directory, self._membership.settings.data_dir)
        proxies = ProxyConnections(broker, self._directory, deletion_log, self._observability.continue_trace)
        load = LoadReport(broker, proxies, self._directory)
        load.start()
        leader.start(load.current_load)
        leader.on_served_again = proxies.retry_refused
        self._front.serve_followers(leader.serve_follower)  # they must hold the first operations
        try:
            await self._begin_deletions(deletion_log, leader)
            if not (leader.deposed.is_set() or self._stopping.is_set()):
                self._observability.watch_broker(broker.figures)
                self.broker, self.leader, self._proxies = broker, leader, proxies
                self._times_led += 1
                self._front.serve_proxies(proxies)
                _log.info("this replica leads shard %s in epoch %d", self._membership.shard, leader.epoch)
                await self._wait_until_over(leader)
        finally:
            self._observability.watch_broker(None)
            self.broker = self.leader = self._proxies = None
            await load.stop()
            await self._end_leadership(broker, leader, proxies, load)

    def _read_notes(self) -> DeletionNotes:
        """Read the notes of deletions that are done here."""
        notes = DeletionNotes(self._membership.settings.data_dir)
        notes.read()
        return notes

    def _note_deletions(self) -> None:
        """Note the deletions in the log as done, even if they are not acknowledged: they are in this leader's log."""
        self._read_notes().add_done(*self._files.current_store.replica_log.pending_deletions())

    async def _begin_deletions(self, deletion_log: DeletionLog, leader: ReplicatingLeader) -> None:
        """Do the deletions of the time without a leader, before messages are accepted."""
        while not leader.deposed.is_set() and not self._stopping.is_set():
            async with BackgroundTasks() as tasks:
                beginning = tasks.start_awaited(deletion_log.begin_with_registry(), name="deletions")
                # Deletions must be held by enough replicas, and these may not come.
                await self._wait_until_over(leader, beginning)
                if not beginning.done():
                    break
            try:
                beginning.result()
            except (MessagingError, OSError) as error:
                _log.warning("deletions meanwhile can't be read, or done: %s", error)
                if isinstance(error, OSError):
                    self._files.opened.room.write_failed(error)
                await asyncio.sleep(_AGAIN_S)
            else:
                break

    async def _wait_until_over(self, leader: ReplicatingLeader, *others: "asyncio.Task[None]") -> None:
        """Return when this leadership must end, or one of the other tasks is done."""
        events = (leader.deposed, leader.move_requested, self._stopping)
        async with BackgroundTasks() as tasks:
            waits = [tasks.start(event.wait(), name="end of the leadership") for event in events]
            await asyncio.wait([*waits, *others], return_when=asyncio.FIRST_COMPLETED)

    async def _end_leadership(
        self, broker: Broker, leader: ReplicatingLeader, proxies: ProxyConnections, load: LoadReport
    ) -> None:
        """Stop serving, and hand the leadership over if that is wanted."""
        text = f"broker {self._membership.shard} no longer leads; whether this was stored is not sure"
        error = MessagingError(ErrorCode.INTERNAL_SERVER_ERROR, text)
        failure = broker.disk_failure
        if leader.deposed.is_set():
            broker.give_up(error)
            await self._front.stop_serving_proxies(0)
            await broker.stop_background()
        else:
            await self._front.stop_serving_proxies(self._grace_s)
            quiet = asyncio.create_task(broker.stop_background(), name="end of the broker")
            await asyncio.wait({quiet}, timeout=_HAND_OVER_S)
            if not quiet.done():
                broker.give_up(error)  # too few replicas hold what it waits for
            await quiet
            is_handed_over = await self._hand_over(leader)
            self._has_failed_to_move = not is_handed_over
            if leader.moves_for_shortage and not is_handed_over:
                self._shortage.note_failure(self._seconds())
            if not is_handed_over and self._stopping.is_set():
                with contextlib.suppress(MessagingError):  # the lease runs out by itself
                    await self._membership.give_up_leadership(leader.epoch, await load.final_load())
        proxies.close()
        self._front.forget_followers()
        await leader.stop()
        await broker.stop()
        if failure is not None:
            with contextlib.suppress(MessagingError):
                await self._membership.give_up_leadership(leader.epoch)
            raise StartupError(f"its disk can't be relied on any more: {failure.message}")

    async def _hand_over(self, leader: ReplicatingLeader) -> bool:
        """Make an in-sync replica with the whole log the leader; False if there was none in time."""
        membership = self._membership
        try:
            async with asyncio.timeout(_HAND_OVER_S):
                entry = await self._read_entry()
                targets = [leader.move_to] if leader.move_to else sorted(in_sync_set(entry) - {membership.store_id})
                if not targets:
                    return False
                while not (ready := [each for each in targets if leader.has_all(each)]):  # noqa: ASYNC110
                    await asyncio.sleep(_POLL_S)
                ready.sort(key=leader.is_damaged)
                epoch = await membership.hand_over(leader.epoch, ready[0])
                if epoch is not None:
                    _log.info("replica %s leads now, in epoch %d", membership.names_of(ready[:1]), epoch)
                    await leader.notify_elected(ready[0], epoch)
                    return True
        except TimeoutError:
            _log.warning("no replica had the whole log in time, so the leadership was not handed over")
        except MessagingError as error:
            _log.warning("the leadership could not be handed over: %s", error.message)
        return False
