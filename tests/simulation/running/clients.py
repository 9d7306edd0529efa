"""A proxy with its clients: producers and consumers that account for all in the ledger."""

import asyncio
from typing import TYPE_CHECKING

from ternmq_common.errors import MessagingError
from ternmq_common.model import NewMessage, PopOrder, QueueRef
from ternmq_common.tag_filter import ALL, tag_hash
from ternmq_protos.v2 import definition_pb2
from ternmq_proxy.message_service.cluster.calls import BrokerUnavailable
from ternmq_proxy.message_service.cluster.service import ClusterMessageService
from ternmq_registry.directory import Directory
from tests.simulation.running.ledger import Sent
from tests.simulation.running.world import SHARD

if TYPE_CHECKING:
    from ternmq_common.model import Delivery, QueueProgress
    from tests.simulation.running.checks import Checks
    from tests.simulation.running.ledger import Ledger
    from tests.simulation.running.plan import Plan
    from tests.simulation.running.registry import SimulatedRegistry
    from tests.simulation.running.world import World

_INVISIBLE_MS = 3000
_POLL_S = 2.0
_AFTER_ERROR_S = 0.1
_LOOK_S = 0.4
QUEUES = 2
NORMAL, FIFO = "orders", "steps"
GROUPS = {"readers": NORMAL, "walkers": FIFO}
_MESSAGE_GROUPS = ("a", "b", "c")


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
        self._number = 0
        self.sends = True
        self.unfinished: dict[str, str | None] = {}
        """What each group has still to do, as far as that is known; None if it has finished everything."""

    def start(self) -> None:
        self.process.begin(self._run(), "clients")

    async def _run(self) -> None:
        try:
            await self._serve()
        except Exception as error:  # noqa: BLE001 - what nobody foresaw is what is looked for
            self._world.violated(f"clients: {type(error).__name__}: {error}")
            raise

    async def _serve(self) -> None:
        registry = self._registry.reached_by(self.process)
        directory = Directory(registry, seconds=self._world.loop.time)
        await directory.start(60.0)
        self._service = ClusterMessageService(directory, proxy="proxy", seconds=self._world.loop.time)
        self._service.start()
        producers = [self._produce(NORMAL, queue_id) for queue_id in range(QUEUES)]
        producers += [self._produce(FIFO, queue_id, group) for queue_id, group in enumerate(_MESSAGE_GROUPS)]
        consumers = [self._consume(name) for name in GROUPS for _ in range(2)]
        await asyncio.gather(*producers, *consumers, self._look())

    # --- producers

    async def _produce(self, topic: str, queue_id: int, message_group: str = "") -> None:
        dice = self._world.dice
        while True:
            await asyncio.sleep(dice.expovariate(1 / self._plan.send_s))
            if self.sends:
                await self._send(topic, queue_id % QUEUES, message_group)

    async def _send(self, topic: str, queue_id: int, message_group: str) -> None:
        ledger, message = self._ledger, self._new(topic, queue_id, message_group)
        self._world.note(f"sends {message.message_id}")
        ledger.is_sent(message)
        try:
            [stored] = await self._service.append(QueueRef(topic, SHARD, queue_id), [_stored_form(message)])
        except BrokerUnavailable as error:
            self._world.note(f"{message.message_id}: {error.message}")
            if not error.maybe_done:
                ledger.was_refused(message)
            await asyncio.sleep(_AFTER_ERROR_S)
        except MessagingError as error:
            self._world.note(f"{message.message_id}: {error.message}")
            await asyncio.sleep(_AFTER_ERROR_S)
        else:
            ledger.was_acknowledged(message, stored.queue_offset)
            self._checks.held_by_all(message.message_id, "was acknowledged")

    def _new(self, topic: str, queue_id: int, message_group: str) -> Sent:
        self._number += 1
        return Sent(f"message-{self._number:06d}!", (topic, queue_id), message_group)

    # --- consumers

    async def _consume(self, group: str) -> None:
        dice = self._world.dice
        order = PopOrder(
            group=group, topic=GROUPS[group], queues=range(QUEUES), filter=ALL, batch=8, invisible_ms=_INVISIBLE_MS
        )
        while True:
            try:
                deliveries = await self._service.pop(order, broker="", poll_s=_POLL_S)
                if deliveries:
                    self._had(group, deliveries)
                    await asyncio.sleep(dice.uniform(0, 0.05))
                    await self._settle(group, deliveries)
            except MessagingError as error:
                self._world.note(f"{group}: {error.message}")
                await asyncio.sleep(_AFTER_ERROR_S)

    def _had(self, group: str, deliveries: "list[Delivery]") -> None:
        ids = []
        for delivery in deliveries:
            message_id = definition_pb2.SystemProperties.FromString(delivery.message.system).message_id
            ids.append(message_id)
            is_copy = delivery.message.queue.topic != GROUPS[group]
            self._ledger.was_delivered(group, message_id, None if is_copy else delivery.message.queue_offset)
            self._checks.held_by_all(message_id, f"came to {group}")
        if GROUPS[group] == FIFO:
            self._ledger.check_order(group, ids)

    async def _settle(self, group: str, deliveries: "list[Delivery]") -> None:
        ids = [definition_pb2.SystemProperties.FromString(each.message.system).message_id for each in deliveries]
        self._ledger.begins_to_settle(group, ids)
        await self._service.acknowledge(group, GROUPS[group], [each.handle for each in deliveries])

    # --- an operator

    async def _look(self) -> None:
        """Look at the progress of all groups, again and again."""
        while True:
            await asyncio.sleep(_LOOK_S)
            for group in GROUPS:
                try:
                    rows = await self._service.progress(group, [GROUPS[group]])
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


def _stored_form(message: Sent) -> NewMessage:
    group = message.message_group or None
    properties = definition_pb2.SystemProperties(message_id=message.message_id, message_group=group)
    rest = definition_pb2.Message(topic={"name": message.queue[0]}, body=b"body").SerializeToString()
    return NewMessage(tag_hash(""), properties.SerializeToString(), rest, (message.message_id,))
