"""One proxy's stream, as the broker sees it: calls come in frames, answers go out as they are ready."""

import asyncio
import itertools
import logging
import secrets
from typing import TYPE_CHECKING

from ternmq_broker.disk_room import DiskShort
from ternmq_broker.server.answers import unknown_call
from ternmq_common import storage_form as form
from ternmq_common.errors import MessagingError
from ternmq_common.outbox import Outbox
from ternmq_protos.storage_v1 import storage_pb2 as storage
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from ternmq_broker.server.proxies import Proxies
    from ternmq_common.model import Delivery, OrphanedTransaction

    Undelivered = Callable[[], None] | None
    """What is to be done when an answer could not be written."""

_log = logging.getLogger(__name__)
QUESTION_TIMEOUT_S = 3.0
ANSWERS_BYTES_MAX = 64 << 20
# Nothing is changed by these, so that they end when nobody waits for them any more.
_READS = frozenset(
    {"pull", "offset_at", "get_progress", "find_by_key", "dead_letters", "list_transactions", "remaining"}
)


class ProxyConnection:
    """Serves one stream until it ends. `write` sends a frame and may raise when the stream is broken."""

    def __init__(self, proxies: "Proxies", write: "Callable[[bytes], Awaitable[object]]") -> None:
        self._proxies = proxies
        self._broker = proxies.broker
        self._answers = proxies.answers
        self._write = write
        self._outbox: Outbox[Undelivered] = Outbox()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._reads: set[int] = set()
        self._questions: dict[int, asyncio.Future[bool]] = {}
        self._refused: set[tuple[str, str]] = set()  # group and topic
        self._numbers = itertools.count(1)
        self._closed = False
        self.name = ""
        self.members: list[storage.Member] = []
        self.frames = 0
        self.calls = 0

    async def write_forever(self) -> None:
        """Write what there is to say; ends by being cancelled, or by what `write` raises."""
        while True:
            batch = await self._outbox.take()
            try:
                await self._write(batch.frame)
            except BaseException:
                _give_back(batch.tokens)
                raise

    async def take(self, data: bytes) -> None:
        """Serve one frame. The next one may be given when this returns; answers may come later."""
        frame = storage.ProxyFrame.FromString(data)
        self.frames += 1
        if frame.HasField("hello"):
            self.name = frame.hello.proxy
            self._say(
                storage.BrokerFrame(welcome=storage.Welcome(broker=self._broker.name, version=self._proxies.version))
            )
        if frame.registry_version:
            await self._proxies.learning.known_up_to(frame.registry_version)
        if frame.HasField("presence"):
            self.members = list(frame.presence.members)
        for number in frame.cancelled:
            self._cancel(number)
        for answered in frame.question_answers:
            waiting = self._questions.get(answered.id)
            if waiting is not None and not waiting.done():
                waiting.set_result(answered.asked)
        for call in frame.calls:
            self._serve(call)
        if frame.ping:
            self._say(storage.BrokerFrame(pong=frame.ping))
        if self._outbox.bytes > ANSWERS_BYTES_MAX:
            # It asks faster than it reads.
            await self._outbox.drained()

    def tell_version(self, version: int) -> None:
        """The registry has that version, as far as the broker knows."""
        self._say(storage.BrokerFrame(registry_version=version))

    async def ask(self, orphan: "OrphanedTransaction", *, sender_only: bool) -> bool:
        """Have a producer asked that is connected to this proxy; whether one was."""
        if self._closed:
            return False
        number = next(self._numbers)
        frame = storage.BrokerFrame()
        question = frame.questions.add()
        question.id, question.transaction_id = number, orphan.transaction_id
        question.topic, question.sender, question.sender_only = orphan.topic, orphan.sender, sender_only
        form.write_stored(question.message, orphan.message, orphan.topic)
        answered = self._questions[number] = asyncio.get_running_loop().create_future()
        self._say(frame)
        try:
            async with asyncio.timeout(QUESTION_TIMEOUT_S):
                return bool(await answered)
        except TimeoutError:
            return False
        finally:
            del self._questions[number]

    def close(self) -> None:
        """The stream has ended: messages that were on their way go to others, and nobody waits for anything here."""
        self._closed = True
        self._broker.unwatch(self.ready)
        _give_back(self._outbox.clear())
        for waiting in self._questions.values():
            if not waiting.done():
                waiting.set_result(False)
        for number in list(self._tasks):
            self._cancel(number)

    def leave(self) -> None:
        """The broker ends: the proxy is to call no more, and to end the stream when it has said all."""
        self._say(storage.BrokerFrame(leaving=True))

    async def finished(self) -> None:
        """Return when all that was called is answered, and the answers are written."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._outbox.drained()

    def ready(self, group: str, topic: str) -> None:
        """There may be something for the group (see `Pollers.watch`)."""
        frame = storage.BrokerFrame()
        frame.ready.add(group=group, topic=topic)
        self._say(frame)

    def learned(self) -> None:
        """Polls that were refused may be answered now."""
        refused, self._refused = self._refused, set()
        for group, topic in refused:
            self.ready(group, topic)

    # --- calls

    def _serve(self, call: storage.Call) -> None:
        self.calls += 1
        kind = call.WhichOneof("request") or ""
        frame = storage.BrokerFrame()
        answer = frame.answers.add()
        answer.id = call.id
        try:
            if kind in self._answers.waiting:
                self._begin(call, self._wait(call, kind, frame))
                if kind in _READS:
                    self._reads.add(call.id)
                return
            if kind == "pop":
                self._pop(call, frame, answer)
                return
            self._answer_at_once(call, kind, answer)
        except Exception as error:  # noqa: BLE001 - the outermost of this call; `_refused` logs
            frame = _refused(call, error)
        self._say(frame)

    def _answer_at_once(self, call: storage.Call, kind: str, answer: storage.Answer) -> None:
        at_once = self._answers.at_once.get(kind)
        if at_once is not None:
            at_once(getattr(call, kind), answer)
        elif kind == "pulling_members":
            members = self._proxies.pulling_members(call.pulling_members.group, call.pulling_members.topic)
            answer.members.client_ids.extend(members)
        else:
            raise unknown_call()

    def _begin(self, call: storage.Call, work: "Coroutine[None, None, None]") -> None:
        """Run a call as a task, until it is done or, if it only reads, nobody waits for it."""
        task = asyncio.create_task(work)
        self._tasks[call.id] = task
        task.add_done_callback(lambda _: self._ended(call.id))

    def _ended(self, number: int) -> None:
        self._tasks.pop(number, None)
        self._reads.discard(number)

    async def _wait(self, call: storage.Call, kind: str, frame: storage.BrokerFrame) -> None:
        if call.traceparent:
            with self._proxies.continued(call.traceparent):
                await self._answered(call, kind, frame)
        else:
            await self._answered(call, kind, frame)

    async def _answered(self, call: storage.Call, kind: str, frame: storage.BrokerFrame) -> None:
        try:
            work = self._answers.waiting[kind](getattr(call, kind), frame.answers[0])
            if kind in _READS and call.timeout_ms:
                async with asyncio.timeout(call.timeout_ms / 1000):
                    await work
            else:
                await work
        except Exception as error:  # noqa: BLE001 - the outermost of this call; `_refused` logs
            frame = _refused(call, error)
        self._say(frame)

    def _cancel(self, number: int) -> None:
        if number in self._reads:
            self._tasks[number].cancel()

    # --- receiving

    def _pop(self, call: storage.Call, frame: storage.BrokerFrame, answer: storage.Answer) -> None:
        is_known = self._proxies.learning.knows(call.pop.group_made)
        if call.pop.watch and not is_known:
            raise self._not_yet(call.pop)
        if call.pop.filter.is_sql or not is_known:
            self._begin(call, self._pop_later(call, frame, answer))
            return
        order = form.read_order(call.pop, self._proxies.tag_filter(call.pop.filter.expression))
        deliveries = self._broker.pop_at_once(order, self.ready if call.pop.watch else None)
        if deliveries is None:
            self._begin(call, self._pop_later(call, frame, answer))
        else:
            self._deliver(call.pop, deliveries, frame, answer)

    def _not_yet(self, pop: storage.Pop) -> MessagingError:
        """Its proxy is told when to ask again, and meanwhile asks other brokers."""
        self._refused.add((pop.group, pop.topic))
        self._proxies.learning.see_to(pop.group_made)
        return self._answers.not_known_yet("group", pop.group)

    async def _pop_later(self, call: storage.Call, frame: storage.BrokerFrame, answer: storage.Answer) -> None:
        try:
            await self._answers.earlier_forgotten(call.pop.group_made, "group", call.pop.group)
            passing = await self._proxies.filters.of(form.read_filter(call.pop.filter))
            order = form.read_order(call.pop, passing)
            deliveries = await self._broker.pop_or_watch(order, self.ready if call.pop.watch else None)
            self._deliver(call.pop, deliveries, frame, answer)
        except Exception as error:  # noqa: BLE001 - the outermost of this call; `_refused` logs
            self._say(_refused(call, error))
        if self._closed:
            self._broker.unwatch(self.ready)

    def _deliver(
        self, pop: storage.Pop, deliveries: "list[Delivery]", frame: storage.BrokerFrame, answer: storage.Answer
    ) -> None:
        answer.deliveries.SetInParent()
        if not deliveries:
            self._say(frame)
            return
        group, topic = pop.group, pop.topic
        handles = [delivery.handle for delivery in deliveries]

        def undelivered() -> None:
            self._broker.release(group, topic, handles, counts=False)

        try:
            form.write_deliveries(answer.deliveries, deliveries, pop.topic)
            self._say(frame, undelivered)
        except Exception:
            undelivered()
            raise

    def _say(self, frame: storage.BrokerFrame, undelivered: "Undelivered" = None) -> None:
        if self._closed:
            _give_back([undelivered])
        else:
            self._outbox.add(frame.SerializeToString(), undelivered)


def _give_back(tokens: "list[Undelivered]") -> None:
    for undelivered in tokens:
        if undelivered is not None:
            undelivered()


def _refused(call: storage.Call, error: Exception) -> storage.BrokerFrame:
    """The answer to a call that failed; what was not foreseen gets a number that the log has too."""
    frame = storage.BrokerFrame()
    answer = frame.answers.add()
    answer.id = call.id
    if isinstance(error, TimeoutError):
        error = MessagingError(definition_pb2.PROXY_TIMEOUT, "the broker did not come to an answer in time")
    if isinstance(error, DiskShort):
        error = MessagingError(definition_pb2.HA_NOT_AVAILABLE, error.message)
    if not isinstance(error, MessagingError):
        number = secrets.token_hex(4)
        _log.error("%s failed unexpectedly, error %s", call.WhichOneof("request"), number, exc_info=error)
        text = f"unexpected error; the broker's log has it as error {number}"
        error = MessagingError(definition_pb2.INTERNAL_SERVER_ERROR, text)
    form.write_error(answer.error, error)
    return frame
