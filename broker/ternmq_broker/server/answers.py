"""What each call of `storage.proto` asks of the broker, and how its answer is written.

A handler that is a plain function answers at once; the others may wait, and run as tasks. Each gets the request and the
answer to fill. What goes wrong is a MessagingError, or a defect. HA_NOT_AVAILABLE is for what was not begun at all:
proxies ask another broker then. Handles of settlements were given by a Pop, whose check of the group covers them: those
of a group that is forgotten find nothing, and make nothing.
"""

from typing import TYPE_CHECKING, Any

from ternmq_common import storage_form as form
from ternmq_common.errors import MessagingError
from ternmq_common.model import HalfMessage, QueueRef, Resolution, Settled, TimedMessage, TransactionState
from ternmq_common.recall_handle import RecallHandle
from ternmq_common.transaction_id import TransactionId
from ternmq_protos.storage_v1 import storage_pb2 as storage
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ternmq_broker.broker import Broker
    from ternmq_broker.server.forgetting import Forgetting
    from ternmq_broker.server.learning import Learning
    from ternmq_common.filters import Filters

    AtOnce = Callable[[Any, storage.Answer], None]
    Waiting = Callable[[Any, storage.Answer], Awaitable[None]]


class Answers:
    """The handlers, by the names of the requests in `Call`. Pop and PullingMembers depend on who calls: they are not
    here."""

    def __init__(self, broker: "Broker", filters: "Filters", forgetting: "Forgetting", learning: "Learning") -> None:
        self._broker = broker
        self._filters = filters
        self._forgetting = forgetting
        self._learning = learning
        self.at_once: dict[str, AtOnce] = {
            "acknowledge": self._acknowledge,
            "prolong": self._prolong,
            "release": self._release,
            "bounds": self._bounds,
            "leave": self._leave,
            "drop_retries": self._drop_retries,
        }
        self.waiting: dict[str, Waiting] = {
            "append": self._append,
            "schedule": self._schedule,
            "recall": self._recall,
            "begin_transaction": self._begin_transaction,
            "end_transaction": self._end_transaction,
            "list_transactions": self._list_transactions,
            "describe_transaction": self._describe_transaction,
            "change_invisible": self._change_invisible,
            "dead_letter": self._dead_letter,
            "pull": self._pull,
            "offset_at": self._offset_at,
            "committed": self._committed,
            "set_committed": self._set_committed,
            "skip": self._skip,
            "get_progress": self._get_progress,
            "find_by_key": self._find_by_key,
            "dead_letters": self._dead_letters,
            "retry": self._retry,
            "forget_topic": self._forget_topic,
            "forget_group": self._forget_group,
            "remaining": self._remaining,
        }

    async def earlier_forgotten(self, made: int, kind: str, name: str) -> None:
        """Before anything is kept of a topic or group, or said of the group: what was deleted before it was made has to
        be forgotten, else it would be forgotten with that, or taken for it. HA_NOT_AVAILABLE if the registry does not
        say in time what that is."""
        if not self._learning.knows(made) and not await self._learning.known_soon(made):
            raise self.not_known_yet(kind, name)

    def not_known_yet(self, kind: str, name: str) -> MessagingError:
        return MessagingError(
            definition_pb2.HA_NOT_AVAILABLE,
            f"broker {self._broker.name} does not know yet what was deleted before {kind} {name!r} was made: "
            "the registry can't be reached",
        )

    # --- sending

    async def _append(self, request: storage.Append, answer: storage.Answer) -> None:
        await self.earlier_forgotten(request.topic_made, "topic", request.topic)
        messages = form.read_new(request.messages)
        appended = await self._broker.append(request.topic, request.queue_id, messages)
        answer.stored.offsets.extend([each.queue_offset for each in appended])

    async def _schedule(self, request: storage.Schedule, answer: storage.Answer) -> None:
        await self.earlier_forgotten(request.topic_made, "topic", request.topic)
        messages = map(TimedMessage, form.read_new(request.messages), request.due_ms)
        appended = await self._broker.schedule(request.topic, request.queue_id, list(messages))
        answer.stored.offsets.extend([each.queue_offset for each in appended])

    async def _recall(self, request: storage.Recall, answer: storage.Answer) -> None:
        del answer
        await self._broker.recall(RecallHandle(request.topic, self._broker.name, request.due_ms, request.message_id))

    async def _begin_transaction(self, request: storage.BeginTransaction, answer: storage.Answer) -> None:
        await self.earlier_forgotten(request.topic_made, "topic", request.topic)
        recovery_ms = request.recovery_ms if request.HasField("recovery_ms") else None
        half = HalfMessage(form.read_new_message(request.message), request.sender, recovery_ms)
        appended = await self._broker.begin_transaction(request.topic, request.queue_id, half)
        answer.stored.offsets.append(appended.queue_offset)
        answer.stored.transaction_id = appended.transaction_id

    async def _end_transaction(self, request: storage.EndTransaction, answer: storage.Answer) -> None:
        del answer
        await self._broker.end_transaction(
            request.topic,
            TransactionId(request.message_id, self._broker.name, request.log_offset),
            Resolution.COMMIT if request.commit else Resolution.ROLLBACK,
            by_operator=request.by_operator,
        )

    async def _list_transactions(self, request: storage.ListTransactions, answer: storage.Answer) -> None:
        state = TransactionState(request.state)
        page = await self._broker.transactions.page(
            state, topic=request.topic, start=request.start, limit=request.limit
        )
        for transaction in page.transactions:
            form.write_transaction(answer.transaction_page.transactions.add(), transaction)
        answer.transaction_page.following = page.following

    async def _describe_transaction(self, request: storage.DescribeTransaction, answer: storage.Answer) -> None:
        transaction_id = TransactionId(request.message_id, self._broker.name, request.log_offset)
        transaction, message = await self._broker.transactions.describe(transaction_id)
        form.write_transaction(answer.transaction, transaction)
        form.write_stored(answer.transaction.message, message, "")

    # --- settling

    def _acknowledge(self, request: storage.Acknowledge, answer: storage.Answer) -> None:
        handles = form.read_handles(request.handles, self._broker.name)
        form.write_outcomes(answer.outcomes, self._broker.acknowledge(request.group, request.topic, handles))

    async def _change_invisible(self, request: storage.ChangeInvisible, answer: storage.Answer) -> None:
        handle = form.read_handle(request.handle, self._broker.name)
        changed = await self._broker.change_invisible(
            request.group, request.topic, handle, request.invisible_ms, counts=request.counts
        )
        if changed is not None:
            form.write_handle(answer.handle, changed)

    def _prolong(self, request: storage.Prolong, answer: storage.Answer) -> None:
        handles = form.read_handles(request.handles, self._broker.name)
        held = self._broker.prolong(request.group, request.topic, handles, request.invisible_ms)
        form.write_outcomes(answer.outcomes, [Settled.DONE if each else Settled.EXPIRED for each in held])

    def _release(self, request: storage.Release, answer: storage.Answer) -> None:
        del answer
        handles = form.read_handles(request.handles, self._broker.name)
        self._broker.release(request.group, request.topic, handles, counts=request.counts)

    async def _dead_letter(self, request: storage.DeadLetter, answer: storage.Answer) -> None:
        handle = form.read_handle(request.handle, self._broker.name)
        outcome = await self._broker.dead_letter(request.group, request.topic, handle, request.attempts)
        form.write_outcomes(answer.outcomes, [outcome])

    # --- by offset

    async def _pull(self, request: storage.Pull, answer: storage.Answer) -> None:
        if not request.batch:
            queue = QueueRef(request.topic, self._broker.name, request.queue_id)
            more = await self._broker.wait_for_more(queue, request.offset, request.poll_ms / 1000)
            answer.messages.next_offset = request.offset + more
            return
        await self.earlier_forgotten(request.group_made, "group", request.reader.group)
        pulled = await self._broker.pull(
            QueueRef(request.topic, self._broker.name, request.queue_id),
            request.offset,
            await self._filters.of(form.read_filter(request.filter)),
            limit=request.batch,
            poll_s=request.poll_ms / 1000,
            reader=form.read_reader(request.reader) if request.HasField("reader") else None,
        )
        answer.messages.next_offset = pulled.next_offset
        for message in pulled.messages:
            form.write_stored(answer.messages.messages.add(), message, request.topic)

    def _bounds(self, request: storage.Bounds, answer: storage.Answer) -> None:
        bounds = self._broker.bounds(request.topic, request.queue_id)
        answer.bounds.minimum, answer.bounds.maximum = bounds.minimum, bounds.maximum

    async def _offset_at(self, request: storage.OffsetAt, answer: storage.Answer) -> None:
        answer.offset.offset = await self._broker.offset_at(request.topic, request.queue_id, request.time_ms)

    async def _committed(self, request: storage.Committed, answer: storage.Answer) -> None:
        await self.earlier_forgotten(request.group_made, "group", request.group)
        offset = self._broker.committed(request.group, request.topic, request.queue_id)
        if offset is None:
            answer.offset.SetInParent()
        else:
            answer.offset.offset = offset

    async def _set_committed(self, request: storage.SetCommitted, answer: storage.Answer) -> None:
        del answer
        await self.earlier_forgotten(request.group_made, "group", request.group)
        reader = form.read_reader(request.reader) if request.HasField("reader") else None
        self._broker.set_committed(request.group, request.topic, request.queue_id, request.offset, reader)

    async def _skip(self, request: storage.Skip, answer: storage.Answer) -> None:
        del answer
        await self.earlier_forgotten(request.group_made, "group", request.group)
        self._broker.skip(request.group, request.topic, request.queue_id, request.offset)

    def _leave(self, request: storage.Leave, answer: storage.Answer) -> None:
        del answer
        self._broker.leave(request.group, request.client_id)

    def _drop_retries(self, request: storage.DropRetries, answer: storage.Answer) -> None:
        del answer
        self._broker.drop_retries(request.group, request.topic)

    # --- looking

    async def _get_progress(self, request: storage.GetProgress, answer: storage.Answer) -> None:
        form.write_progress(answer.progress.progress, await self._broker.looking.progress(request.group))

    async def _find_by_key(self, request: storage.FindByKey, answer: storage.Answer) -> None:
        for message in await self._broker.looking.find_by_key(request.topic, request.key, request.limit):
            form.write_stored(answer.messages.messages.add(), message, request.topic)

    async def _dead_letters(self, request: storage.DeadLetters, answer: storage.Answer) -> None:
        for message in (await self._broker.looking.dead_letters(request.group, request.offsets)).values():
            form.write_stored(answer.messages.messages.add(), message, "")

    async def _retry(self, request: storage.Retry, answer: storage.Answer) -> None:
        del answer
        # Whichever was made later: to wait for one after the other could take longer than the proxy waits.
        later = max((request.topic_made, "topic", request.topic), (request.group_made, "group", request.group))
        await self.earlier_forgotten(*later)
        await self._broker.retry(request.group, request.topic, form.read_new(request.messages))

    async def _remaining(self, request: storage.Remaining, answer: storage.Answer) -> None:
        del request
        form.write_remaining(answer.remains, await self._broker.looking.remaining())

    # --- forgetting

    async def _forget_topic(self, request: storage.ForgetTopic, answer: storage.Answer) -> None:
        del answer
        await self._forgetting.topic(request.topic, request.registry_version)

    async def _forget_group(self, request: storage.ForgetGroup, answer: storage.Answer) -> None:
        del answer
        await self._forgetting.group(request.group, request.registry_version)


def unknown_call() -> MessagingError:
    """The proxy is of a later version: the call is in a field that has no name here."""
    return MessagingError(
        definition_pb2.NOT_IMPLEMENTED, "this broker does not know what it was asked; upgrade brokers before proxies"
    )
