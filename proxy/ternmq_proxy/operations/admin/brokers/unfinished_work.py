"""The work that would be lost with a broker, as far as a group wants it.

A broker knows the groups that have received from it. A group that consumes a topic elsewhere, and has not come to
this broker yet, wants what is here as well, from where it would begin.
"""

from typing import TYPE_CHECKING

from ternmq_common.catalog.cluster import GroupBacklog, UnfinishedWork

if TYPE_CHECKING:
    from ternmq_proxy.services import Services


async def find_unfinished_work(broker: str, services: "Services") -> UnfinishedWork:
    """Return what the broker says, with what it has for groups that it does not know."""
    known = await services.messages.inspecting.remaining(broker)
    backlogs = {(backlog.group, backlog.topic): backlog.messages for backlog in known.backlogs}
    for group in services.catalog.list_groups():
        counted: dict[tuple[str, str], int] = {}
        for row in await services.messages.inspecting.progress(
            group.name, services.subscriptions.subscribed_topics(group.name)
        ):
            if row.queue.broker == broker:
                place = group.name, row.queue.topic
                counted[place] = counted.get(place, 0) + row.max_offset - row.cursor + row.in_flight
        backlogs.update(counted)
    listed = [
        GroupBacklog(group, topic, messages) for (group, topic), messages in sorted(backlogs.items()) if messages > 0
    ]
    return UnfinishedWork(listed, known.timers, known.transactions)
