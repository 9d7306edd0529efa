"""A client's connection at the remoting server: reads requests, writes answers, and sends requests of its own.

Turns     a read may bring thousands of requests; a turn of the event loop begins some of them, fewer if they are
          large or take long, and the connection is not read while others wait.
Limits    requests that wait for their answers count with their bytes, and so does the one that is not whole yet.
          Beyond the limit of the connection it is not read until some are answered; beyond that of answers that the
          client does not read, too. An answer counts as unread from its creation.
Writes    the answers of one turn of the event loop are one write.
"""

import asyncio
import logging
import time
from collections import deque
from typing import TYPE_CHECKING, Final, cast

from ternmq_common.event_loop.eager import ensure_task
from ternmq_common.event_loop.turn_end import TurnEnd, turn_end
from ternmq_common.receiving.output_room import AnswerRoom, OutputRoom
from ternmq_rpc.remoting.commands import ONEWAY_FLAG, RESPONSE_FLAG, Command, decode_command, encode_command
from ternmq_rpc.remoting.frames import FrameReader, RemotingError
from ternmq_rpc.remoting.served_request import ServedRequest
from ternmq_rpc.serving.budgets import BODY_BYTES_PER_S
from ternmq_rpc.serving.sockets import format_peer
from ternmq_rpc.serving.time_limits import IDLE_WHEN_CROWDED_S

if TYPE_CHECKING:
    from ternmq_rpc.remoting.server import RemotingServer
    from ternmq_rpc.serving.pending_calls import PendingCalls

_log = logging.getLogger(__name__)
REQUESTS_MAX: Final = 8192
"""So many requests of a connection may wait for their answers; a client has at most one pull for each of its queues."""
CLIENT_IDLE_S: Final = 120.0
"""A connection on which nothing comes for so long is closed; clients send a heartbeat every 30 s."""
_OPAQUE_MASK: Final = 0x7FFF_FFFF
# Of the budget of a turn: a request has no stream and no headers to decompress, as a call of gRPC has; but some of its
# bytes are read as JSON, and so many of them cost as much as a frame without a request.
_REQUEST_COST: Final = 30
_COST_BYTES: Final = 128
# A connection reads so many bytes before others have their turn.
_READ_BYTES_MAX: Final = 256 << 10
_TLS_ONLY: Final = "this port takes TLS only, and the connection is plain text"


class ConnectionGone(Exception):
    """The connection was closed, or the client did not answer in time."""


SERVED_VERSION: Final = 513
"""The version that answers name, 5.5.0: clients look there before they filter by SQL."""


class RemotingConnection(asyncio.BufferedProtocol):
    """One connection of a `RemotingServer`.

    `note` is what the server's owner has noted about the client. `local` and `peer` are its two ends, as `host:port`.
    """

    def __init__(self, server: "RemotingServer", listener: str) -> None:
        self.listener = listener
        self.note: object = None
        self.reads_nothing = False
        self.peer = self.local = ""
        self.held_bytes = 0
        self.is_closed = False
        self._server = server
        self._ledger = server.ledger
        self._pending_calls: PendingCalls = server.pending_calls
        self._loop = asyncio.get_running_loop()
        self._turn_end: TurnEnd = turn_end()
        self._transport: asyncio.Transport
        self._reader = FrameReader()
        self._waiting: deque[tuple[int, bytes, bytes]] = deque()  # frames that no turn has begun
        self._requests: set[ServedRequest] = set()
        self._calls: dict[int, asyncio.Future[Command]] = {}  # requests to the client, by number
        self._last_number = 0
        self._output: list[bytes] = []
        self._room: OutputRoom | None = None
        self._is_paused = self._is_resting = self._is_stopping = self._is_blocked = False
        self.quiet_until = 0.0
        self._bytes_to_rest = _READ_BYTES_MAX
        self._turn: asyncio.Handle | None = None
        now = self._loop.time()
        self._last_read = self._frame_began = self._moved_at = now
        self._unread_before = 0
        self._counted_unread = 0
        self._counted_kept = 0

    # --- the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.peer = format_peer(transport.get_extra_info("peername"))
        self.local = format_peer(transport.get_extra_info("sockname"))
        self._transport.set_write_buffer_limits(high=64 << 10)
        self._server.add_connection(self)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.is_closed = True
        self._waiting.clear()
        self._output.clear()
        self._leave_queue()
        if self._turn is not None:
            self._turn.cancel()
        self._server.cancel_requests(list(self._requests))
        self._count_kept(0)
        for waiting in self._calls.values():
            if not waiting.done():
                waiting.set_exception(ConnectionGone("the client closed the connection"))
        self._calls.clear()
        self._count_unread(0)
        if self._room is not None:
            self._room.admit_waiting()
        self._server.remove_connection(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return self._server.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._last_read = self._loop.time()
        self.quiet_until = 0.0
        try:
            began = not self._reader.kept_bytes
            frames = self._reader.read_frames(bytes(self._server.buffer[:nbytes]))
        except RemotingError as error:
            self.cut_off("protocol", str(error))
            return
        if frames or began:
            self._frame_began = self._last_read
        self._count_kept(self._reader.kept_bytes)
        self._waiting.extend(frames)
        if self._waiting and self._turn is None:
            self._begin_requests()
        elif self._ledger.is_nearly_full:
            self._server.limit_input()
        self._bytes_to_rest -= nbytes
        if self._bytes_to_rest <= 0 and not self.is_closed:
            self._rest_from_reading()

    def _rest_from_reading(self) -> None:
        """Read on in another turn of the loop, which else reads from one socket for as long as there is something."""
        self._bytes_to_rest = _READ_BYTES_MAX
        self._is_resting = True
        if not self._is_paused:
            self._transport.pause_reading()
        self._loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        self._is_resting = False
        if not self._is_paused and not self.is_closed:
            self._transport.resume_reading()

    def _count_kept(self, size: int) -> None:
        more = size - self._counted_kept
        if more:
            self._counted_kept = size
            self.held_bytes += more
            self._ledger.held_bytes += more

    def eof_received(self) -> None:
        return None

    def pause_writing(self) -> None:
        self._is_blocked = True

    def resume_writing(self) -> None:
        self._is_blocked = False
        self._count_unread(self._transport.get_write_buffer_size())
        self._resume_reading()
        if self._room is not None:
            self._room.admit_waiting()

    # --- requests

    def _begin_requests(self) -> None:
        """Begin as many of the requests that came as this turn allows, the others in another turn."""
        self._turn = None
        ledger = self._ledger
        waiting = self._waiting
        budget = ledger.turn_budget(self._last_read)
        end_s = time.perf_counter() + self._server.budgets.turn_s
        while waiting and budget > 0 and not self.is_closed and time.perf_counter() < end_s:
            serialization, header, body = waiting.popleft()
            budget -= _REQUEST_COST + (len(header) + len(body)) // _COST_BYTES
            try:
                self._begin_frame(serialization, header, body)
            except RemotingError as error:
                self.cut_off("protocol", str(error))
                return
        if waiting:
            ledger.behind.setdefault(self, self._loop.time())
            self._turn = self._loop.call_soon(self._begin_requests)
        else:
            self._leave_queue()
        if waiting or self._is_full():
            self._pause_reading()
        else:
            self._resume_reading()
        if self._ledger.is_nearly_full:
            self._server.limit_input()

    def _leave_queue(self) -> None:
        self._ledger.behind.pop(self, None)

    def _begin_frame(self, serialization: int, header: bytes, body: bytes) -> None:
        command = decode_command(serialization, header, body)
        if command.flag & RESPONSE_FLAG:
            waiting = self._calls.pop(command.opaque, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(command)
            return
        server = self._server
        if self._is_stopping or len(self._requests) >= REQUESTS_MAX:
            refusal = server.refuse_request(command, is_stopping=self._is_stopping)
            self._write_answer(command, refusal)
            return
        request = ServedRequest(self, command, len(header) + len(body), self._last_read)
        self._requests.add(request)
        self.held_bytes += request.size
        self._ledger.held_bytes += request.size
        self._pending_calls.add_call()
        serving = server.serve(request)
        if serving is not None:
            server.start_request(request, serving)

    def finish_request(self, request: ServedRequest, response: Command | None) -> None:
        """Note that a request has ended, and answer it if there is an answer."""
        self._requests.discard(request)
        self.held_bytes -= request.size
        self._ledger.held_bytes -= request.size
        self._pending_calls.remove_call()
        if response is not None:
            self._write_answer(request.command, response)
        if request.room is not None:
            request.room.leave_room()
        if self._is_paused:
            self._resume_reading()

    def _write_answer(self, command: Command, response: Command) -> None:
        if not command.flag & ONEWAY_FLAG:
            response.opaque = command.opaque
            response.flag |= RESPONSE_FLAG
            response.version = SERVED_VERSION
            self._write_frame(encode_command(response))

    # --- requests to the client

    def send_oneway(self, command: Command) -> None:
        """Send a request that wants no answer."""
        command.opaque = self._next_number()
        command.flag |= ONEWAY_FLAG
        self._write_frame(encode_command(command))

    async def call_client(self, command: Command, timeout_s: float) -> Command:
        """Send a request, and return the client's answer. ConnectionGone if none comes in time."""
        if self.is_closed:
            raise ConnectionGone("the client closed the connection")
        command.opaque = number = self._next_number()
        answer: asyncio.Future[Command] = self._loop.create_future()
        self._calls[number] = answer
        self._write_frame(encode_command(command))
        try:
            await ensure_task()
            # Not `wait_for`, which in Python 3.11 loses a cancellation that comes with the answer.
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise ConnectionGone(f"the client did not answer within {timeout_s:g} s") from None
        finally:
            self._calls.pop(number, None)

    def _next_number(self) -> int:
        self._last_number = (self._last_number + 1) & _OPAQUE_MASK
        return self._last_number

    # --- output

    def _write_frame(self, frame: bytes) -> None:
        if self.is_closed:
            return
        if not self._output:
            self._turn_end.add_write(self._write_output)
        self._output.append(frame)
        size = len(frame)
        self.quiet_until = 0.0
        self._counted_unread += size
        self._ledger.unread_bytes += size

    def _write_output(self) -> None:
        output, self._output = self._output, []
        if output and not self.is_closed:
            self._transport.write(output[0] if len(output) == 1 else b"".join(output))
            self._count_unread(self._transport.get_write_buffer_size())
            if self._is_paused:
                self._resume_reading()
        if self._room is not None:
            self._room.admit_waiting()

    def _count_unread(self, size: int) -> None:
        self._ledger.unread_bytes += size - self._counted_unread
        self._counted_unread = size

    @property
    def unread_bytes(self) -> int:
        """The bytes of its answers that the client has not read."""
        return self._counted_unread

    def open_answer_room(self) -> AnswerRoom:
        """Return the room for one answer, within the limit of this connection."""
        if self._room is None:
            self._room = OutputRoom(lambda: self._counted_unread, self._server.budgets.connection_out_bytes_max)
        return AnswerRoom(self._room)

    # --- limits

    def _is_full(self) -> bool:
        budgets = self._server.budgets
        return (
            self.held_bytes - self._counted_kept > budgets.connection_in_bytes_max
            or self._counted_unread > budgets.connection_out_bytes_max
        )

    def _pause_reading(self) -> None:
        if not self._is_paused and not self.is_closed:
            self._is_paused = True
            if not self._is_resting:
                self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._is_paused and not self.is_closed and not self._waiting and not self._is_full():
            self._is_paused = False
            self._last_read = self._frame_began = self._loop.time()
            if not self._is_resting:
                self._transport.resume_reading()

    def check_limits(self, now: float, *, crowded: bool) -> None:
        """Close the connection if its client takes too long."""
        if self.is_closed:
            return
        budgets = self._server.budgets
        unread = self._transport.get_write_buffer_size()
        self.reads_nothing = unread > 0 and unread >= self._unread_before > 0
        if not self.reads_nothing:
            self._moved_at = now
        self._unread_before = unread
        self._count_unread(unread)
        if self._is_paused:
            self._frame_began = now
        kept = self._reader.kept_bytes
        if now - self._moved_at > budgets.output_timeout_s:
            self.cut_off("output_timeout", f"it has read nothing for {budgets.output_timeout_s:g} s")
        elif kept and now - self._frame_began > budgets.body_timeout_s + kept / BODY_BYTES_PER_S:
            self.cut_off("body_timeout", f"a request did not come whole within {budgets.body_timeout_s:g} s")
        elif not self._requests and not self._calls:
            idle_s = IDLE_WHEN_CROWDED_S if crowded and self.note is None else CLIENT_IDLE_S
            if now - self._last_read > idle_s:
                self.hang_up("idle")
            elif not (unread or kept or self._is_paused):
                self.quiet_until = self._last_read + CLIENT_IDLE_S

    def cut_off(self, limit: str, why: str) -> None:
        """Close the connection because of an error or its memory."""
        if not self.is_closed:
            self._server.limits.log_limit(self.peer, limit, f"the connection is closed: {why}")
            self._transport.abort()
            # Before the transport reports it in another turn: the search for the largest connection must not find it
            # again.
            self._count_unread(0)
            self.reads_nothing = False

    def refuse_plain(self, begun: bytes) -> bool:
        """Close a connection in plain text where only TLS is served."""
        del begun
        self.cut_off("plain", _TLS_ONLY)
        return False

    def stop_calls(self) -> None:
        """Accept no more requests."""
        self._is_stopping = True

    def end_calls(self) -> None:
        """End the requests in progress."""
        for request in list(self._requests):
            request.cancel_task()
            request.answer_request(self._server.refuse_request(request.command, is_stopping=True))

    def hang_up(self, why: str) -> None:
        """Close the connection, after what the kernel takes at once."""
        del why
        if not self.is_closed:
            self._write_output()
            self._transport.close()
            if self._transport.get_write_buffer_size():
                self._transport.abort()
