"""The topics of a read, their identities, and their queues now."""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from pyspark_ternmq.options import OptionReader, WrongOption
from pyspark_ternmq.source.offsets.places import Identities, QueuesByTopic, whole_name
from ternmq import NotFound, Unsupported
from ternmq.connections.route import RouteQueue
from ternmq.pull.offset_reader import OffsetReader
from ternmq_common.errors import MessagingError
from ternmq_common.names import check_topic_name, group_of_derived, is_system_topic
from ternmq_protos.v2 import definition_pb2 as pb


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """Topics by name, or those whose whole name a pattern fits."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: Mapping[str, tuple[str, ...]] | None = None
    """The queues that are read of each topic, by their names or numbers; None: all."""

    def __str__(self) -> str:
        """Return the text in Spark's progress."""
        if self.pattern is not None:
            return f"topics like {self.pattern}"
        parts = [
            topic if self.assigned is None else f"{topic} ({' '.join(self.assigned[topic])})" for topic in self.topics
        ]
        return f"topic{'s' if len(parts) > 1 else ''} {', '.join(parts)}"

    def find_queues(self, reader: OffsetReader, topics: Iterable[str], *, strict: bool) -> QueuesByTopic:
        """Return the queues to read of these topics. `strict`: raises WrongOption if an assigned one is not there; else
        its broker may be away."""
        found = queues_of(reader, topics)
        if self.assigned is None:
            return found
        chosen: dict[str, dict[str, RouteQueue]] = {}
        for topic, queues in found.items():
            names = [whole_name(name, queues) for name in self.assigned.get(topic, queues)]
            missing = [name for name in names if name not in queues]
            if missing and strict:
                raise WrongOption(
                    f"option assign: topic {topic} has no queue {', '.join(missing)}; there are "
                    f"{', '.join(sorted(queues))}"
                )
            chosen[topic] = {name: queues[name] for name in names if name in queues}
        return chosen

    def has_topic(self, topic: str) -> bool:
        """Whether a topic of this name belongs to it."""
        if self.pattern is None:
            return topic in self.topics
        return re.fullmatch(self.pattern, topic) is not None and not is_system_topic(topic)

    def find_identities(self, reader: OffsetReader) -> Identities:
        """Return the identities of the topics to read; "" where the server has none. Raises `NotFound` if one does not
        exist. Do not query routes before: servers return routes of topics that do not exist yet, too."""
        found = self.existing_identities(reader)
        self.check_existing(found)
        return found

    def existing_identities(self, reader: OffsetReader) -> Identities:
        """The same without an error for topics that aren't there."""
        if self.pattern is not None:
            return {topic: identity for topic, identity in reader.topics().items() if self.has_topic(topic)}
        try:
            found = reader.topics(self.topics)
        except Unsupported:
            return dict.fromkeys(self.topics, "")  # no TernMQ; it says itself what it thinks of the topics
        # Servers that know no names tell of no group's topics.
        found |= {topic: "" for topic in self.topics if group_of_derived(topic) is not None and topic not in found}
        return {topic: found[topic] for topic in self.topics if topic in found}

    def check_existing(self, identities: Identities, *, may_be_gone: Collection[str] = ()) -> None:
        """`NotFound` if a topic isn't there that is to be read, unless it is one of these."""
        if self.pattern is not None:
            if not identities and not any(map(self.has_topic, may_be_gone)):
                raise NotFound(pb.TOPIC_NOT_FOUND, f"no topic fits the pattern {self.pattern!r}")
            return
        for topic in self.topics:
            if topic not in identities and topic not in may_be_gone:
                raise NotFound(pb.TOPIC_NOT_FOUND, f"there is no topic {topic!r}")


def queues_of(reader: OffsetReader, topics: Iterable[str]) -> QueuesByTopic:
    """The queues of each topic, by name."""
    return {topic: queues_by_name(reader.queues(topic)) for topic in topics}


def queues_by_name(queues: Iterable[RouteQueue]) -> dict[str, RouteQueue]:
    return {queue_name(queue): queue for queue in queues}


def queue_name(queue: RouteQueue) -> str:
    """Return the name of a queue in offsets."""
    return f"{queue.broker}/{queue.queue_id}"


def subscription_of(reader: OptionReader) -> TopicSelection:
    """Parse the subscription: exactly one of `subscribe`, `subscribePattern`, `assign` and `load("topic")`."""
    given = {
        name: value for name in ("subscribe", "subscribePattern", "assign", "path") if (value := reader.read_text(name))
    }
    if len(given) != 1:
        raise WrongOption(
            'say which topics to read, in one way: option subscribe ("orders,payments"), option subscribePattern '
            '("orders-.*"), option assign ({"orders": ["broker-0/0"]}) or load("orders")'
            f"{'; there are ' + ' and '.join(given) if given else ''}"
        )
    [(name, value)] = given.items()
    if name == "subscribePattern":
        try:
            re.compile(value)
        except re.error as error:
            raise WrongOption(f"option subscribePattern={value!r} is no pattern: {error}") from None
        return TopicSelection(pattern=value)
    if name == "assign":
        assigned = _parsed_assignment(value)
        return TopicSelection(_checked_topics(name, assigned), assigned=assigned)
    return TopicSelection(
        _checked_topics(name, dict.fromkeys(topic.strip() for topic in value.split(",") if topic.strip()))
    )


def _checked_topics(option: str, topics: Iterable[str]) -> tuple[str, ...]:
    for topic in topics:
        try:
            check_topic_name(topic)
        except MessagingError as error:
            raise WrongOption(f"option {option}: {error.message}") from None
    return tuple(topics)


def _parsed_assignment(text: str) -> dict[str, tuple[str, ...]]:
    """`{"orders": ["broker-0/0", 1]}`; of a topic on one broker numbers will do, as with Kafka's partitions."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WrongOption(f"option assign is no JSON: {error}") from None
    if not isinstance(content, dict) or not content:
        raise WrongOption('option assign is not an object of topics and queues, such as {"orders": ["broker-0/0"]}')
    assigned: dict[str, tuple[str, ...]] = {}
    for topic, names in content.items():
        if not isinstance(names, list) or not names or not all(type(name) in (str, int) for name in names):
            raise WrongOption(f"option assign: the value of topic {topic} is not a list of queues")
        assigned[topic] = tuple(dict.fromkeys(str(name) for name in names))
    return assigned
