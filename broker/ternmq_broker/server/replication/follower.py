"""A follower of a shard: finds the leader in the registry, copies its log and journal, and takes over when that is
due.

`replication/following.py` decides; two tasks carry it out: one reads the registry, one has the stream to the leader.
Before this replica asks for the leadership the stream has ended, so that it acknowledges nothing more to a leader that
it replaces.
"""

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING

from ternmq_broker.background_loop import FailureLog
from ternmq_broker.log_upkeep import Sources
from ternmq_broker.replication.following import Following
from ternmq_broker.server.replication import wire
from ternmq_broker.server.replication.copy import Copy
from ternmq_broker.server.replication.copy_reads import CopyReads, not_here
from ternmq_broker.server.replication.leader_progress import LeaderProgress
from ternmq_broker.server.replication.log_asking import LogAsking
from ternmq_broker.server.replication.membership import Election, in_sync, view_of
from ternmq_broker.server.replication.wire import Follow, Held, JournalPart, Lead
from ternmq_broker.store.copying import BadCopy
from ternmq_broker.store.log.record import BadRecord
from ternmq_broker.store.progress_journal import BadLines
from ternmq_common.errors import MessagingError, StartupError
from ternmq_common.printable import cut, printable
from ternmq_common.shard import form
from ternmq_common.shard.form import NoFrame
from ternmq_registry.errors import RegistryUnavailable
from ternmq_rpc.grpc_http2.messages import StreamBroken
from ternmq_rpc.grpc_stream.client import connect

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from ternmq_broker.server.deletion_notes import DeletionNotes
    from ternmq_broker.server.replication.files import ReplicaFiles
    from ternmq_broker.server.replication.membership import Membership
    from ternmq_common.cluster import BrokerEntry
    from ternmq_rpc.grpc_stream.stream import Stream
    from ternmq_runtime.observability.durations import Durations
    from ternmq_runtime.observability.figures import MessageCounts

_log = logging.getLogger(__name__)
_LOOKS_PER_LEASE = 8
_CONNECT_S = 3.0
_AGAIN_S, _AGAIN_MAX_S = 0.05, 1.0
# A full disk may last, and each try is logged here and at the leader.
_AFTER_DISK_S = 5.0
_MUCH_BYTES = 64 << 10
_JOURNAL_BYTES_MAX = 1 << 30


class _Refused(Exception):
    """The leader refuses this follower; the text says why."""


class _StoreLost(Exception):
    """Files of this follower's store are gone, so that it holds nothing for a leader; the text says which."""


class Follower:
    """Follows until it is elected. `problem` says why it lacks some of the leader's log; None if it has all."""

    def __init__(
        self,
        membership: "Membership",
        files: "ReplicaFiles",
        notes: "DeletionNotes",
        *,
        tls: "Callable[[], ssl.SSLContext] | None" = None,
        seconds: "Callable[[], float]" = time.monotonic,
        counts: "MessageCounts | None" = None,
        scrub_days: float = 0,
    ) -> None:
        """`counts` counts what proxies read here."""
        self._scrub_days = scrub_days
        self._asking: LogAsking | None = None
        self._membership = membership
        self._files = files
        self._notes = notes
        self._tls = tls
        self._seconds = seconds
        self._counts = counts
        self._following = Following(membership.store_id, membership.timing, seconds())
        self._copy = self._new_copy()
        self._stream: Stream | None = None
        self._leader_progress = LeaderProgress()
        self._looked = asyncio.Event()
        self._look_now = asyncio.Event()
        self._told_why = ""
        self._pause_s = 0.0
        self._stream_epoch = 0
        self._pulsed_s = seconds()
        self._journal: list[bytes] = []
        self._journal_bytes = 0
        self._changing: asyncio.Task[None] | None = None
        self._notes_failed = FailureLog("this replica can't note what it has and what was deleted")
        self.problem: str | None = "this replica has not found its leader yet"
        self.is_ending = False
        """Whether the process ends, so that nothing is waited for any more."""

    async def run(self, entry: "BrokerEntry") -> Election:
        """Follow, and return when this replica leads; `entry` is the shard as it was found.

        StartupError: this replica was removed, or its files can't become durable: only a process that opens them again
        knows what the disk has.
        """
        self._following.saw(view_of(entry), self._seconds())
        self._copy.start()
        try:
            while True:
                stream = asyncio.create_task(self._follow_forever(), name="copy of the leader's log")
                try:
                    await self._watch_until_due(stream)
                finally:
                    stream.cancel()
                    await asyncio.gather(stream, return_exceptions=True)
                    if self._changing is not None:
                        await asyncio.gather(self._changing, return_exceptions=True)
                # From here on nothing is acknowledged to another leader.
                if (election := await self._elected()) is not None:
                    return election
        finally:
            await self._copy.stop()

    @property
    def behind_bytes(self) -> int:
        """How much of the leader's log is not held, by the leader's last heartbeat."""
        heartbeat = self._leader_progress.heartbeat
        return 0 if heartbeat is None else max(0, heartbeat.end - self._copy.held)

    @property
    def degraded(self) -> str | None:
        """What an operator should look at although the replica follows; None if nothing."""
        return self._files.store.damage.degraded

    @property
    def position(self) -> int:
        """The log offset up to which the log is durable."""
        return self._files.store.synced

    @property
    def epoch(self) -> int:
        """The highest epoch that it knows."""
        return self._following.epoch

    @property
    def acknowledged(self) -> int:
        """The log offset up to which the log is acknowledged, as the leader reported."""
        return self._copy.acknowledged

    def reads(self) -> CopyReads:
        """The reads of the copy, for proxies; HA_NOT_AVAILABLE while it may lack changes of the leader."""
        now_s = self._seconds()
        why = self._following.refuses_reads(self._stream_epoch, self._leader_progress.behind_s(now_s), now_s)
        if self._stream is None or why is not None or self._copy.failure is not None:
            raise not_here(why or "it has no leader to follow, or its disk has failed")
        return self._copy.reads

    @property
    def failure(self) -> "MessagingError | None":
        """Why the disk can't be relied on any more; None if it can."""
        return self._copy.failure

    @property
    def syncs(self) -> "Durations":
        """How long syncs of the log took since it was opened."""
        return self._copy.syncs

    @property
    def pulse_age_s(self) -> float:
        """How many seconds ago this replica's own lease was renewed."""
        return self._seconds() - self._pulsed_s

    # --- the registry

    async def _watch_until_due(self, stream: "asyncio.Task[None]") -> None:
        """Return when this replica must ask for the leadership, or has it."""
        timing = self._membership.timing
        look_s, next_pulse_s = timing.lease_s / _LOOKS_PER_LEASE, 0.0
        while True:
            if stream.done():
                stream.result()
                raise AssertionError("the stream to the leader ends by an exception only")
            if (failure := self._copy.failure) is not None:
                raise StartupError(f"its disk can't be relied on any more: {failure.message}")
            now_s = self._seconds()
            try:
                if now_s >= next_pulse_s:
                    next_pulse_s = now_s + timing.lease_s / 3
                    await self._pulse()
                entry, asked_s = await self._membership.look()
                self._following.saw(view_of(entry), asked_s)
                self._looked.set()
                self._look_at_stream()
                await self._note_in_sync(entry)
            except RegistryUnavailable as error:
                _log.debug("cannot read the registry: %s", error.message)
            except OSError as error:  # notes can be written later; until then they have too little, and not too much
                self._notes_failed.failed(error, look_s)
            else:
                self._notes_failed.worked()
            is_damaged = self._files.store.damage.is_known
            if self._following.is_elected() or self._following.may_take_over(self._seconds(), is_damaged=is_damaged):
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(look_s):
                    await self._look_now.wait()
            self._look_now.clear()

    def _look_at_stream(self) -> None:
        """End the stream to a leader that leads no more, or is silent."""
        stream, lease_s = self._stream, self._membership.timing.lease_s
        if stream is None:
            return
        if self._stream_epoch < self._following.epoch:
            stream.abort("the shard has another leader")
        elif self._seconds() - self._leader_progress.heard_s > lease_s:
            stream.abort(f"the leader sent nothing for {lease_s:g} s")

    async def _pulse(self) -> None:
        asked_s = self._seconds()
        applied = await self._membership.pulse(self.position)
        self._pulsed_s = asked_s
        if applied is None:
            raise StartupError(f"replica {self._membership.name} was removed from shard {self._membership.shard}")
        await asyncio.to_thread(self._notes.prune, applied)

    async def _note_in_sync(self, entry: "BrokerEntry") -> None:
        """End the catching up, in which the records may claim more than is durable here, once this replica is in
        sync."""
        store = self._files.store
        heartbeat = self._leader_progress.heartbeat
        has_all = heartbeat is not None and self._copy.held >= heartbeat.acknowledged
        if store.is_catching_up and has_all and self._membership.store_id in in_sync(entry):
            await asyncio.to_thread(store.caught_up())

    async def _elected(self) -> Election | None:
        """Ask for the leadership, also if it was given: then for an epoch of its own. None if another replica leads.

        It is requested until there is an answer: a call whose answer was lost may take effect later, while this
        replica follows again, but not after the next call.
        """
        membership, view = self._membership, self._following.view
        assert view is not None
        while True:
            asked_s = self._seconds()
            try:
                epoch = await membership.lead(view.epoch)
                break
            except RegistryUnavailable as error:
                _log.warning("whether this replica leads is not known: %s", error.message)
                await asyncio.sleep(_AGAIN_MAX_S)
        entry = await self._look_until_known()
        if epoch is None or entry.epoch != epoch:
            _log.info("replica %s leads", membership.named([entry.store_id]))
            return None
        return Election(entry, asked_s, self._copy.acknowledged)

    async def _look_until_known(self) -> "BrokerEntry":
        while True:
            try:
                entry, asked_s = await self._membership.look()
            except RegistryUnavailable:
                await asyncio.sleep(_AGAIN_MAX_S)
            else:
                self._following.saw(view_of(entry), asked_s)
                return entry

    # --- the leader

    async def _follow_forever(self) -> None:
        wait_s = _AGAIN_S
        while True:
            began_s = self._seconds()
            why = self._copy.lost or await self._follow_until_lost()
            if why != self._told_why:
                self._told_why = why
                _log.warning("this replica has no leader to follow: %s", why)
            self.problem = f"this replica has no leader to follow: {why}"
            wait_s = _AGAIN_S if self._seconds() - began_s > _AGAIN_MAX_S else min(2 * wait_s, _AGAIN_MAX_S)
            pause_s, self._pause_s = self._pause_s, 0.0
            await asyncio.sleep(pause_s)
            self._looked.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._looked.wait()

    async def _follow_until_lost(self) -> str:
        """Follow the leader until that fails; returns why."""
        view, entry = self._following.view, self._membership.entry
        if view is None or entry is None or view.leader == self._membership.store_id:
            return "the registry names no other replica as the leader"
        if not entry.address:
            return "the leader has no address yet"
        tls = None if self._tls is None else self._tls()
        try:
            stream = await connect(entry.address, wire.METHOD, timeout_s=_CONNECT_S, tls=tls)
        except StreamBroken as error:
            return str(error)
        try:
            async with asyncio.timeout(_CONNECT_S):
                lead = await self._greet(stream, view.epoch)
            await self._agree(stream, lead)
            await self._take_forever(stream)
        except (StreamBroken, _Refused, _StoreLost) as error:
            return str(error)
        except TimeoutError:
            return "the leader does not answer"
        except NoFrame as error:
            return f"the leader sent an invalid frame: {error}"
        except (BadCopy, BadRecord) as error:
            self._say_untaken(stream)
            await self._begin_again(None)
            return f"what the leader sent can't be taken: {error}"
        except (BadLines, OSError) as error:
            self._pause_s = _AFTER_DISK_S if isinstance(error, OSError) else 0.0
            return f"what the leader sent can't be taken: {error}"
        except MessagingError as error:
            return error.message
        finally:
            self._stream = None
            self._asks_no_more()
            stream.abort("the follower has no use for it any more")
        return "it ended the stream"

    def _asks_no_more(self) -> None:
        if self._asking is not None:
            self._asking.close()
            self._asking = None

    def _say_untaken(self, stream: "Stream") -> None:
        """Make the leader check its log, which may be damaged at the end of this one."""
        with contextlib.suppress(StreamBroken):
            stream.write(form.frame([wire.UNTAKEN.piece(self._files.store.end)]))

    async def _greet(self, stream: "Stream", epoch: int) -> Lead:
        membership, store = self._membership, self._files.store
        end = await self._copy.settled()
        hello = Follow(membership.shard, membership.store_id, epoch, store.key, store.epochs, store.start, end)
        stream.write(form.frame([wire.FOLLOW.piece(hello)]))
        for piece in form.pieces(await stream.read() or b"\x90"):
            if piece.what == wire.REFUSED.what:
                raise _Refused(f"the leader refuses it: {printable(cut(wire.REFUSED.of(piece)))}")
            if piece.what == wire.LEAD.what:
                lead = wire.LEAD.of(piece)
                if not self._following.accepts(lead.epoch):
                    raise _Refused(f"the leader has epoch {lead.epoch}, and there is a later one")
                return lead
        raise _Refused("the leader ended the stream")

    async def _agree(self, stream: "Stream", lead: Lead) -> None:
        """Cut the log off where it differs from the leader's."""
        store, membership = self._files.store, self._membership
        if lead.state is not None:
            _log.info("truncating the whole log: the leader's begins at log offset %d", lead.state.log_start)
            await self._begin_again(lead)
        elif lead.common < store.end:
            await self._begin_again(lead)
        elif lead.common > store.end:
            raise NoFrame("the leader takes the log to be longer than it is")
        view = self._following.view
        store = self._files.store
        if view is not None and membership.store_id not in view.in_sync and not store.is_catching_up:
            await asyncio.to_thread(store.begin_catching_up())
        self._copy.heard(0, lead.start)
        self._leader_progress.begin(self._seconds())
        self._stream, self._stream_epoch = stream, lead.epoch
        self._asking = LogAsking(stream.write, lambda: self._files.store)
        stream.write(form.frame([wire.READY.piece(store.end)]))

    async def _begin_again(self, lead: Lead | None) -> None:
        """Open the store again, cut off or replaced as `lead` says; runs to its end even if cancelled."""
        self._changing = asyncio.create_task(self._reopen(lead), name="store that is opened anew")
        await asyncio.shield(self._changing)

    async def _reopen(self, lead: Lead | None) -> None:
        await self._copy.stop()
        files = self._files
        try:
            if lead is None:
                await asyncio.to_thread(files.reopen)
            elif lead.state is not None:
                await asyncio.to_thread(files.begin_as, lead.state)
            else:
                await asyncio.to_thread(files.cut, lead.common)
        except StartupError as error:
            if not isinstance(error.__cause__, OSError):
                raise
            await files.wait_until_open(lambda: self.is_ending)
            if lead is not None:
                raise error.__cause__ from None  # the log is as it was
        finally:
            if files.is_open:
                self._copy = self._new_copy()
                self._copy.start()

    def _new_copy(self) -> Copy:
        flush, days = self._membership.settings.flush, self._scrub_days
        copy = Copy(self._files.opened, flush, self._notes, self._answer, self._counts, scrub_days=days)
        copy.log_upkeep.sources = self._sources
        return copy

    def _sources(self) -> Sources:
        """The leader. What it can't give now, it may give later, when its own log was repaired."""
        return Sources([] if self._asking is None else [self._asking.ask], are_all=False)

    async def _take_forever(self, stream: "Stream") -> None:
        self.problem = "this replica does not have all of its leader's log yet"
        self._journal, self._journal_bytes = [], 0
        while frames := await stream.read_all():
            if (lost := self._copy.lost) is not None:
                raise _StoreLost(lost)
            for data in frames:
                for piece in form.pieces(data):
                    await self._take(piece)
            if self._copy.failure is not None:
                raise self._copy.failure

    async def _take(self, piece: form.Piece) -> None:
        if piece.what == wire.LOG.what:
            log = wire.LOG.of(piece)
            store = self._files.store
            if log.heartbeat.acknowledged > self._copy.held and not store.is_catching_up:
                # The leader has put this replica out of sync, so its records may claim what is not durable here.
                await asyncio.to_thread(store.begin_catching_up())
            await self._copy.take(log)
            self._take_heartbeat(log.heartbeat)
            if len(log.data) >= _MUCH_BYTES:
                await asyncio.sleep(0)  # other tasks get their turn while this replica catches up
        elif piece.what == wire.BEAT.what:
            self._take_heartbeat(wire.BEAT.of(piece))
            self._answer()
        elif piece.what == wire.JOURNAL.what:
            await self._copy.add_to_journal(wire.JOURNAL.of(piece))
        elif piece.what == wire.WHOLE_JOURNAL.what:
            await self._take_journal(wire.WHOLE_JOURNAL.of(piece))
        elif piece.what == wire.ELECTED.what:
            self._look_now.set()
        elif self._asking is not None:
            self._asking.take(piece)

    async def _take_journal(self, part: JournalPart) -> None:
        self._journal += part.lines
        self._journal_bytes += sum(map(len, part.lines))
        if self._journal_bytes > _JOURNAL_BYTES_MAX:
            raise NoFrame("its journal is too long")
        if part.is_last:
            lines, self._journal, self._journal_bytes = self._journal, [], 0
            await self._copy.replace_journal(lines)

    def _take_heartbeat(self, heartbeat: wire.Heartbeat) -> None:
        self._leader_progress.take(heartbeat, self._seconds())
        self._copy.heard(heartbeat.acknowledged, heartbeat.start)

    def _answer(self) -> None:
        """Report to the leader what is held."""
        stream, heartbeat = self._stream, self._leader_progress.heartbeat
        if stream is None or heartbeat is None:
            return
        held = self._copy.held
        self._leader_progress.holds(held)
        promises = self._following.heard(self._seconds())
        answer = Held(
            held,
            self._leader_progress.had_all_s,
            heartbeat.asked_s,
            promises,
            has_room=not self._files.opened.room.refuses,
            is_damaged=self._files.store.damage.is_known,
        )
        with contextlib.suppress(StreamBroken):  # the reader gets it
            stream.write(form.frame([wire.HELD.piece(answer)]))
        if held >= heartbeat.end:
            self.problem = None
            if self._told_why:
                self._told_why = ""
                _log.info("this replica has all of the leader's log")
