"""The same clients without `async`: one background thread runs them on an event loop.

    from ternmq.blocking import Producer

    with Producer("127.0.0.1:8081", topics=["orders"]) as producer:
        producer.send(Message("orders", b"..."))

Names and arguments are those of `ternmq`. Calls may come from any thread. The thread starts with the first client and
is shared by all of the process; it doesn't keep a process from ending. A plain listener of a `PushConsumer` runs in
threads of its own, so it may block and may use these clients; so do the checker of a `Producer` and `on_assignment` of
a `PullConsumer`.

Forks (gunicorn, Celery, multiprocessing): each child makes clients of its own; the parent's raise `NotRunning` there.
A child that was forked while its parent was connected can't connect and says so, since gRPC can't be used in both:
connect after the fork, close before it, or start processes by `spawn`. GRPC_ENABLE_FORK_SUPPORT=0 in the environment
keeps gRPC itself from crashing some of such children.
"""

import asyncio
import inspect
import os
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Generic, Self, TypeVar, Unpack

import ternmq
from ternmq.background import call, wait
from ternmq.checking import Checker
from ternmq.client import Client
from ternmq.filters import Subscriptions
from ternmq.listening import Listener
from ternmq.message import Message, SendReceipt
from ternmq.message_view import MessageView
from ternmq.options import ClientOptions
from ternmq.producer import DELIVERY_TIMEOUT_S
from ternmq.pull.offsets import StartFrom
from ternmq.pull.queue import MessageQueue
from ternmq.pull.rebalancing import AssignmentListener
from ternmq.pull_consumer import BUFFERED_BYTES_MAX, BUFFERED_MESSAGES_MAX, Queues
from ternmq.push_consumer import CACHED_BYTES_MAX
from ternmq.running import signals
from ternmq.simple_consumer import DEFAULT_AWAIT, DEFAULT_INVISIBLE

ClientT = TypeVar("ClientT", bound=Client)


class _Blocking(Generic[ClientT]):
    """Holds an asyncio client and hands calls over to its thread."""

    def __init__(self, client: ClientT) -> None:
        self._client = client

    @property
    def client_id(self) -> str:
        """The name under which the server knows this client."""
        return self._client.client_id

    def start(self) -> Self:
        """Get the routes, shake hands with every server, begin the heartbeats."""
        wait(self._client.start())
        return self

    def close(self) -> None:
        """Finish what is in flight, say goodbye to the servers, close the connections. May be called twice."""
        wait(self._client.close())

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        wait(self._client.__aexit__(kind, error, trace))


class Producer(_Blocking[ternmq.Producer]):
    """Sends messages; see `ternmq.Producer` for the arguments."""

    def __init__(
        self,
        endpoint: str,
        topics: Iterable[str] = (),
        *,
        max_attempts: int = 3,
        delivery_timeout: float = DELIVERY_TIMEOUT_S,
        compress_from_bytes: int | None = None,
        checker: Checker | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(
            ternmq.Producer(
                endpoint,
                topics,
                max_attempts=max_attempts,
                delivery_timeout=delivery_timeout,
                compress_from_bytes=compress_from_bytes,
                checker=checker,
                **options,
            )
        )

    def send(self, message: Message) -> SendReceipt:
        """Send one message; returns when it is stored."""
        return wait(self._client.send(message))

    def send_many(self, messages: Iterable[Message], *, message_ids: Sequence[str] | None = None) -> list[SendReceipt]:
        """Send messages with as few requests as possible; `SendManyError` tells which of them failed."""
        return wait(self._client.send_many(messages, message_ids=message_ids))

    def begin_transaction(self, *, recovery: timedelta | None = None) -> "Transaction":
        """A transaction of one message: delivered when the `with` block is left, dropped when the block fails."""
        return Transaction(self._client.begin_transaction(recovery=recovery))

    def recall(self, receipt: SendReceipt) -> None:
        """Take back a delayed message before its time."""
        wait(self._client.recall(receipt))

    def recall_handle(self, topic: str, handle: str) -> str:
        """Take back a delayed message by the `recall_handle` of its receipt; returns its id."""
        return wait(self._client.recall_handle(topic, handle))


class Transaction:
    """One message whose delivery waits for the producer's own work; `ternmq.Transaction` says what happens when."""

    def __init__(self, transaction: ternmq.Transaction) -> None:
        self._transaction = transaction

    def send(self, message: Message) -> SendReceipt:
        """Store the message of this transaction; nobody receives it before the commit."""
        return wait(self._transaction.send(message))

    def commit(self) -> None:
        """Let the message be delivered."""
        wait(self._transaction.commit())

    def rollback(self) -> None:
        """Drop the message, if there is one."""
        wait(self._transaction.rollback())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        wait(self._transaction.__aexit__(kind, error, trace))


class SimpleConsumer(_Blocking[ternmq.SimpleConsumer]):
    """Receives messages when it is asked to; see `ternmq.SimpleConsumer` for the arguments."""

    def __init__(
        self,
        endpoint: str,
        group: str,
        subscriptions: Subscriptions,
        *,
        await_duration: timedelta = DEFAULT_AWAIT,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(
            ternmq.SimpleConsumer(endpoint, group, subscriptions, await_duration=await_duration, **options)
        )

    def receive(self, max_messages: int = 32, invisible_duration: timedelta = DEFAULT_INVISIBLE) -> list[MessageView]:
        """Up to `max_messages`, hidden from others for `invisible_duration`; `[]` when nothing came in time."""
        return wait(self._client.receive(max_messages, invisible_duration))

    def ack(self, views: MessageView | Iterable[MessageView]) -> None:
        """Settle deliveries for good; `AckError` holds those that the server refused."""
        wait(self._client.ack(views))

    def change_invisible_duration(self, view: MessageView, invisible_duration: timedelta) -> None:
        """Keep a message hidden for longer, or show it again sooner: 0 gives it back at once."""
        wait(self._client.change_invisible_duration(view, invisible_duration))


class PushConsumer(_Blocking[ternmq.PushConsumer]):
    """Calls a listener for every message until it is closed; see `ternmq.PushConsumer` for the arguments."""

    def __init__(
        self,
        endpoint: str,
        group: str,
        subscriptions: Subscriptions,
        listener: Listener,
        *,
        concurrency: int = 20,
        cached_messages_max: int | None = None,
        cached_bytes_max: int = CACHED_BYTES_MAX,
        drain_timeout: float = 30.0,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(
            ternmq.PushConsumer(
                endpoint,
                group,
                subscriptions,
                listener,
                concurrency=concurrency,
                cached_messages_max=cached_messages_max,
                cached_bytes_max=cached_bytes_max,
                drain_timeout=drain_timeout,
                **options,
            )
        )

    def run(self) -> None:
        """Consume until SIGINT or SIGTERM, then close; in the main thread only."""
        with signals() as heard, self:
            heard.wait()


class PullConsumer(_Blocking[ternmq.PullConsumer]):
    """Reads queues by offset; see `ternmq.PullConsumer` for the arguments."""

    def __init__(
        self,
        endpoint: str,
        group: str,
        subscriptions: Subscriptions,
        *,
        start_from: StartFrom = "latest",
        auto_commit: bool = True,
        auto_commit_interval: float = 5.0,
        on_assignment: AssignmentListener | None = None,
        buffered_messages_max: int = BUFFERED_MESSAGES_MAX,
        buffered_bytes_max: int = BUFFERED_BYTES_MAX,
        broadcasting: bool = False,
        offsets_file: str | os.PathLike[str] | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(
            ternmq.PullConsumer(
                endpoint,
                group,
                subscriptions,
                start_from=start_from,
                auto_commit=auto_commit,
                auto_commit_interval=auto_commit_interval,
                on_assignment=_in_thread(on_assignment),
                buffered_messages_max=buffered_messages_max,
                buffered_bytes_max=buffered_bytes_max,
                broadcasting=broadcasting,
                offsets_file=offsets_file,
                **options,
            )
        )

    def poll(self, max_messages: int = 32, timeout: float = 5.0) -> list[MessageView]:
        """Up to `max_messages` as soon as there is one; `[]` when none came within `timeout` seconds."""
        return wait(self._client.poll(max_messages, timeout))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> MessageView:
        """The next message; the iteration ends when the consumer is closed."""
        try:
            return wait(self._client.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def commit(self, view: MessageView | None = None) -> None:
        """Commit all that was handed out, or one queue as far as `view`; an offset is set back only after a seek."""
        wait(self._client.commit(view))

    def committed(self, queue: MessageQueue) -> int | None:
        """Where the group would go on in a queue, assigned or not; None if it never was there."""
        return wait(self._client.committed(queue))

    def position(self, queue: MessageQueue) -> int:
        """The offset that is handed out next, or a later one if the filter leaves that out."""
        return wait(self._client.position(queue))

    def assignment(self) -> list[MessageQueue]:
        """The queues that this consumer has now."""
        return call(self._client.assignment)

    def pause(self, queues: Queues | None = None) -> None:
        """Hand out nothing of these queues, or of all, until `resume`, or until they are given up."""
        call(self._client.pause, queues)

    def resume(self, queues: Queues | None = None) -> None:
        """Go on where `pause` stopped."""
        call(self._client.resume, queues)

    def seek(self, queue: MessageQueue, queue_offset: int) -> None:
        """Go on at an offset; what is buffered of the queue isn't handed out any more."""
        call(self._client.seek, queue, queue_offset)

    def seek_to_beginning(self, queues: Queues | None = None) -> None:
        """Go on at the first message that the server still has, in these queues or in all."""
        wait(self._client.seek_to_beginning(queues))

    def seek_to_end(self, queues: Queues | None = None) -> None:
        """Go on behind the last message, in these queues or in all."""
        wait(self._client.seek_to_end(queues))

    def seek_to_time(self, time: datetime, queues: Queues | None = None) -> None:
        """Go on at the first message that was stored at or after a time, in these queues or in all."""
        wait(self._client.seek_to_time(time, queues))


def _in_thread(listener: AssignmentListener | None) -> AssignmentListener | None:
    """A plain function may block, and may call the consumer."""
    if listener is None or inspect.iscoroutinefunction(listener):
        return listener

    async def listen(assigned: list[MessageQueue], revoked: list[MessageQueue]) -> None:
        await asyncio.to_thread(listener, assigned, revoked)

    return listen
