"""The simple consumer of lite topics: the user receives messages, and settles each delivery.

A receive may return messages of several lite topics, those of each in order. While some of a lite topic aren't settled,
no client of the group gets more of it.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Unpack

from ternmq.consuming.simple_consumer import DEFAULT_AWAIT, SimpleConsumer
from ternmq.lite.lite_consumer import LiteConsumer
from ternmq.options import ClientOptions
from ternmq_protos.v2 import definition_pb2 as pb


class LiteSimpleConsumer(LiteConsumer, SimpleConsumer):
    """Receives messages of lite topics on request.

        async with LiteSimpleConsumer("127.0.0.1:8081", group="agents", topic="chats") as consumer:
            await consumer.subscribe_lite("chat-17")
            for view in await consumer.receive():
                print(view.lite_topic, view.body)
                await view.ack()

    `topic` is the one of type LITE to which the group is bound; `lite_topics` are subscribed at the start.
    `await_duration` is how long the server waits for a first message. The other arguments are those of
    `ternmq.options.ClientOptions`.
    """

    client_type = pb.LITE_SIMPLE_CONSUMER

    def __init__(
        self,
        endpoint: str,
        group: str,
        topic: str,
        *,
        lite_topics: Iterable[str] = (),
        await_duration: timedelta = DEFAULT_AWAIT,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(endpoint, group, {topic: "*"}, await_duration=await_duration, **options)
        self._init_subscription(topic, lite_topics)
