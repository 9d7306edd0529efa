"""The push consumer of lite topics: keeps messages coming and calls a listener for each.

Ordered     one message of a lite topic at a time, in order; different lite topics at the same time. Failures are
            repeated like those of message groups by a `PushConsumer`
Left        messages of a lite topic that is not subscribed any more go back, unless they were started, to be delivered
            to others
Suspended   a listener that raises `Suspend` suspends its lite topic: its message, and the others of the lite topic that
            are here, go back to the server, which counts no attempt and delivers them again later
"""

from collections.abc import Hashable, Iterable
from typing import Unpack

from ternmq.connections.connection import GrpcConnection
from ternmq.consuming.listener_calls import Listener
from ternmq.consuming.push_consumer import CACHED_BYTES_MAX, PushConsumer
from ternmq.lite.lite_consumer import LiteConsumer
from ternmq.messages.message_view import MessageView
from ternmq.options import ClientOptions
from ternmq.times.durations import Seconds
from ternmq_protos.v2 import definition_pb2 as pb


class LitePushConsumer(LiteConsumer, PushConsumer):
    """Calls `listener` for every message of the lite topics that are subscribed.

        async def listener(view: MessageView) -> None:
            print(view.lite_topic, view.body)

        async with LitePushConsumer("127.0.0.1:8081", group="agents", topic="chats", listener=listener) as consumer:
            await consumer.subscribe_lite("chat-17")
            await asyncio.Event().wait()

    `topic` is the one of type LITE to which the group is bound; `lite_topics` are subscribed at the start. The listener
    ends as that of a `PushConsumer`; it can also raise `Suspend(timedelta(minutes=1))`, and no message of the lite
    topic comes for a minute. The other arguments are those of `PushConsumer`; by default messages of about three times
    `concurrency` lite topics are here at most.
    """

    client_type = pb.LITE_PUSH_CONSUMER
    _suspends = True

    def __init__(
        self,
        endpoint: str,
        group: str,
        topic: str,
        listener: Listener,
        *,
        lite_topics: Iterable[str] = (),
        concurrency: int = 20,
        cached_messages_max: int | None = None,
        cached_bytes_max: int = CACHED_BYTES_MAX,
        drain_timeout: Seconds = 30.0,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(
            endpoint,
            group,
            {topic: "*"},
            listener,
            concurrency=concurrency,
            cached_messages_max=cached_messages_max,
            cached_bytes_max=cached_bytes_max,
            drain_timeout=drain_timeout,
            **options,
        )
        self._init_subscription(topic, lite_topics)

    def _apply_settings(self, connection: GrpcConnection, settings: pb.Settings) -> None:
        super()._apply_settings(connection, settings)
        self._fifo = True  # the group's setting is about topics with message groups

    def _lane_of(self, view: MessageView) -> Hashable | None:
        return view.topic, view.lite_topic

    async def _lite_topic_left(self, name: str) -> None:
        """Give back what was not started: else the whole lite topic would wait for a message that fails here for
        hours."""
        if self._consumption is not None:
            await self._giving_back.return_all(self._consumption.abandon_lane((self.topic, name)))
