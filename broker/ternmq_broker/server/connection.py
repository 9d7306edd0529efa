"""One proxy's stream at the broker: calls come in frames, answers go out as they are ready."""

import asyncio
import itertools
import logging
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from msgspec import Raw, structs

from ternmq_broker.server.answers import failure_of
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.message_filter import FilterText
from ternmq_common.model import by_settled_topic
from ternmq_common.outbox import Outbox
from ternmq_common.shard import form
from ternmq_common.shard.calls import CALLS
from ternmq_common.shard.form import FORM, NoFrame
from ternmq_common.shard.shard import Done
from ternmq_common.tag_filter import ALL, TagFilter
from ternmq_runtime.observability.tracing import NOTHING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence

    from ternmq_broker.server.proxies import Proxies
    from ternmq_common.model import (
        AppendOutcome,
        Delivery,
        DroppedLite,
        OrphanedTransaction,
        PopOrder,
        ProxyAnswer,
        PullingMember,
    )
    from ternmq_common.shard.calls import ShardCall, Values
    from ternmq_common.shard.form import Piece

    Work = Coroutine[Any, Any, object]
    Undelivered = Callable[[], object] | None
    """Called when an answer could not be written."""

_log = logging.getLogger(__name__)
CHECK_TIMEOUT_S = 3.0
ANSWERS_BYTES_MAX = 64 << 20


def greeted(piece: "Piece", greeting: form.Greeting) -> tuple[str, bytes]:
    """Answer a proxy's hello. Returns the proxy's name and the piece with the welcome; NoFrame for another form."""
    proxy = form.HELLO.of(piece)
    if proxy.form != FORM:
        raise NoFrame(f"it is of form {proxy.form}; run proxies and brokers of one version")
    return proxy.name, form.WELCOME.piece(greeting)


class ProxyConnection:
    """Serves one stream until it ends. `write` sends a frame, and may raise when the stream is broken."""

    def __init__(self, proxies: "Proxies", write: "Callable[[bytes], Awaitable[object]]") -> None:
        self._proxies = proxies
        self._answers_bytes_max = proxies.limits.answers_bytes_max
        self._broker = proxies.broker
        self._answers = proxies.answers
        self._methods = {**proxies.answers.methods, "pop": self._pop, "ask_proxies": self._ask_proxies}
        self._notes: dict[str, Callable[[Piece], object]] = {
            form.HELLO.what: self._greet,
            form.PRESENCE.what: self._presence,
            form.CANCEL.what: lambda piece: self._cancel(piece.number),
            form.ASKED.what: self._asked,
            form.TOLD.what: self._told,
            form.PING.what: lambda _: self._say(form.PONG.piece(None)),
        }
        self._write = write
        self._outbox: Outbox[Undelivered] = Outbox()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._unanswered: set[asyncio.Future[None]] = set()  # sends, which have no task
        self._reads: set[int] = set()
        self._replies: dict[tuple[str, int], asyncio.Future[Any]] = {}  # by the kind of note, and its number
        self._refused: set[tuple[str, str]] = set()  # group and topic
        self._numbers = itertools.count(1)
        self._closed = False
        self.name = ""
        self.members: list[PullingMember] = []
        self.frames = 0
        self.calls = 0

    async def write_forever(self) -> None:
        """Write what is queued; ends when it is cancelled, or when `write` raises."""
        while True:
            batch = await self._outbox.take()
            try:
                await self._write(batch.frame)
            except BaseException:
                _give_back(batch.tokens)
                raise

    async def take(self, data: bytes) -> None:
        """Serve one frame. The next one may follow when this returns; answers may come later. NoFrame: it is
        invalid."""
        pieces = form.pieces(data)
        self.frames += 1
        for piece in pieces:
            note = self._notes.get(piece.what)
            if note is not None:
                note(piece)
            elif piece.what == form.VERSION.what:
                await self._proxies.registry_sync.known_up_to(form.VERSION.of(piece))
            elif piece.number:
                self._serve(piece)
        if self._outbox.bytes > self._answers_bytes_max:
            # It sends calls faster than it reads answers.
            await self._outbox.drained()

    # --- notes

    def _greet(self, piece: "Piece") -> None:
        self.name, welcome = greeted(piece, form.Greeting(self._broker.name, self._proxies.version))
        self._say(welcome)

    def _presence(self, piece: "Piece") -> None:
        self.members = form.PRESENCE.of(piece)

    def _asked(self, piece: "Piece") -> None:
        self._replied(piece, form.ASKED.of(piece))

    def _told(self, piece: "Piece") -> None:
        self._replied(piece, form.TOLD.of(piece).data)

    def _replied(self, piece: "Piece", reply: object) -> None:
        waiting = self._replies.get((piece.what, piece.number))
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)

    def tell_version(self, version: int) -> None:
        """Tell the proxy the latest version of the registry that the broker knows."""
        self._say(form.VERSION.piece(version))

    async def ask(self, orphan: "OrphanedTransaction", *, sender_only: bool) -> bool:
        """Send a transaction check to a producer that is connected to this proxy; False if there is none."""
        number = next(self._numbers)
        check = form.CHECK.piece(replace(orphan, sender_only=sender_only), number)
        return bool(await self._reply(form.ASKED.what, number, check, CHECK_TIMEOUT_S))

    async def tell(self, question: form.ProxyQuestion) -> bytes | None:
        """Ask this proxy a question of another proxy; None without an answer in time."""
        number = next(self._numbers)
        told = await self._reply(form.TOLD.what, number, form.TELL.piece(question, number), self._proxies.limits.tell_s)
        return cast("bytes | None", told)

    async def _reply(self, what: str, number: int, asked: bytes, within_s: float) -> object:
        """Send a piece and wait for the reply with that number; None if none comes in time, or the stream ends."""
        if self._closed:
            return None
        replied: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._replies[what, number] = replied
        self._say(asked)
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
        self._broker.unwatch(self.ready)
        _give_back(self._outbox.clear())
        for waiting in self._replies.values():
            if not waiting.done():
                waiting.set_result(None)
        for number in list(self._tasks):
            self._cancel(number)

    def leave(self) -> None:
        """Tell the proxy that the broker ends: it must call no more, and end the stream."""
        self._say(form.LEAVING.piece(None))

    async def finished(self) -> None:
        """Return when all calls are answered, and the answers are written."""
        await asyncio.gather(*self._tasks.values(), *self._unanswered, return_exceptions=True)
        await self._outbox.drained()

    def ready(self, group: str, topic: str) -> None:
        """Tell the proxy that there may be messages for the group (see `Pollers.watch`)."""
        self._say(form.READY.piece(form.Ready(group, topic)))

    def dropped(self, dropped: "Sequence[DroppedLite]") -> None:
        """Tell the proxy that clients have lost subscriptions of lite topics."""
        self._say(form.DROPPED.piece(list(dropped)))

    def learned(self) -> None:
        """Tell the proxy that polls that were refused may be answered now."""
        refused, self._refused = self._refused, set()
        for group, topic in refused:
            self.ready(group, topic)

    # --- calls

    def _serve(self, asked: "Piece") -> None:
        self.calls += 1
        try:
            call = _call(asked.what)
            values = call.arguments(asked)
            asked.body = Raw()  # it would keep the whole frame while this call waits
            if self._answers.knows(asked):
                self._answers.refuse_deleted(asked, call, values)
                if call.name == "append_each" and not asked.traceparent:
                    self._append_each(asked, values)
                    return
                work = call.done(self._methods[call.name], values)
                if isinstance(work, Done):
                    self._answer(asked, values, work.result)
                    return
            else:
                work = self._when_known(asked, call, values)
            self._begin(asked, call, values, cast("Work", work))
        except Exception as error:  # noqa: BLE001 - the outermost of this call; `failure_of` logs
            self._say(_failed(asked, error))

    def _append_each(self, asked: "Piece", values: "Values") -> None:
        """Answer sends without a task, which would cost as much as the sends."""
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unanswered.add(answered)

        def told(outcomes: "list[AppendOutcome]") -> None:
            self._unanswered.discard(answered)
            if not answered.done():  # it is done once the process gave up waiting
                answered.set_result(None)
            try:
                self._answer(asked, values, outcomes)
            except Exception as error:  # noqa: BLE001 - the outermost of this call; `failure_of` logs
                self._say(_failed(asked, error))

        try:
            self._answers.append_each_nowait(values[0], told)
        except BaseException:
            self._unanswered.discard(answered)
            raise

    def _begin(self, asked: "Piece", call: "ShardCall", values: "Values", work: "Work") -> None:
        """Run a call as a task, until it is done or, if it only reads, is cancelled."""
        task = asyncio.create_task(self._wait(asked, call, values, work))
        self._tasks[asked.number] = task
        if call.rules.reads:
            self._reads.add(asked.number)
        task.add_done_callback(lambda _: self._ended(asked.number, work))

    def _ended(self, number: int, work: "Work") -> None:
        self._tasks.pop(number, None)
        self._reads.discard(number)
        work.close()  # for a task that was cancelled before it began

    async def _wait(self, asked: "Piece", call: "ShardCall", values: "Values", work: "Work") -> None:
        try:
            with self._proxies.continued(asked.traceparent) if asked.traceparent else NOTHING:
                if call.rules.reads and asked.timeout_ms:
                    async with asyncio.timeout(asked.timeout_ms / 1000):
                        result = await work
                else:
                    result = await work
            self._answer(asked, values, result)
        except Exception as error:  # noqa: BLE001 - the outermost of this call; `failure_of` logs
            self._say(_failed(asked, error))

    def _cancel(self, number: int) -> None:
        if number in self._reads:
            self._tasks[number].cancel()

    def _answer(self, asked: "Piece", values: "Values", result: object) -> None:
        undelivered: Undelivered = None
        if asked.what == "pop" and result:
            undelivered = self._giving_back(values[0], cast("list[Delivery]", result))
        try:
            self._say(form.piece(form.ANSWER, asked.number, result), undelivered)
        except Exception:
            _give_back([undelivered])
            raise

    def _giving_back(self, order: "PopOrder", deliveries: "list[Delivery]") -> "Undelivered":
        return lambda: self._release(order, deliveries)

    def _release(self, order: "PopOrder", deliveries: "list[Delivery]") -> None:
        for topic, some in by_settled_topic(order.topic, deliveries).items():
            self._broker.release(order.group, topic, [delivery.handle for delivery in some], counts=False)

    # --- calls that depend on the proxy

    def _ask_proxies(self, question: str, argument: str) -> "Awaitable[list[ProxyAnswer]]":
        return self._proxies.ask_others(self, form.ProxyQuestion(question, argument))

    def _when_known(self, asked: "Piece", call: "ShardCall", values: "Values") -> "Awaitable[object]":
        if call.name == "pop":
            order, watch = values
            if watch:
                # Its proxy is notified when to try again, and meanwhile tries other brokers.
                self._refused.add((order.group, order.wait_key))
                self._proxies.registry_sync.see_to(asked.group_created_version)
                raise self._answers.not_known_yet(asked, call, values)
        return self._answers.when_known(asked, call, values, self._methods[call.name])

    def _pop(self, order: "PopOrder", *, watch: bool) -> "Awaitable[list[Delivery]]":
        text = cast("FilterText", order.filter)
        if not text.is_sql:
            order = structs.replace(order, filter=ALL if text.expression == "*" else TagFilter.parse(text.expression))
            with self._noting_refusal(order, watch=watch):
                deliveries = self._broker.pop_at_once(order, self.ready if watch else None)
            if deliveries is not None:
                return Done(deliveries)
        return self._pop_later(order, watch=watch)

    async def _pop_later(self, order: "PopOrder", *, watch: bool) -> "list[Delivery]":
        try:
            if isinstance(order.filter, FilterText):
                order = structs.replace(order, filter=await self._answers.compiled(order.filter))
            with self._noting_refusal(order, watch=watch):
                return await self._broker.pop_or_watch(order, self.ready if watch else None)
        finally:
            if self._closed:
                self._broker.unwatch(self.ready)

    @contextmanager
    def _noting_refusal(self, order: "PopOrder", *, watch: bool) -> "Iterator[None]":
        """Note a poll that is refused since the broker can't serve now, to notify its proxy when it can."""
        try:
            yield
        except MessagingError as error:
            if watch and error.code == ErrorCode.HA_NOT_AVAILABLE:
                self._refused.add((order.group, order.wait_key))
            raise

    def _say(self, piece: bytes, undelivered: "Undelivered" = None) -> None:
        if self._closed:
            _give_back([undelivered])
        else:
            self._outbox.add(piece, undelivered)


def _give_back(tokens: "list[Undelivered]") -> None:
    for undelivered in tokens:
        if undelivered is not None:
            undelivered()


def _call(name: str) -> "ShardCall":
    call = CALLS.get(name)
    if call is None:
        raise MessagingError(
            ErrorCode.NOT_IMPLEMENTED,
            f"this broker does not know the call {name[:100]!r}; upgrade brokers before proxies",
        )
    return call


def _failed(asked: "Piece", error: Exception) -> bytes:
    """Encode the answer to a call that failed."""
    return form.FAILED.piece(failure_of(asked.what, error), asked.number)
