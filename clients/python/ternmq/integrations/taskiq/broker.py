"""A broker for taskiq on two topics of TernMQ.

Topics      `topic` for tasks that run at once, NORMAL or, with `priorities`, PRIORITY; `topic-delayed` of type DELAY
            for tasks with a label `delay`. Both are created at the start if they are missing, and so is the group,
            which begins with the first task
Workers     are the members of a group: each task goes to one of them
Acks        when taskiq acknowledges, by default when the result is saved. Until then the message stays hidden, however
            long the task takes; when its worker dies it is delivered to another one after about a minute
Failures    a task that raised is acknowledged too, as taskiq wants it: repeat it by taskiq's middlewares for that,
            whose delays are kept by the server. Or label it `ack_type="manual"` and acknowledge only what succeeded:
            the rest is delivered again with the group's backoff, and at last becomes a dead letter
"""

import asyncio
import math
from collections.abc import AsyncGenerator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Unpack

from taskiq import AckableMessage, AsyncBroker, BrokerMessage

from ternmq.consuming.push_consumer import PushConsumer
from ternmq.integrations.declarations import declare_objects
from ternmq.integrations.taskiq.task_deliveries import ExecutionWatch, TaskDeliveries
from ternmq.messages.message import Message
from ternmq.options import ClientOptions
from ternmq.producing.producer import Producer

if TYPE_CHECKING:
    from ternmq.admin.requests.words import TopicType

DELAYED_SUFFIX = "-delayed"
# As many as a worker runs at a time by default (`--max-async-tasks`).
CONCURRENCY = 100
DRAIN_TIMEOUT_S = 10.0
TASK_NAME = "task_name"


class TernmqBroker(AsyncBroker):
    """Sends tasks to the server at `endpoint`, and receives them from it.

    `group` is shared by the workers; a second group gets all tasks once more. `concurrency` is how many tasks a worker
    process has at a time, running or waiting for their turn: not more than its `--max-async-tasks`, or it keeps tasks
    from others. `priorities` makes the topic one of type PRIORITY: the label `priority`, from 0 on, says which of the
    waiting tasks come first; delayed ones have none. The other arguments are those of `ternmq.options.ClientOptions`.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        topic: str = "taskiq",
        group: str = "taskiq",
        priorities: bool = False,
        concurrency: int = CONCURRENCY,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__()
        self._endpoint = endpoint
        self._topic = topic
        self._group = group
        self._priorities = priorities
        self._concurrency = concurrency
        self._options = options
        self._producer: Producer | None = None
        self._consumer: PushConsumer | None = None
        self._deliveries = TaskDeliveries()
        self.add_middlewares(ExecutionWatch(self._deliveries))

    @property
    def delayed_topic(self) -> str:
        """The topic where tasks wait for their time."""
        return self._topic + DELAYED_SUFFIX

    async def startup(self) -> None:
        """Create what is missing on the server and connect; a worker begins to receive when taskiq listens."""
        kinds: dict[str, TopicType] = {
            self._topic: "priority" if self._priorities else "normal",
            self.delayed_topic: "delay",
        }
        await declare_objects(self._endpoint, kinds, {self._group: "earliest"}, options=self._options)
        self._producer = await Producer(self._endpoint, topics=kinds, **self._options).start()
        await super().startup()

    async def shutdown(self) -> None:
        """Give back what was not started, send the last acknowledgements, and disconnect."""
        await super().shutdown()
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            closing = asyncio.ensure_future(consumer.close())
            await asyncio.sleep(0)  # the consumer takes no new messages from here on
            self._deliveries.close()
            await closing
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.close()

    async def kick(self, message: BrokerMessage) -> None:
        """Send one task; ValueError for invalid labels, `ternmq.ClientError` if it could not be stored."""
        if self._producer is None:
            raise RuntimeError("the broker was not started: await broker.startup()")
        delay = _read_delay(message.labels)
        priority = self._read_priority(message.labels) if delay is None else None
        await self._producer.send(
            Message(
                self._topic if delay is None else self.delayed_topic,
                message.message,
                keys=(message.task_id,),
                properties={TASK_NAME: message.task_name},
                delay=delay,
                priority=priority,
            )
        )

    async def listen(self) -> AsyncGenerator[AckableMessage, None]:
        """Yield tasks as they arrive."""
        topics = {self._topic: "*", self.delayed_topic: "*"}
        self._consumer = PushConsumer(
            self._endpoint,
            self._group,
            topics,
            self._deliveries.consume_message,
            concurrency=self._concurrency,
            drain_timeout=DRAIN_TIMEOUT_S,
            **self._options,
        )
        await self._consumer.start()
        while True:
            yield await self._deliveries.next_message()

    def _read_priority(self, labels: Mapping[str, object]) -> int | None:
        label = labels.get("priority")
        if not self._priorities:
            if label is not None:
                raise ValueError("a label 'priority' needs TernmqBroker(..., priorities=True), on a topic of its own")
            return None
        return int(str(label)) if label is not None else 0


def _read_delay(labels: Mapping[str, object]) -> timedelta | None:
    label = labels.get("delay")
    if label is None:
        return None
    seconds = float(str(label))
    if not math.isfinite(seconds):
        raise ValueError(f"delay={label!r} is no number of seconds")
    return timedelta(seconds=seconds)
