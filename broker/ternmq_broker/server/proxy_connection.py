"""One proxy's stream at the broker: calls come in frames, answers go out as they are ready."""

import asyncio
import itertools
import logging
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import Raw, structs

from ternmq_broker.server.call_methods import DIRECT_CALLS, failure_of
from ternmq_broker.server.members.reported_members import ReportedMembers
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.event_loop.done_result import DoneResult
from ternmq_common.filters.message_filter import FilterText
from ternmq_common.filters.tag_filter import ALL, TagFilter
from ternmq_common.shard import shard_frames
from ternmq_common.shard.calls import CALLS
from ternmq_common.shard.model import group_by_settled_topic
from ternmq_common.shard.outbox import FrameOutbox
from ternmq_common.shard.shard_frames import FORM, InvalidFrame
from ternmq_runtime.observability.tracing import NOTHING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence

    from ternmq_broker.server.proxy_connections import ProxyConnections
    from ternmq_common.shard.calls import ShardCall, Values
    from ternmq_common.shard.model import (
        DeliveredMessage,
        DroppedLite,
        OrphanedTransaction,
        PopOrder,
        ProxyAnswer,
    )
    from ternmq_common.shard.shard_frames import FramePiece

    Work = Coroutine[Any, Any, object]
    Undelivered = Callable[[], object] | None
    """Called when an answer could not be written."""

_log = logging.getLogger(__name__)
CHECK_TIMEOUT_S: Final = 3.0
ANSWERS_BYTES_MAX: Final = 64 << 20


def greet_proxy(piece: "FramePiece", greeting: shard_frames.PeerGreeting) -> tuple[str, bytes]:
    """Answer a proxy's hello. Returns the proxy's name and the piece with the welcome; NoFrame for another form."""
    proxy = shard_frames.HELLO.decode_note(piece)
    if proxy.form != FORM:
        raise InvalidFrame(f"it is of form {proxy.form}; run proxies and brokers of one version")
    return proxy.name, shard_frames.WELCOME.encode_note(greeting)


class ProxyConnection:
    """Serves one stream until it ends. `write` sends a frame, and may raise when the stream is broken."""

    def __init__(self, proxies: "ProxyConnections", write: "Callable[[bytes], Awaitable[object]]") -> None:
        self._proxies = proxies
        self._answers_bytes_max = proxies.limits.answers_bytes_max
        self._broker = proxies.broker
        self._answers = proxies.answers
        self._methods = {**proxies.answers.methods, "pop": self._pop_or_watch, "ask_proxies": self._ask_proxies}
        self._notes: dict[str, Callable[[FramePiece], object]] = {
            shard_frames.HELLO.what: self._read_hello,
            shard_frames.PRESENCE.what: self._read_presence,
            shard_frames.PRESENCE_CHANGES.what: self._read_presence_changes,
            shard_frames.CANCEL.what: lambda piece: self._cancel_read(piece.number),
            shard_frames.CHECK_REPLY.what: self._read_check_reply,
            shard_frames.PROXY_REPLY.what: self._read_question_reply,
            shard_frames.PING.what: lambda _: self._send_piece(shard_frames.PONG.encode_note(None)),
        }
        self._write = write
        self._outbox: FrameOutbox[Undelivered] = FrameOutbox()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._unanswered: set[asyncio.Future[None]] = set()  # sends, which have no task
        self._reads: set[int] = set()
        self._replies: dict[tuple[str, int], asyncio.Future[Any]] = {}  # by the kind of note, and its number
        self._refused: set[tuple[str, str]] = set()  # group and topic
        self._numbers = itertools.count(1)
        self._closed = False
        self.name = ""
        self.members = ReportedMembers()
        self._has_reported = False
        self.frames = 0
        self.calls = 0

    async def write_forever(self) -> None:
        """Write what is queued; ends when it is cancelled, or when `write` raises."""
        while True:
            batch = await self._outbox.take_batch()
            try:
                await self._write(batch.frame)
            except BaseException:
                _give_back(batch.tokens)
                raise

    async def serve_frame(self, data: bytes) -> None:
        """Serve one frame. The next one may follow when this returns; answers may come later. NoFrame: it is
        invalid."""
        pieces = shard_frames.decode_frame(data)
        self.frames += 1
        for piece in pieces:
            note = self._notes.get(piece.what)
            if note is not None:
                note(piece)
            elif piece.what == shard_frames.VERSION.what:
                await self._proxies.registry_sync.wait_for_version(shard_frames.VERSION.decode_note(piece))
            elif piece.number:
                self._serve_call(piece)
        if self._outbox.bytes > self._answers_bytes_max:
            # It sends calls faster than it reads answers.
            await self._outbox.wait_until_drained()

    # --- notes

    def _read_hello(self, piece: "FramePiece") -> None:
        greeting = shard_frames.PeerGreeting(self._broker.name, self._proxies.version, takes_changes=True)
        self.name, welcome = greet_proxy(piece, greeting)
        self._send_piece(welcome)

    def _read_presence(self, piece: "FramePiece") -> None:
        self.members.replace_all(shard_frames.PRESENCE.decode_note(piece))
        if not self._has_reported:
            self._has_reported = True
            self._proxies.note_arrival(self)

    def _read_presence_changes(self, piece: "FramePiece") -> None:
        changes = shard_frames.PRESENCE_CHANGES.decode_note(piece)
        self.members.add_changes(changes.joined, changes.left)

    def _read_check_reply(self, piece: "FramePiece") -> None:
        self._resolve_reply(piece, shard_frames.CHECK_REPLY.decode_note(piece))

    def _read_question_reply(self, piece: "FramePiece") -> None:
        self._resolve_reply(piece, shard_frames.PROXY_REPLY.decode_note(piece).data)

    def _resolve_reply(self, piece: "FramePiece", reply: object) -> None:
        waiting = self._replies.get((piece.what, piece.number))
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)

    def send_version(self, version: int) -> None:
        """Tell the proxy the latest version of the registry that the broker knows."""
        self._send_piece(shard_frames.VERSION.encode_note(version))

    async def check_transaction(self, orphan: "OrphanedTransaction", *, sender_only: bool) -> bool:
        """Send a transaction check to a producer that is connected to this proxy; False if there is none."""
        number = next(self._numbers)
        check = shard_frames.TRANSACTION_CHECK.encode_note(replace(orphan, sender_only=sender_only), number)
        return bool(await self._request_reply(shard_frames.CHECK_REPLY.what, number, check, CHECK_TIMEOUT_S))

    async def ask_question(self, question: shard_frames.ProxyQuestion) -> bytes | None:
        """Ask this proxy a question of another proxy; None without an answer in time."""
        number = next(self._numbers)
        answer = await self._request_reply(
            shard_frames.PROXY_REPLY.what,
            number,
            shard_frames.PROXY_QUESTION.encode_note(question, number),
            self._proxies.limits.notify_s,
        )
        return cast("bytes | None", answer)

    async def _request_reply(self, what: str, number: int, question: bytes, within_s: float) -> object:
        """Send a piece and wait for the reply with that number; None if none comes in time, or the stream ends."""
        if self._closed:
            return None
        replied: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._replies[what, number] = replied
        self._send_piece(question)
        try:
            async with asyncio.timeout(within_s):
                return await replied
        except TimeoutError:
            return None
        finally:
            del self._replies[what, number]

    def close(self) -> None:
        """Clean up after the stream has ended: give undelivered messages back, and end all waits."""
        self._closed = True
        self._broker.consuming.remove_watcher(self.send_ready)
        _give_back(self._outbox.clear())
        for waiting in self._replies.values():
            if not waiting.done():
                waiting.set_result(None)
        for number in list(self._tasks):
            self._cancel_read(number)

    def send_leaving(self) -> None:
        """Tell the proxy that the broker ends: it must call no more, and end the stream."""
        self._send_piece(shard_frames.LEAVING.encode_note(None))

    async def wait_until_answered(self) -> None:
        """Return when all calls are answered, and the answers are written."""
        await asyncio.gather(*self._tasks.values(), *self._unanswered, return_exceptions=True)
        await self._outbox.wait_until_drained()

    def send_ready(self, group: str, topic: str) -> None:
        """Tell the proxy that there may be messages for the group (see `Pollers.watch`)."""
        self._send_piece(shard_frames.READY.encode_note(shard_frames.ReadyNote(group, topic)))

    def send_dropped(self, dropped: "Sequence[DroppedLite]") -> None:
        """Tell the proxy that clients have lost subscriptions of lite topics."""
        self._send_piece(shard_frames.DROPPED.encode_note(list(dropped)))

    def retry_refused(self) -> None:
        """Tell the proxy that polls that were refused may be answered now."""
        refused, self._refused = self._refused, set()
        for group, topic in refused:
            self.send_ready(group, topic)

    # --- calls

    def _serve_call(self, piece: "FramePiece") -> None:
        self.calls += 1
        try:
            call = _find_call(piece.what)
            values = call.decode_arguments(piece)
            piece.body = Raw()  # it would keep the whole frame while this call waits
            if self._answers.is_up_to_date(piece):
                self._answers.refuse_deleted(piece, call, values)
                if not piece.traceparent and self._begin_directly(piece, values):
                    return
                work = call.call_method(self._methods[call.name], values)
                if isinstance(work, DoneResult):
                    self._send_answer(piece, values, work.result)
                    return
            else:
                work = self._when_known(piece, call, values)
            self._start_task(piece, call, values, cast("Work", work))
        except Exception as error:  # noqa: BLE001 - the outermost of this call; `failure_of` logs
            self._send_piece(_encode_failure(piece, error))

    def _begin_directly(self, piece: "FramePiece", values: "Values") -> bool:
        """Begin a call that waits for nothing but the log, without a task, which would cost as much as the call. Return
        False, with nothing done, if it is another call, or has to wait for more."""
        if piece.what not in DIRECT_CALLS:
            return False
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def answer(result: object, error: Exception | None) -> None:
            self._unanswered.discard(answered)
            if not answered.done():  # it is done once the process gave up waiting
                answered.set_result(None)
            try:
                if error is None:
                    self._send_answer(piece, values, result)
                else:
                    self._send_piece(_encode_failure(piece, error))
            except Exception as failure:  # noqa: BLE001 - the outermost of this call; `failure_of` logs
                self._send_piece(_encode_failure(piece, failure))

        self._unanswered.add(answered)
        is_begun = False
        try:
            is_begun = self._answers.begin_directly(piece.what, values, answer)
        finally:
            if not is_begun:
                self._unanswered.discard(answered)
        return is_begun

    def _start_task(self, piece: "FramePiece", call: "ShardCall", values: "Values", work: "Work") -> None:
        """Run a call as a task, until it is done or, if it only reads, is cancelled."""
        task = asyncio.create_task(self._run_call(piece, call, values, work))
        self._tasks[piece.number] = task
        if call.rules.reads:
            self._reads.add(piece.number)
        task.add_done_callback(lambda _: self._task_ended(piece.number, work))

    def _task_ended(self, number: int, work: "Work") -> None:
        self._tasks.pop(number, None)
        self._reads.discard(number)
        work.close()  # for a task that was cancelled before it began

    async def _run_call(self, piece: "FramePiece", call: "ShardCall", values: "Values", work: "Work") -> None:
        try:
            with self._proxies.continued(piece.traceparent) if piece.traceparent else NOTHING:
                if call.rules.reads and piece.timeout_ms:
                    async with asyncio.timeout(piece.timeout_ms / 1000):
                        result = await work
                else:
                    result = await work
            self._send_answer(piece, values, result)
        except Exception as error:  # noqa: BLE001 - the outermost of this call; `failure_of` logs
            self._send_piece(_encode_failure(piece, error))

    def _cancel_read(self, number: int) -> None:
        if number in self._reads:
            self._tasks[number].cancel()

    def _send_answer(self, piece: "FramePiece", values: "Values", result: object) -> None:
        undelivered: Undelivered = None
        if piece.what == "pop" and result:
            undelivered = self._release_later(values[0], cast("list[DeliveredMessage]", result))
        try:
            self._send_piece(shard_frames.encode_piece(shard_frames.ANSWER, piece.number, result), undelivered)
        except Exception:
            _give_back([undelivered])
            raise

    def _release_later(self, order: "PopOrder", deliveries: "list[DeliveredMessage]") -> "Undelivered":
        return lambda: self._release_deliveries(order, deliveries)

    def _release_deliveries(self, order: "PopOrder", deliveries: "list[DeliveredMessage]") -> None:
        for topic, some in group_by_settled_topic(order.topic, deliveries).items():
            self._broker.consuming.release(order.group, topic, [delivery.handle for delivery in some], counts=False)

    # --- calls that depend on the proxy

    def _ask_proxies(self, question: str, argument: str) -> "Awaitable[list[ProxyAnswer]]":
        return self._proxies.ask_others(self, shard_frames.ProxyQuestion(question, argument))

    def _when_known(self, piece: "FramePiece", call: "ShardCall", values: "Values") -> "Awaitable[object]":
        if call.name == "pop":
            order, watch = values
            if watch:
                # Its proxy is notified when to try again, and meanwhile tries other brokers.
                self._refused.add((order.group, order.wait_key))
                self._proxies.registry_sync.request_sync(piece.group_created_version)
                raise self._answers.not_known_yet(piece, call, values)
        return self._answers.when_known(piece, call, values, self._methods[call.name])

    def _pop_or_watch(self, order: "PopOrder", *, watch: bool) -> "Awaitable[list[DeliveredMessage]]":
        text = cast("FilterText", order.filter)
        if not text.is_sql:
            order = structs.replace(
                order, filter=ALL if text.expression == "*" else TagFilter.parse_expression(text.expression)
            )
            with self._noting_refusal(order, watch=watch):
                deliveries = self._broker.consuming.pop_or_watch_nowait(order, self.send_ready if watch else None)
            if deliveries is not None:
                return DoneResult(deliveries)
        return self._pop_later(order, watch=watch)

    async def _pop_later(self, order: "PopOrder", *, watch: bool) -> "list[DeliveredMessage]":
        try:
            if isinstance(order.filter, FilterText):
                order = structs.replace(order, filter=await self._answers.compile_filter(order.filter))
            with self._noting_refusal(order, watch=watch):
                return await self._broker.consuming.pop_or_watch(order, self.send_ready if watch else None)
        finally:
            if self._closed:
                self._broker.consuming.remove_watcher(self.send_ready)

    @contextmanager
    def _noting_refusal(self, order: "PopOrder", *, watch: bool) -> "Iterator[None]":
        """Note a poll that is refused since the broker can't serve now, to notify its proxy when it can."""
        try:
            yield
        except MessagingError as error:
            if watch and error.code == ErrorCode.HA_NOT_AVAILABLE:
                self._refused.add((order.group, order.wait_key))
            raise

    def _send_piece(self, piece: bytes, undelivered: "Undelivered" = None) -> None:
        if self._closed:
            _give_back([undelivered])
        else:
            self._outbox.add_piece(piece, undelivered)


def _give_back(tokens: "list[Undelivered]") -> None:
    for undelivered in tokens:
        if undelivered is not None:
            undelivered()


def _find_call(name: str) -> "ShardCall":
    call = CALLS.get(name)
    if call is None:
        raise MessagingError(
            ErrorCode.NOT_IMPLEMENTED,
            f"this broker does not know the call {name[:100]!r}; upgrade brokers before proxies",
        )
    return call


def _encode_failure(piece: "FramePiece", error: Exception) -> bytes:
    """Encode the answer to a call that failed."""
    return shard_frames.FAILED.encode_note(failure_of(piece.what, error), piece.number)
