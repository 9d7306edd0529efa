"""The stream to one broker: calls out, answers in, in any order.

A link reconnects when it breaks, at once and then with a growing backoff. A broker is also lost when it does not answer
a ping for some seconds: its process may be stopped, or a cable cut. Calls fail then, and their errors say whether the
broker may have done them.
"""

import asyncio
import contextlib
import itertools
import logging
import random
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.event_loop.background_tasks import BackgroundTasks
from ternmq_common.process.own_version import own_version
from ternmq_common.shard import shard_frames
from ternmq_common.shard.calls import ShardCall, Values
from ternmq_common.shard.model import DroppedLite, OrphanedTransaction
from ternmq_common.shard.outbox import FrameOutbox
from ternmq_common.shard.shard_frames import FORM, FramePiece, InvalidFrame, PeerGreeting, ShardFailure
from ternmq_proxy.message_service.cluster.broker_links.calls import (
    BrokerRefused,
    BrokerUnavailable,
    LateResultCallback,
    LinkCalls,
    ResultCallback,
)
from ternmq_proxy.message_service.cluster.broker_links.circuit_breaker import CircuitBreaker
from ternmq_proxy.message_service.cluster.broker_links.link_timing import LINK_TIMING, LinkTiming
from ternmq_rpc.grpc_http2.messages import StreamBroken
from ternmq_rpc.grpc_stream.client import open_stream
from ternmq_rpc.grpc_stream.stream import MessageStream
from ternmq_runtime.observability.figures import LinkFigures
from ternmq_runtime.observability.tracing import current_traceparent

if TYPE_CHECKING:
    from ternmq_protos.v2 import definition_pb2

_log = logging.getLogger(__name__)
_METHOD = "/ternmq.storage.v1.Storage/Exchange"
WAITING_BYTES_MAX = 256 << 20


class _StreamEnded(Exception):
    """The broker ended the stream."""


class _GreetingRefused(Exception):
    """The peer is not the broker, or does not serve; the text says why."""


class LinkEvents(Protocol):
    """The events of a link."""

    def link_changed(self, broker: str) -> None:
        """The broker became connected, or was disconnected."""

    def messages_ready(self, broker: str, group: str, topic: str) -> None:
        """The broker may have messages for the group."""

    def registry_changed(self, version: int) -> None:
        """The broker knows this version of the registry."""

    async def check_orphan(self, orphan: OrphanedTransaction) -> bool:
        """Send a transaction check to a producer; return whether there was one."""

    def lite_dropped(self, dropped: list[DroppedLite]) -> None:
        """Clients have lost subscriptions to lite topics."""

    async def answer_question(self, question: str, argument: str) -> bytes | None:
        """Return the answer to another proxy's question, None if the question is unknown."""


class BrokerLink:
    """Keeps the stream to the broker at one address, from `start` to `close`."""

    def __init__(
        self,
        broker: str,
        address: str,
        events: LinkEvents,
        *,
        proxy: str,
        known: Callable[[], int],
        timing: LinkTiming = LINK_TIMING,
        tls: Callable[[], ssl.SSLContext] | None = None,
        method: str = _METHOD,
    ) -> None:
        self.broker = broker
        self._method = method
        self._tls = tls
        self.address = address
        self._events = events
        self._proxy = proxy
        self._known_version = known
        self._timing = timing
        self._numbers = itertools.count(1)
        self._calls = LinkCalls(broker)
        self._outbox: FrameOutbox[int] = FrameOutbox()
        self._sent_up_to = 0
        self._sent_version = 0
        self._presence: Callable[[], bytes] | None = None
        self._presence_count = 0  # how often it was set
        self._takes_changes = False
        self._takes: dict[str, Callable[[FramePiece], None]] = {
            shard_frames.ANSWER: self._calls.finish_call,
            shard_frames.FAILED.what: lambda piece: self._calls.fail_call(
                piece.number, _error_in(shard_frames.FAILED.decode_note(piece))
            ),
            shard_frames.READY.what: lambda piece: events.messages_ready(
                broker, *shard_frames.READY.decode_note(piece)
            ),
            shard_frames.VERSION.what: lambda piece: events.registry_changed(shard_frames.VERSION.decode_note(piece)),
            shard_frames.TRANSACTION_CHECK.what: self._receive_check,
            shard_frames.PROXY_QUESTION.what: self._receive_question,
            shard_frames.DROPPED.what: lambda piece: events.lite_dropped(shard_frames.DROPPED.decode_note(piece)),
            shard_frames.LEAVING.what: lambda _: self._receive_leaving(),
        }
        self._connected = False
        self._leaving = False
        self._closing = False
        self._welcomed_s = self._received_s = self._spoke_s = 0.0
        self._unanswered_bytes = 0  # sent since the last bytes were received
        self._why = "it was not reached yet"
        self._connecting, self._replies = BackgroundTasks(), BackgroundTasks()
        self._circuit_breaker = CircuitBreaker(first_s=timing.first_retry_s, longest_s=timing.longest_retry_s)
        self._hurry = asyncio.Event()
        self._counts = Counter[str]()  # since the proxy knows the broker; `lost` calls ended with a connection

    @property
    def is_connected(self) -> bool:
        """Whether the broker can be called."""
        return self._connected and not self._leaving

    @property
    def waiting_count(self) -> int:
        """How many calls wait for an answer."""
        return len(self._calls)

    def read_figures(self, *, set_aside: bool) -> LinkFigures:
        """Return the current figures of the link; `set_aside`: the broker gets no messages for a while, though it is
        connected."""
        counts = {name: self._counts[name] for name in ("calls", "late", "lost", "frames_out", "frames_in")}
        return LinkFigures(broker=self.broker, up=self.is_connected, set_aside=set_aside, **counts)

    def start(self) -> None:
        self._connecting.start(self._connect_forever(), name=f"link to {self.broker}")

    def reconnect_now(self) -> None:
        """Reconnect at once, since the registry says that the broker is back."""
        self._circuit_breaker.record_success()
        self._hurry.set()

    async def close(self) -> None:
        """End the link. Running calls get a moment to finish, so that messages for abandoned calls are given back; not
        at a broker that hangs, which another replica has replaced."""
        self._closing = True
        if self._connected and not self.is_unresponsive():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._timing.close_s):
                    await self._end_stream()
        await self._connecting.stop()
        self._lose_stream("the proxy closed the connection")

    def is_unresponsive(self) -> bool:
        """Return whether the broker has not answered a ping for longer than that may take."""
        timing = self._timing
        return asyncio.get_running_loop().time() - self._received_s > timing.ping_after_s + 2 * timing.look_s

    async def _end_stream(self) -> None:
        await self._calls.wait_idle()
        if self.is_connected:
            self._drain_stream()
        await self._connecting.wait_until_done()

    def announce_members(self, changes: bytes, presence: "Callable[[], bytes]") -> None:
        """Send which members that pull have changed, as an encoded piece. Every new stream begins with all of them,
        which `presence` encodes."""
        self.set_presence(presence)
        if self.is_connected:
            self._outbox.add_piece(changes if self._takes_changes else presence(), 0)

    def set_presence(self, presence: "Callable[[], bytes] | None") -> None:
        """Set what encodes all members that pull, None if there were none yet."""
        self._presence = presence
        self._presence_count += 1

    async def ask_broker(
        self,
        call: ShardCall,
        values: Values,
        *,
        topic_created_version: int = 0,
        group_created_version: int = 0,
        timeout_s: float | None = None,
        on_late: LateResultCallback | None = None,
    ) -> Any:  # noqa: ANN401 - it is the call's own
        """Call the broker, and return the result. Raises the broker's MessagingError (BrokerRefused if it can't do the
        call now), BrokerUnavailable or LateAnswer.

        `on_late` gets a result that arrives after the caller gave up; without it a CANCEL is sent for a call that
        reads. For the rest see `FramePiece`; `timeout_s` None: the call's own.
        """
        number, piece, deadline_s = self._prepare_call(
            call, values, topic_created_version, group_created_version, timeout_s
        )
        future = self._calls.add_call(number, call, deadline_s, on_late)
        self._send_piece(piece, number)
        try:
            return await future
        except asyncio.CancelledError:
            if self._calls.abandon_call(number, future, on_late) and call.rules.reads and self.is_connected:
                self._outbox.add_piece(shard_frames.CANCEL.encode_note(None, number), number)
            raise

    def ask_nowait(
        self,
        call: ShardCall,
        values: Values,
        on_result: ResultCallback,
        *,
        topic_created_version: int = 0,
        group_created_version: int = 0,
    ) -> None:
        """Call the broker like `ask_broker`, without waiting; the result goes to `on_result`. If this raises, neither
        the broker nor `on_result` is called."""
        number, piece, deadline_s = self._prepare_call(call, values, topic_created_version, group_created_version, None)
        self._calls.add_callback_call(number, call, deadline_s, on_result)
        self._send_piece(piece, number)

    def _prepare_call(
        self,
        call: ShardCall,
        values: Values,
        topic_created_version: int,
        group_created_version: int,
        timeout_s: float | None,
    ) -> tuple[int, bytes, float]:
        """Prepare a call; return its number, its piece, and the deadline of its answer. Raises MessagingError if it
        can't be made."""
        if not self.is_connected:
            raise BrokerUnavailable(f"broker {self.broker} can't be reached: {self._why}", maybe_done=False)
        if self._outbox.bytes > WAITING_BYTES_MAX:
            raise MessagingError(
                ErrorCode.TOO_MANY_REQUESTS, f"too much waits to be sent to broker {self.broker}; try again later"
            )
        if self._calls.is_full:
            raise MessagingError(
                ErrorCode.TOO_MANY_REQUESTS, f"broker {self.broker} answers too slowly; try again later"
            )
        number = next(self._numbers)
        timeout_s = call.answer_timeout_s(values) if timeout_s is None else timeout_s
        piece = call.encode_call(
            number, values, topic_created_version, group_created_version, int(timeout_s * 1000), current_traceparent()
        )
        # It waits behind what is already queued, which takes its time on a slow line.
        ahead = self._outbox.bytes + self._unanswered_bytes + len(piece)
        return number, piece, asyncio.get_running_loop().time() + timeout_s + ahead / self._timing.slow_bytes_per_s

    def _send_piece(self, piece: bytes, number: int) -> None:
        self._counts["calls"] += 1
        self._send_version()
        self._outbox.add_piece(piece, number)

    def notify_broker(self, call: ShardCall, values: Values) -> None:
        """Send a call whose answer does not matter; do nothing if the broker is not connected."""
        if self.is_connected:
            number = next(self._numbers)
            self._outbox.add_piece(call.encode_call(number, values), number)

    def _send_version(self) -> None:
        version = self._known_version()
        if version != self._sent_version:
            self._sent_version = version
            self._outbox.add_piece(shard_frames.VERSION.encode_note(version), 0)

    # --- the stream

    async def _connect_forever(self) -> None:
        while True:
            self._lose_stream(await self._run_until_lost())
            if self._closing:
                return
            wait_s = self._circuit_breaker.record_failure(asyncio.get_running_loop().time())
            with contextlib.suppress(TimeoutError):
                # A random time, so that proxies don't reconnect together.
                async with asyncio.timeout(wait_s * random.uniform(1.0, 1.4)):  # noqa: S311
                    await self._hurry.wait()

    async def _run_until_lost(self) -> str:
        """Run the stream; return why it ended."""
        try:
            await self._run_stream()
        except _StreamEnded:
            return "it ended the stream"
        except TimeoutError:
            return "it does not answer"
        except _GreetingRefused as error:
            return str(error)
        except StreamBroken as error:
            return str(error)
        except InvalidFrame as error:
            return f"it sent what is no frame of form {FORM}: {error}"
        except Exception as error:  # noqa: BLE001 - the outermost of this stream, and it logs
            _log.exception("the stream to broker %s failed unexpectedly", self.broker)
            return f"unexpectedly, {error!r}"
        raise AssertionError("a stream ends by an exception")

    async def _run_stream(self) -> None:
        """Open the stream, and use it until it ends or breaks."""
        tls = None if self._tls is None else self._tls()
        stream = await open_stream(self.address, self._method, timeout_s=self._timing.connect_timeout_s, tls=tls)
        try:
            async with asyncio.timeout(self._timing.connect_timeout_s):
                await self._exchange_greetings(stream)
            await self._use_stream(stream)
        finally:
            stream.abort_stream("the proxy closed the stream")

    async def _exchange_greetings(self, stream: MessageStream) -> None:
        hello = shard_frames.HELLO.encode_note(PeerGreeting(self._proxy, own_version()))
        self._hurry.clear()
        self._sent_version, sent_count = self._known_version(), self._presence_count
        pieces = [hello, shard_frames.VERSION.encode_note(self._sent_version)]
        if self._presence is not None:
            pieces.append(self._presence())
        stream.write_messages(shard_frames.join_pieces(pieces))
        broker = await self._receive_greeting(stream)
        if broker.form != FORM:
            raise _GreetingRefused(f"it says form {broker.form}, not {FORM}; let proxies and brokers be of one version")
        if broker.name != self.broker:
            raise _GreetingRefused(f"broker {broker.name} is at its address")
        self._connected, self._leaving = True, False
        self._welcomed_s = self._received_s = self._spoke_s = asyncio.get_running_loop().time()
        self._unanswered_bytes = 0
        self._takes_changes = broker.takes_changes
        if self._presence is not None and self._presence_count != sent_count:
            self._outbox.add_piece(self._presence(), 0)
        _log.info("connected to broker %s at %s", self.broker, self.address)
        self._events.link_changed(self.broker)

    async def _receive_greeting(self, stream: MessageStream) -> PeerGreeting:
        broker = None
        while broker is None:
            data = await stream.read_message()
            if data is None:
                raise _GreetingRefused("it ended the stream")
            for piece in shard_frames.decode_frame(data):
                if piece.what == shard_frames.VERSION.what:
                    self._events.registry_changed(shard_frames.VERSION.decode_note(piece))
                elif piece.what == shard_frames.LEAVING.what:
                    raise _GreetingRefused("it is ending")
                elif piece.what == shard_frames.WELCOME.what:
                    broker = shard_frames.WELCOME.decode_note(piece)
        return broker

    async def _use_stream(self, stream: MessageStream) -> None:
        async with BackgroundTasks() as tasks:
            works = (
                tasks.start_awaited(self._read_pieces(stream), name=f"answers of {self.broker}"),
                tasks.start_awaited(self._write_pieces(stream), name=f"calls of {self.broker}"),
                tasks.start_awaited(self._watch_deadlines(stream), name=f"watch over {self.broker}"),
            )
            # The reader ends by an exception, after the writer if the broker leaves, since it reads the last answers.
            await asyncio.wait(works, return_when=asyncio.FIRST_EXCEPTION)
            for task in works:
                if task.done():
                    task.result()

    async def _write_pieces(self, stream: MessageStream) -> None:
        while not (self._leaving and not len(self._outbox)):
            batch = await self._outbox.take_batch()
            self._sent_up_to = max(self._sent_up_to, *batch.tokens)
            self._counts["frames_out"] += 1
            self._spoke_s = asyncio.get_running_loop().time()
            self._unanswered_bytes += len(batch.frame)
            try:
                stream.write_messages(batch.frame)
                await stream.wait_drained()
            except StreamBroken:
                return  # the reader gets the reason
        with contextlib.suppress(StreamBroken):
            await stream.end_stream()

    async def _read_pieces(self, stream: MessageStream) -> None:
        loop = asyncio.get_running_loop()
        while frames := await stream.read_all():
            self._received_s, self._unanswered_bytes = loop.time(), 0
            self._counts["frames_in"] += len(frames)
            for data in frames:
                for piece in shard_frames.decode_frame(data):
                    take = self._takes.get(piece.what)
                    if take is not None:
                        take(piece)
        raise _StreamEnded

    def _receive_leaving(self) -> None:
        if not self._leaving:
            self._why = "it is ending"
            self._drain_stream()

    def _drain_stream(self) -> None:
        """Start no more calls; pending ones are still answered."""
        self._leaving = True
        self._outbox.add_piece(shard_frames.PING.encode_note(None), self._sent_up_to)  # wakes the writer, which ends
        self._events.link_changed(self.broker)

    def _receive_check(self, piece: FramePiece) -> None:
        self._reply_in_task(partial(self._check_reply, shard_frames.TRANSACTION_CHECK.decode_note(piece), piece.number))

    async def _check_reply(self, orphan: OrphanedTransaction, number: int) -> bytes:
        return shard_frames.CHECK_REPLY.encode_note(await self._events.check_orphan(orphan), number)

    def _receive_question(self, piece: FramePiece) -> None:
        self._reply_in_task(partial(self._question_reply, shard_frames.PROXY_QUESTION.decode_note(piece), piece.number))

    async def _question_reply(self, question: shard_frames.ProxyQuestion, number: int) -> bytes:
        return shard_frames.PROXY_REPLY.encode_note(
            shard_frames.ProxyAnswered(await self._events.answer_question(*question)), number
        )

    def _reply_in_task(self, answer: Callable[[], Awaitable[bytes]]) -> None:
        """Send the result of `answer` to the broker, from a task."""

        async def send_reply() -> None:
            piece = await answer()
            if self._connected:
                self._outbox.add_piece(piece, 0)

        self._replies.start(send_reply(), name=f"reply to {self.broker}")

    async def _watch_deadlines(self, stream: MessageStream) -> None:
        """End calls whose time is over, and the stream when the broker does not answer pings."""
        loop, timing = asyncio.get_running_loop(), self._timing
        looked_s, under_way = loop.time(), stream.transfer_progress
        while True:
            await asyncio.sleep(timing.look_s)
            now = loop.time()
            if under_way != stream.transfer_progress:
                self._received_s, under_way = now, stream.transfer_progress  # a slow line is not a silent broker
            # Nothing could be received while this process was stopped.
            if (stood_s := now - looked_s - timing.look_s) > timing.look_s:
                self._received_s += stood_s
            looked_s = now
            self._counts["late"] += self._calls.expire_calls(now)
            silence_s = now - self._received_s
            if silence_s > timing.silence_s + self._unanswered_bytes / timing.slow_bytes_per_s:
                raise TimeoutError
            # The broker needs signs of life too, also from a proxy to which it sends a lot.
            if max(silence_s, now - self._spoke_s) > timing.ping_after_s and not len(self._outbox):
                self._outbox.add_piece(shard_frames.PING.encode_note(None), 0)

    def _lose_stream(self, why: str) -> None:
        """Fail all calls after the stream was lost."""
        was_connected, self._connected, self._leaving = self._connected, False, False
        before, self._why = self._why, why
        self._replies.cancel()  # their numbers mean nothing to the next stream
        self._outbox.clear()
        text = f"the connection to broker {self.broker} was lost: {why}"
        self._counts["lost"] += self._calls.fail_all_calls(text, sent_up_to=self._sent_up_to)
        if was_connected:
            if asyncio.get_running_loop().time() - self._welcomed_s > self._timing.steady_s:
                self._circuit_breaker.record_success()
            level = logging.INFO if self._closing else logging.WARNING
            _log.log(level, "the connection to broker %s was lost: %s", self.broker, why)
            self._events.link_changed(self.broker)
        elif why != before and not self._closing:
            # A wrong certificate would be visible nowhere else; a continuing failure is logged once.
            _log.warning("cannot connect to broker %s: %s", self.broker, why)


def _error_in(failure: ShardFailure) -> MessagingError:
    if failure.code == ErrorCode.HA_NOT_AVAILABLE:
        return BrokerRefused(failure.message)
    return MessagingError(cast("definition_pb2.Code", failure.code), failure.message)
