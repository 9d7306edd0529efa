"""The same clients without `async`: one background thread runs them on an event loop.

    from ternmq.blocking import Producer

    with Producer("127.0.0.1:8081", topics=["orders"]) as producer:
        producer.send(Message("orders", b"..."))

Names and arguments are those of `ternmq`. Calls may come from any thread. The thread starts with the first client and
is shared by all of the process; it doesn't keep a process from ending. A plain listener of a `PushConsumer` runs in
threads of its own, so it may block and may use these clients.
"""

import asyncio
import functools
import threading
from collections.abc import Coroutine, Iterable
from datetime import timedelta
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack

import ternmq
from ternmq.client import Client
from ternmq.errors import NotRunning
from ternmq.filters import Subscriptions
from ternmq.listening import Listener
from ternmq.message import Message, SendReceipt
from ternmq.message_view import MessageView
from ternmq.options import ClientOptions
from ternmq.push_consumer import CACHED_BYTES_MAX, CACHED_MESSAGES_MAX
from ternmq.simple_consumer import DEFAULT_AWAIT, DEFAULT_INVISIBLE

ResultT = TypeVar("ResultT")
ClientT = TypeVar("ClientT", bound=Client)
THREAD_NAME = "ternmq-blocking"


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
        _wait(self._client.start())
        return self

    def close(self) -> None:
        """Finish what is in flight, say goodbye to the servers, close the connections. May be called twice."""
        _wait(self._client.close())

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Producer(_Blocking[ternmq.Producer]):
    """Sends messages; see `ternmq.Producer` for the arguments."""

    def __init__(
        self,
        endpoint: str,
        topics: Iterable[str] = (),
        *,
        max_attempts: int = 3,
        compress_from_bytes: int | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(
            ternmq.Producer(
                endpoint, topics, max_attempts=max_attempts, compress_from_bytes=compress_from_bytes, **options
            )
        )

    def send(self, message: Message) -> SendReceipt:
        """Send one message; returns when it is stored."""
        return _wait(self._client.send(message))

    def send_many(self, messages: Iterable[Message]) -> list[SendReceipt]:
        """Send messages with as few requests as possible; `SendManyError` tells which of them failed."""
        return _wait(self._client.send_many(messages))

    def recall(self, receipt: SendReceipt) -> None:
        """Take back a delayed message before its time."""
        _wait(self._client.recall(receipt))


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
        return _wait(self._client.receive(max_messages, invisible_duration))

    def ack(self, views: MessageView | Iterable[MessageView]) -> None:
        """Settle deliveries for good; `AckError` holds those that the server refused."""
        _wait(self._client.ack(views))

    def change_invisible_duration(self, view: MessageView, invisible_duration: timedelta) -> None:
        """Keep a message hidden for longer, or show it again sooner: 0 gives it back at once."""
        _wait(self._client.change_invisible_duration(view, invisible_duration))


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
        cached_messages_max: int = CACHED_MESSAGES_MAX,
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


def _wait(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run `work` on the background loop and wait; an interrupt of the caller cancels it."""
    loop = _background_loop()
    if threading.current_thread().name == THREAD_NAME:
        work.close()
        raise NotRunning("a blocking client was called on its own event loop; use the asyncio client there")
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


@functools.cache
def _background_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name=THREAD_NAME, daemon=True).start()
    return loop
