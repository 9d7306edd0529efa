"""A connection on asyncio, at either end: moves bytes between a transport and a machine.

Reading   into one buffer. A machine that is behind is called again in the next turn of the loop, and nothing is read
          until then, so that other connections have their turn.
Writing   once at the end of a turn, for all that became ready in it: a write takes the kernel as long as a call takes
          us. A transport that has not handed everything to the kernel is given nothing; what waits, waits in the
          machine.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from ternmq_common.event_loop.turn_end import turn_end
from ternmq_rpc.grpc_http2.events import EventKind
from ternmq_rpc.grpc_http2.machine import Http2Machine
from ternmq_rpc.grpc_stream.stream import MessageStream
from ternmq_rpc.serving.sockets import READ_BYTES, format_peer, keep_alive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_rpc.grpc_http2.machine import ConnectionFailure, Events
    from ternmq_rpc.grpc_http2.messages import GrpcStatus

_log = logging.getLogger(__name__)
_BATCH_BYTES: Final = 256 << 10
_LAST_WORDS_S: Final = 0.25
_REPORTED_AT_ONCE: Final = 50
_IGNORED_MAX: Final = 4 << 20
AnyStream = TypeVar("AnyStream", bound=MessageStream)
AnyMachine = TypeVar("AnyMachine", bound=Http2Machine[Any])


class Http2Connection(asyncio.BufferedProtocol, ABC, Generic[AnyStream, AnyMachine]):
    """The base of both asyncio ends. `machine` exists from `connection_made` on; `closed`: nothing is read or
    written. `quiet_until` is 0 whenever something came or is to be sent."""

    __slots__ = (
        "_blocked",
        "_buffer",
        "_end_reason",
        "_ignored",
        "_lost_output",
        "_paused",
        "_scheduled",
        "_transport",
        "_turn_end",
        "_writers",
        "closed",
        "loop",
        "machine",
        "peer",
        "quiet_until",
    )

    machine: AnyMachine

    def __init__(self, *, buffer: memoryview | None = None) -> None:
        self.peer = ""
        self.loop = asyncio.get_running_loop()
        # One buffer for all input: without it every read would allocate the largest possible size.
        self._buffer = buffer or memoryview(bytearray(READ_BYTES))
        self._transport: asyncio.Transport | None = None
        self._turn_end = turn_end()
        # Streams that wait for their bytes to be sent: those whose bytes the kernel gets with the next write, and the
        # others.
        self._writers: set[MessageStream] | None = None
        self._blocked: set[MessageStream] | None = None
        self._paused = False
        self._scheduled = False
        self._end_reason: str | None = None
        self._ignored = 0
        # Something that was to be written never was.
        self._lost_output = False
        self.closed = False
        self.quiet_until = 0.0

    # --- what the ends do differently

    @abstractmethod
    def make_machine(self) -> AnyMachine:
        """Create the machine of a new connection."""

    @abstractmethod
    def handle_event(self, event: EventKind, stream: AnyStream, text: str) -> None:
        """Handle a stream's event: STARTED, MESSAGES or ENDED."""

    def handle_greeting(self) -> None:
        """Note that the other side speaks HTTP/2."""

    def handle_leaving(self, why: str) -> None:
        """Note that the other side accepts no more streams."""

    def handle_failure(self, failure: "ConnectionFailure") -> None:
        """Log that the connection ends because of what the other side did."""
        _log.info("the connection to %s is closed: %s, %s", self.peer, failure.code.name, failure)

    @abstractmethod
    def handle_lost(self) -> None:
        """Note that the connection was closed."""

    @abstractmethod
    def end_stream(self, stream: AnyStream) -> None:
        """End this side of the stream after all that waits."""

    # --- asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Other event loops have transports of their own, which need not be asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=0)
        self.peer = format_peer(transport.get_extra_info("peername"))
        keep_alive(transport.get_extra_info("socket"))
        self.machine = self.make_machine()
        self.write_output()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self.closed:
            self._ignore_bytes(nbytes)
        else:
            self.process_bytes(bytes(self._buffer[:nbytes]))

    def _ignore_bytes(self, size: int) -> None:
        """Count bytes of a peer that does not know yet that the connection has ended."""
        self._ignored += size
        if self._ignored > _IGNORED_MAX and self._transport is not None:
            self._transport.abort()

    def process_bytes(self, data: bytes) -> None:
        """Process received bytes."""
        if self.closed:
            return
        self.quiet_until = 0.0
        events = self.machine.receive_bytes(data, self.loop.time())
        if self.machine.failure is not None:  # the others end with the connection
            events = [event for event in events if event[1] is not None and event[1].is_forgotten]
        if events:
            self._handle_events(events)
        self.after_receive()
        if self.closed:
            return
        if self.machine.failure is not None:
            self._close_failed(self.machine.failure)
        elif self.machine.has_backlog:
            self._pause_reading()
            self.loop.call_soon(self._continue_input)
        if self.machine.has_output:
            self.schedule_write()

    def _continue_input(self) -> None:
        """Process bytes that were received before and not processed."""
        if not self.closed:
            self.process_bytes(b"")
            if not self.machine.has_backlog and not self.closed:
                self.resume_reading()

    def _pause_reading(self) -> None:
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again, if nothing prevents it."""
        transport = self._transport
        if transport is not None and not self.machine.has_backlog and not self.closed and not transport.is_closing():
            transport.resume_reading()

    def after_receive(self) -> None:
        """Called after bytes were received and their events handled."""

    def _handle_events(self, events: "Events[AnyStream]") -> None:
        for event, stream, text in events:
            if stream is None:
                if event is EventKind.GREETED:
                    self.handle_greeting()
                else:
                    self.handle_leaving(text)
            elif event is EventKind.BROKEN:
                stream.break_off(f"{self.peer}: {text}", stream.status)
            else:
                self.handle_event(event, stream, text)

    def pause_writing(self) -> None:
        self._paused = self.machine.blocked = True

    def resume_writing(self) -> None:
        self._paused = self.machine.blocked = False
        self.write_output()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._lost_output = self._lost_output or self._paused or self.machine.has_output
        self._paused = False
        why = f"the connection to {self.peer} was lost: {exc}" if exc else f"{self.peer} closed the connection"
        self._break_streams(self._end_reason or why)
        writers = (self._writers or set()) | (self._blocked or set())
        self._writers = self._blocked = None
        for stream in writers:  # streams that have ended, and whose last bytes were not sent
            stream.break_off(self._end_reason or why)
        self._transport = None  # which has this protocol, and may have TLS
        self.handle_lost()

    # --- for streams

    def send_messages(self, stream: AnyStream, messages: "Sequence[bytes]") -> None:
        """Send messages, or have them wait for their turn."""
        self.machine.send_messages(stream, messages)
        self.schedule_write()

    def count_read(self, stream: AnyStream, size: int) -> None:
        """Note that `size` bytes of the stream's messages were read."""
        self.machine.count_read(stream, size)
        if self.machine.has_output:
            self.schedule_write()

    def has_unsent(self, stream: AnyStream) -> bool:
        """Return whether bytes of the stream have not reached the kernel; if so, it is woken when that may have
        changed."""
        if self.closed:
            if self._lost_output:
                stream.break_off(self._end_reason or f"the connection to {self.peer} was lost")
            return False
        if stream.has_waiting:
            self._blocked = self._blocked or set()
            self._blocked.add(stream)
        elif self._paused or self._scheduled:
            self._writers = self._writers or set()
            self._writers.add(stream)
        else:
            return False
        return True

    def schedule_write(self) -> None:
        """Write at the end of this turn of the loop."""
        if not self._scheduled:
            self._scheduled = True
            self.quiet_until = 0.0
            self._turn_end.add_write(self.write_output)

    def write_output(self) -> None:
        """Write what may be sent, as long as the kernel takes it."""
        self._scheduled = False
        machine, transport = self.machine, self._transport
        while machine.has_output and not self._paused and not self.closed and transport is not None:
            buffers = machine.take_output(_BATCH_BYTES)
            if transport.is_closing():  # a write to a lost transport would flood the log
                self._lost_output = True
            if not buffers or self._lost_output:
                break
            transport.write(buffers[0] if len(buffers) == 1 else b"".join(buffers))
        self.wake_writers()

    def wake_writers(self) -> None:
        """Wake the streams that wait for their bytes to be sent."""
        if self._blocked:
            gone = {stream for stream in self._blocked if not stream.has_waiting}
            self._blocked = (self._blocked - gone) or None
            self._writers = (self._writers or set()) | gone
        if self._writers and not self._paused:
            writers, self._writers = self._writers, None
            for stream in writers:
                stream.wake_writers()

    def abort_stream(self, stream: AnyStream, status: "GrpcStatus", text: str) -> None:
        """End the stream now."""
        self.machine.abort_stream(stream, status, text)
        stream.break_off(text, status)
        self.schedule_write()

    # --- the end

    def hang_up(self, why: str) -> None:
        """Close the connection, after what the kernel takes at once."""
        self._end_reason = self._end_reason or why
        if self.closed:
            return
        if self._transport is not None:
            self.write_output()
            if self._paused:
                self._lost_output = True
                self._transport.abort()
            else:
                self._transport.close()
        self.closed = True
        self._break_streams(why)

    def _close_failed(self, failure: "ConnectionFailure") -> None:
        """Send the reason to a peer that broke the rules, and close. Its bytes are ignored for a moment first: closing
        a connection over unread bytes would discard the reason."""
        self.handle_failure(failure)
        why = f"{self.peer} is not understood: {failure}"
        self._end_reason = self._end_reason or why
        transport = self._transport
        if self.closed or transport is None:
            return
        self.write_output()
        self.closed = True
        self._break_streams(why)
        if self._paused or transport.is_closing() or not transport.can_write_eof():
            self._lost_output = True
            transport.abort()
            return
        try:
            transport.write_eof()
        except OSError:  # it is closed already, and no read has reported that
            transport.abort()
            return
        self.loop.call_later(_LAST_WORDS_S, transport.abort)
        if not transport.is_reading():
            transport.resume_reading()

    def _break_streams(self, why: str) -> None:
        if hasattr(self, "machine"):
            self._report_broken([stream for stream in self.machine.close_streams() if stream.mark_broken(why)])

    def _report_broken(self, streams: list[AnyStream]) -> None:
        """Report the end to a few streams in a turn: a thousand calls at once would hold up the event loop."""
        for stream in streams[:_REPORTED_AT_ONCE]:
            stream.report_broken()
        if len(streams) > _REPORTED_AT_ONCE:
            self.loop.call_soon(self._report_broken, streams[_REPORTED_AT_ONCE:])
