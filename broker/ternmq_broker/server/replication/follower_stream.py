"""One follower's stream at its leader: sends the log and the journal, and reads the follower's progress.

Live         a follower that has nearly all gets new bytes at the end of the turn in which they were appended; or,
             while it syncs the bytes before, when it reports that it has these. So more comes together, and a piece
             costs as much as a sync. A piece that ends in the middle of a record is never held: the rest of that
             record is sent at once.
Catching up  at most `WINDOW_BYTES` are on the way, so that a slow follower does not fill the memory; no faster than
             `catch_up_bytes_per_s`, from reads that never wait for the disk on the loop, so that live followers keep
             their latency.
"""

import asyncio
import contextlib
import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from ternmq_broker.replication.epochs import EpochMarks
from ternmq_broker.server.replication import replica_messages
from ternmq_broker.server.replication.log_requests import LogRequests
from ternmq_broker.server.replication.replica_messages import (
    FollowRequest,
    HeldReport,
    JournalPart,
    LeadAnswer,
    LogBytes,
)
from ternmq_broker.store.disk.files import WouldBlock
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_common.shard import shard_frames
from ternmq_common.shard.shard_frames import FORM, InvalidFrame
from ternmq_rpc.grpc_http2.messages import GrpcStatus, StreamBroken
from ternmq_rpc.grpc_stream.served_call import CallRefused

if TYPE_CHECKING:
    from ternmq_broker.server.replication.leader import ReplicatingLeader
    from ternmq_rpc.grpc_stream.served_call import ServedCall

_log = logging.getLogger(__name__)
WINDOW_BYTES: Final = 8 << 20
_CHUNK_BYTES: Final = 256 << 10
# Behind by more it catches up, at a limited speed; by less it keeps up, at any speed.
_CATCHING_UP_BYTES: Final = 4 << 20
_LIVE_BYTES: Final = 256 << 10
_PIECES_ON_THE_WAY: Final = 1
# So much is sent at once, however many pieces are on the way.
_ENOUGH_BYTES: Final = 64 << 10
_JOURNAL_PART_BYTES: Final = 512 << 10
_MARKS_MAX: Final = 1000


class FollowerStream:
    """Serves one stream, from its first frame on."""

    def __init__(self, leader: "ReplicatingLeader", call: "ServedCall") -> None:
        self._leader = leader
        self._call = call
        self._store = leader.store
        self._woken = asyncio.Event()
        self._beat_due = False
        self._journal: list[bytes] = []
        self._on_the_way: deque[int] = deque()  # ends of pieces that it does not hold yet
        self._is_live = False
        self._is_cut = False  # the last piece may end in the middle of a record
        self._why = ""
        self.replica = self.name = ""
        self.sent = self.held = 0
        self.has_room = self.is_damaged = False
        self._log_requests = LogRequests(call.write_messages, lambda: self._store)
        self.heard_s = 0.0

    @property
    def end_reason(self) -> object:
        """Why the stream has ended."""
        return self._why or self._call.failure or "it ended its stream"

    def end_stream(self, why: str) -> None:
        """Break the stream off."""
        self._why = why
        self._call.abort_stream(why, status=GrpcStatus.UNAVAILABLE)

    async def serve_stream(self) -> None:
        """Serve the stream until it ends or breaks. CallRefused: it may not follow, or sends what it may not."""
        try:
            hello = replica_messages.FOLLOW.decode_note(await self._next_piece())
            refusal = await self._leader.refusal_of(hello)
            if refusal is None and (len(hello.marks) > _MARKS_MAX or hello.form != FORM):
                refusal = "its form is not that of this version; run all replicas of a shard in one version"
            if refusal is not None:
                self._call.write_messages(shard_frames.join_pieces([replica_messages.REFUSED.encode_note(refusal)]))
                await self._call.end_stream()
                return
            self.replica, self.name = hello.store_id, self._leader.name_of(hello.store_id)
            await self._match_log(hello)
            await self._run_stream()
        except InvalidFrame as error:
            _log.error("replica %s: it sent an invalid frame of form %d: %s", self.name or self._call.peer, FORM, error)
            raise CallRefused(GrpcStatus.INVALID_ARGUMENT, f"that is no valid frame of form {FORM}: {error}") from error

    async def _next_piece(self) -> "shard_frames.FramePiece":
        data = await self._call.read_message()
        if data is None:
            raise InvalidFrame("it ended before it began")
        pieces = shard_frames.decode_frame(data)
        if len(pieces) != 1:
            raise InvalidFrame("its frame has not exactly one piece")
        return pieces[0]

    async def _match_log(self, hello: FollowRequest) -> None:
        """Agree on the log offset from which the follower's log goes on."""
        store, lead = self._store, None
        if hello.end > hello.start and hello.key == store.log.layouts.key:
            try:
                marks = EpochMarks.from_pairs(hello.marks)
            except ValueError as error:
                raise InvalidFrame(str(error)) from error
            common = EpochMarks.from_pairs(store.replica_log.epoch_marks).common_end(
                store.log.log_end, marks, hello.end
            )
            if common is None and hello.store_id in self._leader.in_sync:
                # It may be the only replica that has all: none of its log may be removed.
                text = f"replica {self.name} is in sync, and was away for so long that the logs can't be compared"
                raise CallRefused(GrpcStatus.UNAVAILABLE, text)
            if common is not None and common >= store.log.log_start and common > hello.start:
                lead = LeadAnswer(self._leader.epoch, common, start=store.log.log_start)
        if lead is None:
            state = store.replica_log.join_state()
            lead = LeadAnswer(self._leader.epoch, state.log_start, state)
        self._call.write_messages(shard_frames.join_pieces([replica_messages.LEAD.encode_note(lead)]))
        ready = replica_messages.READY.decode_note(await self._next_piece())
        if ready != lead.common:
            raise InvalidFrame(f"its log is to end at {lead.common}, not {ready}")
        self.sent = self.held = ready
        cut = hello.end - ready if lead.state is None else 0
        _log.info(
            "replica %s follows from log offset %d on%s, %d bytes behind",
            self.name,
            ready,
            f", without the {cut} bytes that it had beyond" if cut > 0 else "",
            store.log.log_end - ready,
        )

    async def _run_stream(self) -> None:
        leader = self._leader
        leader.add_follower(self)
        tasks = BackgroundTasks()
        try:
            writer = tasks.start_awaited(self._write_forever(), name=f"log for {self.name}")
            reader = tasks.start_awaited(self._read_pieces(), name=f"pieces of {self.name}")
            done, _ = await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await tasks.stop()
            self._log_requests.close()
            leader.remove_follower(self)

    # --- in

    async def _read_pieces(self) -> None:
        while frames := await self._call.read_all():
            for data in frames:
                for piece in shard_frames.decode_frame(data):
                    if piece.what == replica_messages.HELD.what:
                        self._note_held(replica_messages.HELD.decode_note(piece))
                    elif piece.what == replica_messages.UNTAKEN.what:
                        self._leader.report_untaken(self, replica_messages.UNTAKEN.decode_note(piece))
                    else:
                        self._log_requests.handle_piece(piece)

    def _note_held(self, held: HeldReport) -> None:
        if held.position > self.sent:
            raise InvalidFrame(f"it reports to hold the log up to {held.position}, and was sent {self.sent}")
        self.held = max(self.held, held.position)
        self.has_room, self.is_damaged = held.has_room, held.is_damaged
        while self._on_the_way and self._on_the_way[0] <= self.held:
            self._on_the_way.popleft()
        self._leader.note_held(self, held)
        if self.sent < self._store.log.log_end:
            self.send_more()

    async def ask_for_log(self, position: int, size: int) -> bytes:
        """Read from the follower's log, nothing where it gets that from here; SourceAway."""
        return await self._log_requests.request_log(position, size) if position < self.held else b""

    # --- out

    def send_more(self) -> None:
        """Send more of the log, or have the writer do that: there is more, or the follower has held some."""
        unsent = self._store.log.log_end - self.sent
        if not self._is_live or unsent > _LIVE_BYTES:
            self._woken.set()
        elif self._is_next_due(unsent):
            try:
                self._send_log(*self._store.replica_log.log_bytes(self.sent, _LIVE_BYTES, may_block=False))
            except (WouldBlock, StreamBroken, OSError):
                self._woken.set()  # the writer waits for the disk, or gets the error of this stream

    def _is_next_due(self, unsent: int) -> bool:
        """Whether the next piece is sent although the follower may not hold the one before."""
        return self._is_cut or unsent >= _ENOUGH_BYTES or len(self._on_the_way) < _PIECES_ON_THE_WAY

    def send_heartbeat(self) -> None:
        """Send a heartbeat, even if there is nothing else to send."""
        self._beat_due = True
        self._woken.set()

    def send_journal(self, lines: list[bytes]) -> None:
        """Send these lines, which were added to the journal."""
        self._journal += lines
        self._woken.set()

    async def send_elected(self, epoch: int) -> None:
        """Notify the follower that it leads now, in that epoch.

        It may know that from the registry already, and have ended the stream.
        """
        with contextlib.suppress(StreamBroken):
            self._call.write_messages(shard_frames.join_pieces([replica_messages.ELECTED.encode_note(epoch)]))
            await self._call.wait_drained()

    async def _write_forever(self) -> None:
        await self._write_journal(await self._leader.whole_journal(self))
        loop = asyncio.get_running_loop()
        while True:
            await self._woken.wait()
            self._woken.clear()
            if self._journal:
                lines, self._journal = self._journal, []
                self._call.write_messages(shard_frames.join_pieces([replica_messages.JOURNAL.encode_note(lines)]))
            self._is_live = False
            while (unsent := self._store.log.log_end - self.sent) > _LIVE_BYTES or (
                unsent and self._is_next_due(unsent)
            ):
                if self.sent - self.held >= WINDOW_BYTES:
                    break
                began_s = loop.time()
                is_behind = self._store.log.log_end - self.sent > _CATCHING_UP_BYTES
                size = await self._write_log()
                await self._call.wait_drained()
                if is_behind:
                    await asyncio.sleep(max(0.0, size / self._leader.catch_up_bytes_per_s - (loop.time() - began_s)))
            self._is_live = True
            if self._beat_due:
                self._beat_due = False
                self._call.write_messages(
                    shard_frames.join_pieces([replica_messages.BEAT.encode_note(self._leader.create_heartbeat())])
                )

    async def _write_journal(self, lines: list[bytes]) -> None:
        part: list[bytes] = []
        size = 0
        for line in lines:
            part.append(line)
            size += len(line)
            if size >= _JOURNAL_PART_BYTES:
                self._call.write_messages(
                    shard_frames.join_pieces(
                        [replica_messages.WHOLE_JOURNAL.encode_note(JournalPart(part, is_last=False))]
                    )
                )
                await self._call.wait_drained()
                part, size = [], 0
        self._call.write_messages(
            shard_frames.join_pieces([replica_messages.WHOLE_JOURNAL.encode_note(JournalPart(part, is_last=True))])
        )

    async def _write_log(self) -> int:
        """Send the next bytes; returns how many."""
        found: tuple[int, bytes] | None = None
        with contextlib.suppress(WouldBlock):
            found = self._store.replica_log.log_bytes(self.sent, _CHUNK_BYTES, may_block=False)
        if found is None:
            found = await asyncio.to_thread(self._store.replica_log.log_bytes, self.sent, _CHUNK_BYTES, may_block=True)
        self._send_log(*found)
        return len(found[1])

    def _send_log(self, base: int, data: bytes) -> None:
        """Send the next bytes; StreamBroken: they are not sent."""
        sent = self.sent + len(data)
        is_cut = sent < self._store.log.log_end
        log = LogBytes(self._leader.create_heartbeat(), base, self.sent, data, not is_cut)
        self._call.write_messages(shard_frames.join_pieces([replica_messages.LOG.encode_note(log)]))
        self.sent, self._is_cut = sent, is_cut
        self._on_the_way.append(sent)
