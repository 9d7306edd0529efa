"""One replica of a shard: leads or follows, as the registry says, from the start of its process to its end.

A deposed leader goes on as a follower in the same process: the part of its log that was not acknowledged is set aside
when the next leader requires it. A leader that ends, or hands over, first ends its proxies' streams, as an ending
broker does, then waits until an in-sync follower holds all, and then makes it the leader in the registry.
"""

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING

from ternmq_broker.broker import Broker
from ternmq_broker.replication.shortage import Shortage
from ternmq_broker.server.deletion_log import DeletionLog
from ternmq_broker.server.deletion_notes import DeletionNotes
from ternmq_broker.server.load import Load
from ternmq_broker.server.proxies import Proxies
from ternmq_broker.server.replication.follower import Follower
from ternmq_broker.server.replication.leader import ReplicatingLeader
from ternmq_broker.server.replication.membership import Election, in_sync
from ternmq_broker.server.replication.read_connection import ReadService
from ternmq_broker.server.replication.replica_figures import CopyFigures, follower_figures, leader_figures
from ternmq_common.errors import ErrorCode, MessagingError, StartupError
from ternmq_common.own_version import own_version
from ternmq_registry.errors import RegistryUnavailable
from ternmq_runtime.observability.figures import MemberFigures, MessageCounts, ReplicaFigures

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from ternmq_broker.broker_settings import BrokerSettings
    from ternmq_broker.server.replication.files import ReplicaFiles
    from ternmq_broker.server.replication.membership import Membership
    from ternmq_broker.server.storage_front import StorageFront
    from ternmq_common.clock import Clock
    from ternmq_common.cluster import BrokerEntry
    from ternmq_common.model import Group
    from ternmq_registry.directory import Directory
    from ternmq_runtime.observability.observability import Observability

_log = logging.getLogger(__name__)
_HAND_OVER_S = 2.0
_AGAIN_S = 0.5
_POLL_S = 0.01


class Replica:
    """All parts of a replica but its process. `over` is set when it can't go on: it was removed, or can't open its
    files."""

    def __init__(
        self,
        membership: "Membership",
        files: "ReplicaFiles",
        settings: "BrokerSettings",
        directory: "Directory",
        front: "StorageFront",
        observability: "Observability",
        clock: "Clock",
        *,
        rules: "Callable[[str], Group]",
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
        self._task: asyncio.Task[None] | None = None
        self.follower: Follower | None = None
        self.leader: ReplicatingLeader | None = None
        self.broker: Broker | None = None
        self._proxies: Proxies | None = None
        self._times_led = 0
        self._has_failed_to_move = False
        self._shortage = Shortage()

    # --- figures

    @property
    def problem(self) -> str | None:
        """Why it is not ready: it leads and accepts no messages, or lacks some of its leader's log."""
        if self.broker is not None and self.leader is not None:
            return self.broker.problem or self.leader.problem
        return "this replica becomes leader or follower" if self.follower is None else self.follower.problem

    @property
    def degraded(self) -> str | None:
        """What an operator should look at although this replica works; None if nothing."""
        if self.broker is not None:
            return self.broker.degraded
        return None if self.follower is None else self.follower.degraded

    def figures(self) -> ReplicaFigures:
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
        age_s = leader.lease_age_s if leader is not None else None if follower is None else follower.pulse_age_s
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
        self._task = asyncio.create_task(self._run(entry), name="replica")

    async def stop(self) -> None:
        """Hand the leadership over if a replica can take it, and end."""
        self._stopping.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        with contextlib.suppress(MessagingError):  # its lease runs out by itself
            await self._membership.leave()
        try:
            await asyncio.to_thread(self._files.close)
        except OSError as error:
            _log.error("the indexes could not be written, so that the next start takes longer: %s", error)

    async def _run(self, entry: "BrokerEntry") -> None:
        try:
            while not self._stopping.is_set():
                election = await self._elected(entry)
                if election is None:
                    return
                await self._lead(election)
                if not self._stopping.is_set():
                    await self._files.wait_until_open(self._stopping.is_set)
                    entry = await self._look()
        except StartupError as error:
            _log.critical("this replica of shard %s ends: %s", self._membership.shard, error)
            self._over.set()
        except Exception:  # noqa: BLE001 - the outermost of this task, and it logs
            _log.exception("this replica of shard %s ends unexpectedly", self._membership.shard)
            self._over.set()

    async def _look(self) -> "BrokerEntry":
        while True:
            try:
                return (await self._membership.look())[0]
            except RegistryUnavailable as error:
                _log.warning("cannot read the registry: %s", error.message)
                await asyncio.sleep(_AGAIN_S)

    # --- following

    async def _elected(self, entry: "BrokerEntry") -> Election | None:
        """Follow until this replica leads; None if the process ends."""
        if entry.store_id == self._membership.store_id and (election := await self._restarted(entry)) is not None:
            return election
        notes = await asyncio.to_thread(self._noted)
        counts = MessageCounts()
        follower = self.follower = Follower(
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
        following = asyncio.create_task(follower.run(await self._look()), name="follower")
        ending = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({following, ending}, return_when=asyncio.FIRST_COMPLETED)
            return following.result() if following.done() else None
        finally:
            follower.is_ending = True
            for task in (following, ending):
                task.cancel()
            await asyncio.gather(following, ending, return_exceptions=True)
            self._front.end_reads()
            self._observability.watch_broker(None)
            self.follower = None

    def _read_service(self, follower: Follower, counts: MessageCounts) -> ReadService:
        name = f"{self._membership.shard}/{self._membership.name}"
        return ReadService(
            name=name,
            version=own_version(),
            reads=follower.reads,
            continued=self._observability.continued,
            counts=counts,
        )

    async def _restarted(self, entry: "BrokerEntry") -> Election | None:
        """Lead again in a new epoch, as the registry has this replica as the leader; None if that is over."""
        while True:
            asked_s = self._seconds()
            try:
                epoch = await self._membership.lead(entry.epoch, keeps_move=not self._has_failed_to_move)
                if epoch is None:
                    return None
                entry, _ = await self._membership.look()
            except RegistryUnavailable as error:
                _log.warning("whether this replica leads is not known: %s", error.message)
                await asyncio.sleep(_AGAIN_S)
            else:
                self._has_failed_to_move = False
                # What its files know to be acknowledged can be received before any replica follows.
                acknowledged = self._files.store.spill_limit
                return Election(entry, asked_s, acknowledged) if entry.epoch == epoch else None

    # --- leading

    async def _lead(self, election: Election) -> None:
        """Lead until another replica does, or this one hands over; the files are closed afterwards."""
        membership, files = self._membership, self._files
        self._shortage.begin()
        await asyncio.to_thread(self._note_deletions)
        broker = await asyncio.to_thread(Broker.over, files.opened, self._settings, self._rules, self._clock)
        files.let_go()
        leader = ReplicatingLeader(
            membership,
            broker,
            election.entry,
            leased_at_s=election.leased_at_s,
            acknowledged=election.acknowledged,
            shortage=self._shortage,
            seconds=self._seconds,
        )
        broker.gate = leader
        broker.answers_alone(leader.is_async)
        broker.know_topics(self._directory.find_topic)
        await leader.begin()
        broker.start()
        deletion_log = DeletionLog(broker, self._directory, self._membership.settings.data_dir)
        proxies = Proxies(broker, self._directory, deletion_log, self._observability.continued)
        load = Load(broker, proxies, self._directory)
        load.start()
        leader.start(load.now)
        leader.on_served_again = proxies.served_again
        self._front.serve_followers(leader.serve)  # they must hold the first operations
        try:
            await self._begin_deletions(deletion_log, leader)
            if not (leader.deposed.is_set() or self._stopping.is_set()):
                self._observability.watch_broker(broker.figures)
                self.broker, self.leader, self._proxies = broker, leader, proxies
                self._times_led += 1
                self._front.lead(proxies)
                _log.info("this replica leads shard %s in epoch %d", membership.shard, leader.epoch)
                await self._until_over(leader)
        finally:
            self._observability.watch_broker(None)
            self.broker = self.leader = self._proxies = None
            await load.stop()
            await self._end(broker, leader, proxies, load)

    def _noted(self) -> DeletionNotes:
        """Read the notes of deletions that are done here."""
        notes = DeletionNotes(self._membership.settings.data_dir)
        notes.read()
        return notes

    def _note_deletions(self) -> None:
        """Note the deletions in the log as done, even if they are not acknowledged: they are in this leader's log."""
        self._noted().add(*self._files.store.give_deletions())

    async def _begin_deletions(self, deletion_log: DeletionLog, leader: ReplicatingLeader) -> None:
        """Do the deletions of the time without a leader, before messages are accepted."""
        while not leader.deposed.is_set() and not self._stopping.is_set():
            beginning = asyncio.create_task(deletion_log.begin(), name="deletions")
            # Deletions must be held by enough replicas, and these may not come.
            await self._until_over(leader, beginning)
            if not beginning.done():
                beginning.cancel()
                await asyncio.gather(beginning, return_exceptions=True)
                break
            try:
                beginning.result()
            except RegistryUnavailable as error:
                _log.warning("deletions meanwhile can't be read: %s", error.message)
                await asyncio.sleep(_AGAIN_S)
            else:
                break

    async def _until_over(self, leader: ReplicatingLeader, *others: "asyncio.Task[None]") -> None:
        """Return when this leadership must end, or one of the other tasks is done."""
        events = (leader.deposed, leader.asked_to_move, self._stopping)
        waits = [asyncio.create_task(event.wait()) for event in events]
        try:
            await asyncio.wait([*waits, *others], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _end(self, broker: Broker, leader: ReplicatingLeader, proxies: Proxies, load: Load) -> None:
        """Stop serving, and hand the leadership over if that is wanted."""
        text = f"broker {self._membership.shard} no longer leads; whether this was stored is not sure"
        error = MessagingError(ErrorCode.INTERNAL_SERVER_ERROR, text)
        failure = broker.disk_failure
        if leader.deposed.is_set():
            broker.give_up(error)
            await self._front.follow(0)
            await broker.quiesce()
        else:
            await self._front.follow(self._grace_s)
            quiet = asyncio.create_task(broker.quiesce(), name="end of the broker")
            await asyncio.wait({quiet}, timeout=_HAND_OVER_S)
            if not quiet.done():
                broker.give_up(error)  # too few replicas hold what it waits for
            await quiet
            is_handed_over = await self._handed_over(leader)
            self._has_failed_to_move = not is_handed_over
            if leader.moves_for_room and not is_handed_over:
                self._shortage.failed(self._seconds())
            if not is_handed_over and self._stopping.is_set():
                with contextlib.suppress(MessagingError):  # the lease runs out by itself
                    await self._membership.give_up(leader.epoch, await load.last())
        proxies.close()
        self._front.forget_followers()
        await leader.stop()
        await broker.stop()
        if failure is not None:
            with contextlib.suppress(MessagingError):
                await self._membership.give_up(leader.epoch)
            raise StartupError(f"its disk can't be relied on any more: {failure.message}")

    async def _handed_over(self, leader: ReplicatingLeader) -> bool:
        """Make an in-sync replica that holds all the leader; False if there was none in time."""
        membership = self._membership
        try:
            async with asyncio.timeout(_HAND_OVER_S):
                entry = await self._look()
                targets = [leader.move_to] if leader.move_to else sorted(in_sync(entry) - {membership.store_id})
                if not targets:
                    return False
                while not (ready := [each for each in targets if leader.has_all(each)]):  # noqa: ASYNC110
                    await asyncio.sleep(_POLL_S)
                ready.sort(key=leader.is_damaged)
                epoch = await membership.hand_over(leader.epoch, ready[0])
                if epoch is not None:
                    _log.info("replica %s leads now, in epoch %d", membership.named(ready[:1]), epoch)
                    await leader.tell_elected(ready[0], epoch)
                    return True
        except TimeoutError:
            _log.warning("no replica had the whole log in time, so the leadership was not handed over")
        except MessagingError as error:
            _log.warning("the leadership could not be handed over: %s", error.message)
        return False
