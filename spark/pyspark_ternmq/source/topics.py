"""Which topics are read, and which queues they have now."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pyspark_ternmq.options import OptionReader, WrongOption
from ternmq import NotFound, Unsupported
from ternmq.offset_reader import OffsetReader
from ternmq.route import Queue
from ternmq_common.errors import MessagingError
from ternmq_common.names import checked_topic, group_of_derived, is_system_topic
from ternmq_protos.v2 import definition_pb2 as pb

# A broker's queue, as offsets name it: `broker/queue id`.
QueueName = str


@dataclass(frozen=True, slots=True)
class Subscription:
    """Topics by name, or those whose whole name a pattern fits."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None

    def queues(self, reader: OffsetReader) -> dict[str, dict[QueueName, Queue]]:
        """The queues of each topic, by name; `NotFound` for a topic that isn't there."""
        return {topic: named(reader.queues(topic)) for topic in self._topics(reader)}

    def check(self, reader: OffsetReader) -> None:
        """`NotFound` for a topic that isn't there. Its route must not be asked for before: servers make missing topics
        for those who want to send to them."""
        if self.pattern is not None:
            return
        try:
            known = set(reader.topics())
        except Unsupported:
            return  # no TernMQ; it says itself what it thinks of the topic
        for topic in self.topics:
            if topic not in known and group_of_derived(topic) is None:
                raise NotFound(pb.TOPIC_NOT_FOUND, f"there is no topic {topic!r}")

    def _topics(self, reader: OffsetReader) -> Iterable[str]:
        if self.pattern is None:
            return self.topics
        fits = re.compile(self.pattern).fullmatch
        topics = [topic for topic in reader.topics() if fits(topic) and not is_system_topic(topic)]
        if not topics:
            raise NotFound(pb.TOPIC_NOT_FOUND, f"no topic fits the pattern {self.pattern!r}")
        return topics


def named(queues: Iterable[Queue]) -> dict[QueueName, Queue]:
    return {queue_name(queue): queue for queue in queues}


def queue_name(queue: Queue) -> QueueName:
    return f"{queue.broker}/{queue.queue_id}"


def subscription_of(reader: OptionReader) -> Subscription:
    """What `subscribe`, `subscribePattern` or `load("topic")` say; exactly one of them does."""
    told = {name: value for name in ("subscribe", "subscribePattern", "path") if (value := reader.text(name))}
    if len(told) != 1:
        raise WrongOption(
            'say which topics to read, in one way: option subscribe ("orders,payments"), option subscribePattern '
            f'("orders-.*") or load("orders"){"; there are " + " and ".join(told) if told else ""}'
        )
    [(name, value)] = told.items()
    if name == "subscribePattern":
        try:
            re.compile(value)
        except re.error as error:
            raise WrongOption(f"option subscribePattern={value!r} is no pattern: {error}") from None
        return Subscription(pattern=value)
    topics = tuple(dict.fromkeys(topic.strip() for topic in value.split(",") if topic.strip()))
    for topic in topics:
        try:
            checked_topic(topic)
        except MessagingError as error:
            raise WrongOption(f"option {name}: {error.message}") from None
    return Subscription(topics)
