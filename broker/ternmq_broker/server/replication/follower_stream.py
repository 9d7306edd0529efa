"""One follower's stream at its leader: sends the log and the journal, and reads what the follower holds.

Live         a follower that has nearly all gets new bytes at the end of the turn in which they were appended; or,
             while it syncs the bytes before, when it reports that it holds these. So more comes together, and a piece
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
from typing import TYPE_CHECKING

from ternmq_broker.replication.epochs import EpochMarks
from ternmq_broker.server.replication import wire
from ternmq_broker.server.replication.log_asking import LogAsking
from ternmq_broker.server.replication.wire import Follow, Held, JournalPart, Lead, LogBytes
from ternmq_broker.store.files import WouldBlock
from ternmq_common.shard import form
from ternmq_common.shard.form import FORM, NoFrame
from ternmq_rpc.grpc_http2.messages import Status, StreamBroken
from ternmq_rpc.grpc_stream.served_call import CallRefused

if TYPE_CHECKING:
    from ternmq_broker.server.replication.leader import ReplicatingLeader
    from ternmq_rpc.grpc_stream.served_call import ServedCall

_log = logging.getLogger(__name__)
WINDOW_BYTES = 8 << 20
_CHUNK_BYTES = 256 << 10
# Behind by more it catches up, at a limited speed; by less it keeps up, at any speed.
_CATCHING_UP_BYTES = 4 << 20
_LIVE_BYTES = 256 << 10
_PIECES_ON_THE_WAY = 1
# So much is sent at once, however many pieces are on the way.
_ENOUGH_BYTES = 64 << 10
_JOURNAL_PART_BYTES = 512 << 10
_MARKS_MAX = 1000


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
        self._asking = LogAsking(call.write, lambda: self._store)
        self.heard_s = 0.0

    @property
    def why(self) -> object:
        """Why the stream has ended."""
        return self._why or self._call.broken or "it ended its stream"

    def end(self, why: str) -> None:
        """Break the stream off."""
        self._why = why
        self._call.abort(why, status=Status.UNAVAILABLE)

    async def serve(self) -> None:
        """Serve the stream until it ends or breaks. CallRefused: it may not follow, or sends what it may not."""
        try:
            hello = wire.FOLLOW.of(await self._next_piece())
            refusal = await self._leader.refusal_of(hello)
            if refusal is None and (len(hello.marks) > _MARKS_MAX or hello.form != FORM):
                refusal = "its form is not that of this version; run all replicas of a shard in one version"
            if refusal is not None:
                self._call.write(form.frame([wire.REFUSED.piece(refusal)]))
                await self._call.end()
                return
            self.replica, self.name = hello.store_id, self._leader.name_of(hello.store_id)
            await self._begin(hello)
            await self._converse()
        except NoFrame as error:
            _log.error("replica %s: it sent an invalid frame of form %d: %s", self.name or self._call.peer, FORM, error)
            raise CallRefused(Status.INVALID_ARGUMENT, f"that is no valid frame of form {FORM}: {error}") from error

    async def _next_piece(self) -> "form.Piece":
        data = await self._call.read()
        if data is None:
            raise NoFrame("it ended before it began")
        pieces = form.pieces(data)
        if len(pieces) != 1:
            raise NoFrame("its frame has not exactly one piece")
        return pieces[0]

    async def _begin(self, hello: Follow) -> None:
        """Agree on the log offset from which the follower's log goes on."""
        store, lead = self._store, None
        if hello.end > hello.start and hello.key == store.key:
            try:
                marks = EpochMarks.of(hello.marks)
            except ValueError as error:
                raise NoFrame(str(error)) from error
            common = EpochMarks.of(store.epochs).common_end(store.end, marks, hello.end)
            if common is None and hello.store_id in self._leader.in_sync:
                # It may be the only replica that has all: none of its log may be removed.
                text = f"replica {self.name} is in sync, and was away for so long that the logs can't be compared"
                raise CallRefused(Status.UNAVAILABLE, text)
            if common is not None and common >= store.start and common > hello.start:
                lead = Lead(self._leader.epoch, common, start=store.start)
        if lead is None:
            state = store.join_state()
            lead = Lead(self._leader.epoch, state.log_start, state)
        self._call.write(form.frame([wire.LEAD.piece(lead)]))
        ready = wire.READY.of(await self._next_piece())
        if ready != lead.common:
            raise NoFrame(f"its log is to end at {lead.common}, not {ready}")
        self.sent = self.held = ready
        cut = hello.end - ready if lead.state is None else 0
        _log.info(
            "replica %s follows from log offset %d on%s, %d bytes behind",
            self.name,
            ready,
            f", without the {cut} bytes that it had beyond" if cut > 0 else "",
            store.end - ready,
        )

    async def _converse(self) -> None:
        leader = self._leader
        leader.joined(self)
        writer = asyncio.create_task(self._write(), name=f"log for {self.name}")
        try:
            reader = asyncio.ensure_future(self._read())
            done, _ = await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (reader, writer):
                task.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)
            self._asking.close()
            leader.left(self)

    # --- in

    async def _read(self) -> None:
        while frames := await self._call.read_all():
            for data in frames:
                for piece in form.pieces(data):
                    if piece.what == wire.HELD.what:
                        self._held(wire.HELD.of(piece))
                    elif piece.what == wire.UNTAKEN.what:
                        self._leader.untaken(self, wire.UNTAKEN.of(piece))
                    else:
                        self._asking.take(piece)

    def _held(self, held: Held) -> None:
        if held.position > self.sent:
            raise NoFrame(f"it reports to hold the log up to {held.position}, and was sent {self.sent}")
        self.held = max(self.held, held.position)
        self.has_room, self.is_damaged = held.has_room, held.is_damaged
        while self._on_the_way and self._on_the_way[0] <= self.held:
            self._on_the_way.popleft()
        self._leader.answered(self, held)
        if self.sent < self._store.end:
            self.wake()

    async def ask_for_log(self, position: int, size: int) -> bytes:
        """Read from the follower's log, nothing where it gets that from here; SourceAway."""
        return await self._asking.ask(position, size) if position < self.held else b""

    # --- out

    def wake(self) -> None:
        """Send more of the log, or have the writer do that: there is more, or the follower has held some."""
        unsent = self._store.end - self.sent
        if not self._is_live or unsent > _LIVE_BYTES:
            self._woken.set()
        elif self._is_next_due(unsent):
            try:
                self._send(*self._store.log_bytes(self.sent, _LIVE_BYTES, may_block=False))
            except (WouldBlock, StreamBroken, OSError):
                self._woken.set()  # the writer waits for the disk, or gets the error of this stream

    def _is_next_due(self, unsent: int) -> bool:
        """Whether the next piece is sent although the follower may not hold the one before."""
        return self._is_cut or unsent >= _ENOUGH_BYTES or len(self._on_the_way) < _PIECES_ON_THE_WAY

    def beat(self) -> None:
        """Send a heartbeat, even if there is nothing else to send."""
        self._beat_due = True
        self._woken.set()

    def journaled(self, lines: list[bytes]) -> None:
        """Send these lines, which were added to the journal."""
        self._journal += lines
        self._woken.set()

    async def elected(self, epoch: int) -> None:
        """Notify the follower that it leads now, in that epoch.

        It may know that from the registry already, and have ended the stream.
        """
        with contextlib.suppress(StreamBroken):
            self._call.write(form.frame([wire.ELECTED.piece(epoch)]))
            await self._call.drained()

    async def _write(self) -> None:
        await self._write_journal(await self._leader.whole_journal(self))
        loop = asyncio.get_running_loop()
        while True:
            await self._woken.wait()
            self._woken.clear()
            if self._journal:
                lines, self._journal = self._journal, []
                self._call.write(form.frame([wire.JOURNAL.piece(lines)]))
            self._is_live = False
            while (unsent := self._store.end - self.sent) > _LIVE_BYTES or (unsent and self._is_next_due(unsent)):
                if self.sent - self.held >= WINDOW_BYTES:
                    break
                began_s = loop.time()
                is_behind = self._store.end - self.sent > _CATCHING_UP_BYTES
                size = await self._write_log()
                await self._call.drained()
                if is_behind:
                    await asyncio.sleep(max(0.0, size / self._leader.catch_up_bytes_per_s - (loop.time() - began_s)))
            self._is_live = True
            if self._beat_due:
                self._beat_due = False
                self._call.write(form.frame([wire.BEAT.piece(self._leader.heartbeat())]))

    async def _write_journal(self, lines: list[bytes]) -> None:
        part: list[bytes] = []
        size = 0
        for line in lines:
            part.append(line)
            size += len(line)
            if size >= _JOURNAL_PART_BYTES:
                self._call.write(form.frame([wire.WHOLE_JOURNAL.piece(JournalPart(part, is_last=False))]))
                await self._call.drained()
                part, size = [], 0
        self._call.write(form.frame([wire.WHOLE_JOURNAL.piece(JournalPart(part, is_last=True))]))

    async def _write_log(self) -> int:
        """Send the next bytes; returns how many."""
        found: tuple[int, bytes] | None = None
        with contextlib.suppress(WouldBlock):
            found = self._store.log_bytes(self.sent, _CHUNK_BYTES, may_block=False)
        if found is None:
            found = await asyncio.to_thread(self._store.log_bytes, self.sent, _CHUNK_BYTES, may_block=True)
        self._send(*found)
        return len(found[1])

    def _send(self, base: int, data: bytes) -> None:
        """Send the next bytes; StreamBroken: they are not sent."""
        sent = self.sent + len(data)
        is_cut = sent < self._store.end
        log = LogBytes(self._leader.heartbeat(), base, self.sent, data, not is_cut)
        self._call.write(form.frame([wire.LOG.piece(log)]))
        self.sent, self._is_cut = sent, is_cut
        self._on_the_way.append(sent)
