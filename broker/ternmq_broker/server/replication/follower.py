"""A follower of a shard: finds the leader in the registry, copies its log and journal, and takes over when that is
due.

`replication/follower_state.py` decides; two tasks carry it out: one reads the registry, one has the stream to the
leader. Before this replica asks for the leadership the stream has ended, so that it acknowledges nothing more to a
leader that it replaces. While its disk refuses writes it does not ask, and gives a leadership back that it gets.
"""

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING

from ternmq_broker.replication.follower_state import FollowerState
from ternmq_broker.server.replication import replica_messages
from ternmq_broker.server.replication.copy_reads import CopyReads, not_readable_here
from ternmq_broker.server.replication.follower_copy import FollowerCopy
from ternmq_broker.server.replication.leader_progress import LeaderProgress
from ternmq_broker.server.replication.log_requests import LogRequests
from ternmq_broker.server.replication.membership import WonElection, in_sync_set, view_of
from ternmq_broker.server.replication.replica_messages import FollowRequest, HeldReport, JournalPart, LeadAnswer
from ternmq_broker.store.copying.log_copy import BadCopy
from ternmq_broker.store.journal.progress_journal import BadLines
from ternmq_broker.store.log.record import BadRecord
from ternmq_broker.upkeep.log_upkeep import RepairSources
from ternmq_common.errors import MessagingError, StartupError
from ternmq_common.event_loop.background_loop import FailureLog
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_common.pacing.backoff import RETRY_S, ExponentialBackoff
from ternmq_common.printable import cut_text, escape_line
from ternmq_common.shard import shard_frames
from ternmq_common.shard.shard_frames import InvalidFrame
from ternmq_registry.errors import RegistryUnavailable
from ternmq_rpc.grpc_http2.messages import StreamBroken
from ternmq_rpc.grpc_stream.client import open_stream

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from ternmq_broker.server.deletion_notes import DeletionNotes
    from ternmq_broker.server.replication.membership import ShardMembership
    from ternmq_broker.server.replication.replica_files import ReplicaFiles
    from ternmq_common.catalog.cluster import BrokerEntry
    from ternmq_rpc.grpc_stream.stream import MessageStream
    from ternmq_runtime.observability.durations import DurationHistogram
    from ternmq_runtime.observability.figures import MessageCounts

_log = logging.getLogger(__name__)
_LOOKS_PER_LEASE = 8
_CONNECT_S = 3.0
_BACKOFF = ExponentialBackoff(0.05, RETRY_S)
# A full disk may last, and each try is logged here and at the leader.
_AFTER_DISK_S = 5.0
_MUCH_BYTES = 64 << 10
_JOURNAL_BYTES_MAX = 1 << 30


class _FollowRefused(Exception):
    """The leader refuses this follower; the text says why."""


class _StoreLost(Exception):
    """Files of this follower's store are gone, so it is useless to a leader; the text names them."""


class ShardFollower:
    """Follows until it is elected. `problem` says why it lacks some of the leader's log; None if it has all."""

    def __init__(
        self,
        membership: "ShardMembership",
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
        self._log_requests: LogRequests | None = None
        self._membership = membership
        self._files = files
        self._notes = notes
        self._tls = tls
        self._seconds = seconds
        self._counts = counts
        self._following = FollowerState(membership.store_id, membership.timing, seconds())
        self._copy = self._new_copy()
        self._stream: MessageStream | None = None
        self._leader_progress = LeaderProgress()
        self._registry_was_read = asyncio.Event()
        self._read_registry_now = asyncio.Event()
        self._logged_reason = ""
        self._pause_s = 0.0
        self._stream_epoch = 0
        self._renewed_s = seconds()
        self._journal: list[bytes] = []
        self._journal_bytes = 0
        self._changes = BackgroundTasks()
        self._notes_failed = FailureLog("this replica can't note what it has and what was deleted")
        self.problem: str | None = "this replica has not found its leader yet"
        self.is_ending = False
        """Whether the process ends, so that nothing is waited for any more."""

    async def run(self, entry: "BrokerEntry") -> WonElection:
        """Follow, and return when this replica leads; `entry` is the shard as it was found.

        StartupError: this replica was removed, or its files can't become durable: only a process that opens them again
        knows what the disk has.
        """
        self._following.note_view(view_of(entry), self._seconds())
        self._copy.start()
        try:
            while True:
                try:
                    async with BackgroundTasks() as tasks:
                        stream = tasks.start_awaited(self._follow_forever(), name="copy of the leader's log")
                        await self._watch_until_due(stream)
                finally:
                    await self._changes.wait_until_done()
                # From here on nothing is acknowledged to another leader.
                if (election := await self._ask_for_leadership()) is not None:
                    return election
        finally:
            await self._copy.stop()

    @property
    def behind_bytes(self) -> int:
        """How much of the leader's log is not held, by the leader's last heartbeat."""
        heartbeat = self._leader_progress.heartbeat
        return 0 if heartbeat is None else max(0, heartbeat.end - self._copy.held_end)

    @property
    def degraded_reason(self) -> str | None:
        """The problem for an operator, although the replica follows; None if there is none."""
        return self._files.current_store.damage.degraded_reason

    @property
    def write_problem(self) -> str | None:
        """Why its disk takes no writes, so that it does not lead; None if nothing is known against the disk."""
        return self._files.opened.room.write_problem

    @property
    def durable_end(self) -> int:
        """The log offset up to which the log is durable."""
        return self._files.current_store.log.synced

    @property
    def known_epoch(self) -> int:
        """The highest epoch that it knows."""
        return self._following.epoch

    @property
    def acknowledged_end(self) -> int:
        """The log offset up to which the log is acknowledged, as the leader reported."""
        return self._copy.acknowledged

    def readable_copy(self) -> CopyReads:
        """The reads of the copy, for proxies; HA_NOT_AVAILABLE while it may lack changes of the leader."""
        now_s = self._seconds()
        why = self._following.why_reads_refused(self._stream_epoch, self._leader_progress.behind_s(now_s), now_s)
        if self._stream is None or why is not None or self._copy.disk_failure is not None:
            raise not_readable_here(why or "it has no leader to follow, or its disk has failed")
        return self._copy.reads

    @property
    def disk_failure(self) -> "MessagingError | None":
        """Why the disk can't be relied on any more; None if it can."""
        return self._copy.disk_failure

    @property
    def sync_durations(self) -> "DurationHistogram":
        """How long syncs of the log took since it was opened."""
        return self._copy.sync_durations

    @property
    def lease_age_s(self) -> float:
        """How many seconds ago this replica's own lease was renewed."""
        return self._seconds() - self._renewed_s

    # --- the registry

    async def _watch_until_due(self, stream: "asyncio.Task[None]") -> None:
        """Return when this replica must ask for the leadership, or has it."""
        timing = self._membership.timing
        look_s, next_pulse_s = timing.lease_s / _LOOKS_PER_LEASE, 0.0
        while True:
            if stream.done():
                stream.result()
                raise AssertionError("the stream to the leader ends by an exception only")
            if (failure := self._copy.disk_failure) is not None:
                raise StartupError(f"its disk can't be relied on any more: {failure.message}")
            now_s = self._seconds()
            try:
                if now_s >= next_pulse_s:
                    next_pulse_s = now_s + timing.lease_s / 3
                    await self._renew_lease()
                entry, requested_s = await self._membership.read_entry()
                self._following.note_view(view_of(entry), requested_s)
                self._registry_was_read.set()
                self._check_stream()
                await self._note_in_sync(entry)
            except RegistryUnavailable as error:
                _log.debug("cannot read the registry: %s", error.message)
            except OSError as error:  # notes can be written later; until then they have too little, and not too much
                self._notes_failed.log_failure(error, look_s)
            else:
                self._notes_failed.note_success()
            is_damaged = self._files.current_store.damage.is_known
            if self._following.is_elected() or self._following.may_take_over(self._seconds(), is_damaged=is_damaged):
                if self.write_problem is None:
                    return
                await self._give_back_leadership()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(look_s):
                    await self._read_registry_now.wait()
            self._read_registry_now.clear()

    async def _give_back_leadership(self) -> None:
        """End the lease that this replica was given, if it was, so that another one takes over."""
        view = self._following.shard_view
        if view is not None and self._following.is_elected() and view.leader_live:
            _log.warning("this replica was elected and gives the leadership back: %s", self.write_problem)
            with contextlib.suppress(RegistryUnavailable):  # it is tried again
                await self._membership.give_up_leadership(view.epoch)

    def _check_stream(self) -> None:
        """End the stream to a leader that leads no more, or is silent."""
        stream, lease_s = self._stream, self._membership.timing.lease_s
        if stream is None:
            return
        if self._stream_epoch < self._following.epoch:
            stream.abort_stream("the shard has another leader")
        elif self._seconds() - self._leader_progress.heard_s > lease_s:
            stream.abort_stream(f"the leader sent nothing for {lease_s:g} s")

    async def _renew_lease(self) -> None:
        requested_s = self._seconds()
        applied = await self._membership.renew_replica(self.durable_end)
        self._renewed_s = requested_s
        if applied is None:
            raise StartupError(f"replica {self._membership.name} was removed from shard {self._membership.shard}")
        await asyncio.to_thread(self._notes.prune_up_to, applied)

    async def _note_in_sync(self, entry: "BrokerEntry") -> None:
        """End the catching up, in which the records may claim more than is durable here, once this replica is in
        sync."""
        store = self._files.current_store
        heartbeat = self._leader_progress.heartbeat
        has_all = heartbeat is not None and self._copy.held_end >= heartbeat.acknowledged
        if store.replica_log.is_catching_up and has_all and self._membership.store_id in in_sync_set(entry):
            await asyncio.to_thread(store.replica_log.end_catching_up())

    async def _ask_for_leadership(self) -> WonElection | None:
        """Ask for the leadership, also if it was given: then for an epoch of its own. None if another replica leads.

        It is requested until there is an answer: a call whose answer was lost may take effect later, while this
        replica follows again, but not after the next call.
        """
        membership, view = self._membership, self._following.shard_view
        assert view is not None
        while True:
            requested_s = self._seconds()
            try:
                epoch = await membership.take_leadership(view.epoch)
                break
            except RegistryUnavailable as error:
                _log.warning("whether this replica leads is not known: %s", error.message)
                await asyncio.sleep(RETRY_S)
        entry = await self._read_entry_until_known()
        if epoch is None or entry.epoch != epoch:
            _log.info("replica %s leads", membership.names_of([entry.store_id]))
            return None
        return WonElection(entry, requested_s, self._copy.acknowledged)

    async def _read_entry_until_known(self) -> "BrokerEntry":
        while True:
            try:
                entry, requested_s = await self._membership.read_entry()
            except RegistryUnavailable:
                await asyncio.sleep(RETRY_S)
            else:
                self._following.note_view(view_of(entry), requested_s)
                return entry

    # --- the leader

    async def _follow_forever(self) -> None:
        failures = 0
        while True:
            began_s = self._seconds()
            why = self._copy.lost_file or await self._follow_until_lost()
            if why != self._logged_reason:
                self._logged_reason = why
                _log.warning("this replica has no leader to follow: %s", why)
            self.problem = f"this replica has no leader to follow: {why}"
            failures = 1 if self._seconds() - began_s > RETRY_S else failures + 1
            pause_s, self._pause_s = self._pause_s, 0.0
            await asyncio.sleep(pause_s)
            self._registry_was_read.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_BACKOFF.delay_s(failures)):
                    await self._registry_was_read.wait()

    async def _follow_until_lost(self) -> str:
        """Follow the leader until that fails; returns why."""
        view, entry = self._following.shard_view, self._membership.last_entry
        if view is None or entry is None or view.leader == self._membership.store_id:
            return "the registry names no other replica as the leader"
        if not entry.address:
            return "the leader has no address yet"
        tls = None if self._tls is None else self._tls()
        try:
            stream = await open_stream(entry.address, replica_messages.METHOD, timeout_s=_CONNECT_S, tls=tls)
        except StreamBroken as error:
            return str(error)
        try:
            async with asyncio.timeout(_CONNECT_S):
                lead = await self._request_stream(stream, view.epoch)
            await self._match_log(stream, lead)
            await self._receive_forever(stream)
        except (StreamBroken, _FollowRefused, _StoreLost) as error:
            return str(error)
        except TimeoutError:
            return "the leader does not answer"
        except InvalidFrame as error:
            return f"the leader sent an invalid frame: {error}"
        except (BadCopy, BadRecord) as error:
            self._report_untaken(stream)
            await self._begin_again(None)
            return f"what the leader sent can't be taken: {error}"
        except (BadLines, OSError) as error:
            self._pause_s = _AFTER_DISK_S if isinstance(error, OSError) else 0.0
            return f"what the leader sent can't be taken: {error}"
        except MessagingError as error:
            return error.message
        finally:
            self._stream = None
            self._close_log_requests()
            stream.abort_stream("the follower has no use for it any more")
        return "it ended the stream"

    def _close_log_requests(self) -> None:
        if self._log_requests is not None:
            self._log_requests.close()
            self._log_requests = None

    def _report_untaken(self, stream: "MessageStream") -> None:
        """Make the leader check its log, which may be damaged at the end of this one."""
        with contextlib.suppress(StreamBroken):
            stream.write_messages(
                shard_frames.join_pieces([replica_messages.UNTAKEN.encode_note(self._files.current_store.log.log_end)])
            )

    async def _request_stream(self, stream: "MessageStream", epoch: int) -> LeadAnswer:
        membership, store = self._membership, self._files.current_store
        end = await self._copy.wait_until_durable()
        hello = FollowRequest(
            membership.shard,
            membership.store_id,
            epoch,
            store.log.layouts.key,
            store.replica_log.epoch_marks,
            store.log.log_start,
            end,
        )
        stream.write_messages(shard_frames.join_pieces([replica_messages.FOLLOW.encode_note(hello)]))
        for piece in shard_frames.decode_frame(await stream.read_message() or b"\x90"):
            if piece.what == replica_messages.REFUSED.what:
                raise _FollowRefused(
                    f"the leader refuses it: {escape_line(cut_text(replica_messages.REFUSED.decode_note(piece)))}"
                )
            if piece.what == replica_messages.LEAD.what:
                lead = replica_messages.LEAD.decode_note(piece)
                if not self._following.accept_epoch(lead.epoch):
                    raise _FollowRefused(f"the leader has epoch {lead.epoch}, and there is a later one")
                return lead
        raise _FollowRefused("the leader ended the stream")

    async def _match_log(self, stream: "MessageStream", lead: LeadAnswer) -> None:
        """Cut the log off where it differs from the leader's."""
        store, membership = self._files.current_store, self._membership
        if lead.state is not None:
            _log.info("truncating the whole log: the leader's begins at log offset %d", lead.state.log_start)
            await self._begin_again(lead)
        elif lead.common < store.log.log_end:
            await self._begin_again(lead)
        elif lead.common > store.log.log_end:
            raise InvalidFrame("the leader takes the log to be longer than it is")
        view = self._following.shard_view
        store = self._files.current_store
        if view is not None and membership.store_id not in view.in_sync and not store.replica_log.is_catching_up:
            await asyncio.to_thread(store.replica_log.begin_catching_up())
        self._copy.note_leader_state(0, lead.start)
        self._leader_progress.begin_stream(self._seconds())
        self._stream, self._stream_epoch = stream, lead.epoch
        self._log_requests = LogRequests(stream.write_messages, lambda: self._files.current_store)
        stream.write_messages(shard_frames.join_pieces([replica_messages.READY.encode_note(store.log.log_end)]))

    async def _begin_again(self, lead: LeadAnswer | None) -> None:
        """Open the store again, cut off or replaced as `lead` says; runs to its end even if cancelled."""
        await self._changes.run_to_end(self._reopen_store(lead))

    async def _reopen_store(self, lead: LeadAnswer | None) -> None:
        await self._copy.stop()
        files = self._files
        try:
            if lead is None:
                await asyncio.to_thread(files.reopen_store)
            elif lead.state is not None:
                await asyncio.to_thread(files.replace_log, lead.state)
            else:
                await asyncio.to_thread(files.cut_log, lead.common)
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

    def _new_copy(self) -> FollowerCopy:
        flush, days = self._membership.settings.flush, self._scrub_days
        copy = FollowerCopy(self._files.opened, flush, self._notes, self._report_held, self._counts, scrub_days=days)
        copy.log_upkeep.sources = self._repair_sources
        return copy

    def _repair_sources(self) -> RepairSources:
        """The leader as a source of repairs. Later it may give parts that it lacks now, when its own log was
        repaired."""
        return RepairSources([] if self._log_requests is None else [self._log_requests.request_log], are_all=False)

    async def _receive_forever(self, stream: "MessageStream") -> None:
        self.problem = "this replica does not have all of its leader's log yet"
        self._journal, self._journal_bytes = [], 0
        while frames := await stream.read_all():
            if (lost := self._copy.lost_file) is not None:
                raise _StoreLost(lost)
            for data in frames:
                for piece in shard_frames.decode_frame(data):
                    await self._handle_piece(piece)
            if self._copy.disk_failure is not None:
                raise self._copy.disk_failure

    async def _handle_piece(self, piece: shard_frames.FramePiece) -> None:
        if piece.what == replica_messages.LOG.what:
            log = replica_messages.LOG.decode_note(piece)
            store = self._files.current_store
            if log.heartbeat.acknowledged > self._copy.held_end and not store.replica_log.is_catching_up:
                # The leader has put this replica out of sync, so its records may claim what is not durable here.
                await asyncio.to_thread(store.replica_log.begin_catching_up())
            await self._copy.append_bytes(log)
            self._note_heartbeat(log.heartbeat)
            if len(log.data) >= _MUCH_BYTES:
                await asyncio.sleep(0)  # other tasks get their turn while this replica catches up
        elif piece.what == replica_messages.BEAT.what:
            self._note_heartbeat(replica_messages.BEAT.decode_note(piece))
            self._report_held()
        elif piece.what == replica_messages.JOURNAL.what:
            await self._copy.add_to_journal(replica_messages.JOURNAL.decode_note(piece))
        elif piece.what == replica_messages.WHOLE_JOURNAL.what:
            await self._receive_journal(replica_messages.WHOLE_JOURNAL.decode_note(piece))
        elif piece.what == replica_messages.ELECTED.what:
            self._read_registry_now.set()
        elif self._log_requests is not None:
            self._log_requests.handle_piece(piece)

    async def _receive_journal(self, part: JournalPart) -> None:
        self._journal += part.lines
        self._journal_bytes += sum(map(len, part.lines))
        if self._journal_bytes > _JOURNAL_BYTES_MAX:
            raise InvalidFrame("its journal is too long")
        if part.is_last:
            lines, self._journal, self._journal_bytes = self._journal, [], 0
            await self._copy.replace_journal(lines)

    def _note_heartbeat(self, heartbeat: replica_messages.LeaderHeartbeat) -> None:
        self._leader_progress.note_heartbeat(heartbeat, self._seconds())
        self._copy.note_leader_state(heartbeat.acknowledged, heartbeat.start)

    def _report_held(self) -> None:
        """Report to the leader what is held."""
        stream, heartbeat = self._stream, self._leader_progress.heartbeat
        if stream is None or heartbeat is None:
            return
        held = self._copy.held_end
        self._leader_progress.note_held(held)
        promises = self._following.note_leader_message(self._seconds())
        answer = HeldReport(
            held,
            self._leader_progress.had_all_s,
            heartbeat.sent_s,
            promises,
            has_room=not self._files.opened.room.refuses,
            is_damaged=self._files.current_store.damage.is_known,
        )
        with contextlib.suppress(StreamBroken):  # the reader gets it
            stream.write_messages(shard_frames.join_pieces([replica_messages.HELD.encode_note(answer)]))
        if held >= heartbeat.end:
            self.problem = None
            if self._logged_reason:
                self._logged_reason = ""
                _log.info("this replica has all of the leader's log")
