"""A proxy with its clients: what they send (`producers`), receive and acknowledge goes into the ledger."""

import asyncio
from typing import TYPE_CHECKING

from ternmq_common.errors import MessagingError
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.shard.model import LiteAction, LiteSync, PopOrder, group_by_settled_topic
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.cluster.service import ClusterMessageService
from ternmq_registry.directory import RegistryDirectory
from tests.simulation.running.producers import Producers
from tests.simulation.running.topics import FIFO, GROUPS, LITE, LITE_NAMES, QUEUES

if TYPE_CHECKING:
    from ternmq_common.shard.model import DeliveredMessage, QueueProgress
    from tests.simulation.running.checks import Checks
    from tests.simulation.running.ledger import Ledger
    from tests.simulation.running.plan import Plan
    from tests.simulation.running.registry import SimulatedRegistry
    from tests.simulation.running.world import World

_INVISIBLE_MS = 3000
_POLL_S = 2.0
_AFTER_ERROR_S = 0.1
_LOOK_S = 0.4


class Clients:
    """All of them, behind one proxy that nothing happens to."""

    def __init__(
        self, world: "World", registry: "SimulatedRegistry", plan: "Plan", ledger: "Ledger", checks: "Checks"
    ) -> None:
        self._world = world
        self._registry = registry
        self._plan = plan
        self._ledger = ledger
        self._checks = checks
        self.process = world.begin("proxy")
        self._service: ClusterMessageService
        self.sends = True
        self.unfinished: dict[str, str | None] = {}
        """What each group has still to do, as far as that is known; None if it has finished everything."""

    def start(self) -> None:
        self.process.begin(self._run(), "clients")

    async def _run(self) -> None:
        try:
            await self._serve()
        except Exception as error:
            self._world.violated(f"clients: {type(error).__name__}: {error}")
            raise

    async def _serve(self) -> None:
        registry = self._registry.reached_by(self.process)
        directory = RegistryDirectory(registry, seconds=self._world.loop.time)
        await directory.start(60.0)
        self._service = ClusterMessageService(directory, proxy="proxy", seconds=self._world.loop.time)
        self._service.start()
        producers = Producers(
            self._world, self._plan, self._ledger, self._checks, self._service, may_send=lambda: self.sends
        )
        consumers = [self._consume(name, number) for name in GROUPS for number in range(2)]
        await asyncio.gather(*producers.all(), *consumers, self._look())

    # --- consumers

    async def _consume(self, group: str, number: int) -> None:
        dice, topic = self._world.dice, GROUPS[group]
        client = f"client-{number}" if topic == LITE else ""
        order = PopOrder(
            group=group,
            topic=topic,
            queues=range(1 if client else QUEUES),
            filter=ALL,
            batch=8,
            invisible_ms=_INVISIBLE_MS,
            lite_client=client,
        )
        is_subscribed = not client
        while True:
            try:
                if not is_subscribed:
                    names = tuple(LITE_NAMES[number::2])
                    await self._service.consuming.sync_lite(
                        LiteSync(group, topic, client, LiteAction.COMPLETE_ADD, names)
                    )
                    is_subscribed = True
                deliveries = await self._service.consuming.pop(order, broker="", poll_s=_POLL_S)
                if deliveries:
                    self._had(group, deliveries)
                    await asyncio.sleep(dice.uniform(0, 0.05))
                    await self._settle(group, deliveries)
            except MessagingError as error:
                self._world.note(f"{group}: {error.message}")
                await asyncio.sleep(_AFTER_ERROR_S)

    def _had(self, group: str, deliveries: "list[DeliveredMessage]") -> None:
        ids = []
        for delivery in deliveries:
            message_id = definition_pb2.SystemProperties.FromString(delivery.message.system).message_id
            ids.append(message_id)
            sent = self._ledger.sent.get(message_id)
            is_copy = sent is not None and delivery.message.queue.topic != sent.queue[0]
            self._ledger.was_delivered(group, message_id, None if is_copy else delivery.message.queue_offset)
            self._checks.held_by_all(message_id, f"came to {group}")
        if GROUPS[group] == FIFO:
            self._ledger.check_order(group, ids)

    async def _settle(self, group: str, deliveries: "list[DeliveredMessage]") -> None:
        ids = [definition_pb2.SystemProperties.FromString(each.message.system).message_id for each in deliveries]
        self._ledger.begins_to_settle(group, ids)
        for topic, some in group_by_settled_topic(GROUPS[group], deliveries).items():
            await self._service.consuming.acknowledge(group, topic, [each.handle for each in some])

    # --- an operator

    async def _look(self) -> None:
        """Look at the progress of all groups, again and again."""
        while True:
            await asyncio.sleep(_LOOK_S)
            for group, topic in GROUPS.items():
                if topic == LITE:
                    continue  # the group's place in each of its queues is not shown
                try:
                    rows = await self._service.inspecting.progress(group, [topic])
                except MessagingError:
                    rows = []
                self.unfinished[group] = _unfinished(rows)
                for row in rows:
                    self._ledger.check_progress(group, (row.queue.topic, row.queue.queue_id), row.committed)


def _unfinished(rows: "list[QueueProgress]") -> str | None:
    if not rows:
        return "its progress is not known"
    for row in rows:
        if row.committed < row.max_offset or row.in_flight:
            return f"it is at {row.committed} of {row.max_offset} in {row.queue}, {row.in_flight} are in flight"
    return None
