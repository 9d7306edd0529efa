"""What would be lost with a broker, as far as anybody wants it.

A broker knows the groups that have asked it for messages. A group that consumes a topic elsewhere, and has not come to
this broker yet, wants what is here as well.
"""

from collections import defaultdict
from typing import TYPE_CHECKING

from ternmq_common.cluster import Backlog, Remaining
from ternmq_common.model import QueueRef

if TYPE_CHECKING:
    from ternmq_proxy.services import Services


async def remaining_on(broker: str, services: "Services") -> Remaining:
    """What the broker says, and what it has for groups that it does not know."""
    known = await services.messages.remaining(broker)
    backlogs = {(backlog.group, backlog.topic): backlog.messages for backlog in known.backlogs}
    for group in services.catalog.groups():
        for topic, queues in (await _untouched(broker, group.name, services)).items():
            messages = 0
            for queue in queues:
                bounds = await services.messages.bounds(queue)
                messages += bounds.maximum - bounds.minimum
            if messages:
                backlogs[group.name, topic] = backlogs.get((group.name, topic), 0) + messages
    listed = [Backlog(group, topic, messages) for (group, topic), messages in sorted(backlogs.items())]
    return Remaining(listed, known.timers, known.transactions)


async def _untouched(broker: str, group: str, services: "Services") -> dict[str, list[QueueRef]]:
    """The broker's queues of topics that the group consumes, in which it has never been; by topic."""
    topics = {topic.name: topic for topic in services.catalog.topics() if broker in topic.brokers}
    touched: defaultdict[str, set[QueueRef]] = defaultdict(set)
    for row in await services.messages.progress(group):
        touched[row.queue.topic].add(row.queue)
    return {
        name: [queue for number in range(topics[name].queues) if (queue := QueueRef(name, broker, number)) not in seen]
        for name, seen in touched.items()
        if name in topics
    }
