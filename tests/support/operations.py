"""The services of an embedded stack without a front, for tests that call operations with plain values."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.clock import MovableClock
from ternmq_common.filters.tag_filter import TagFilter
from ternmq_common.filters.tag_hash import tag_hash
from ternmq_common.names import check_group_name
from ternmq_common.server_settings import FlushMode
from ternmq_common.shard.model import ConsumerGroup, NewMessage, PopOrder, QueueRef, StoredMessage, Topic
from ternmq_common.wire import encode_field
from ternmq_proxy.server.main import open_storage
from ternmq_proxy.server.serving import make_services
from ternmq_proxy.services import Services
from tests.support.embedded import local_settings

if TYPE_CHECKING:
    from ternmq_proxy.catalog.catalog import Catalog
    from ternmq_proxy.message_service.interface import MessageService

BROKER = "broker-0"
INVISIBLE_MS = 60_000
_BODY_TAG = b"\x22"  # Message.body = 4
_TAG_TAG = b"\x0a"  # SystemProperties.tag = 1


class Stack:
    """Services over a broker in a folder, and what tests do with messages beside the operations."""

    def __init__(self, services: Services, clock: MovableClock) -> None:
        self.services = services
        self.clock = clock
        self.messages: MessageService = services.messages
        self.catalog: Catalog = services.catalog

    async def create_topic(self, name: str, *, queues: int = 1, kind: MessageType = MessageType.NORMAL) -> None:
        await self.catalog.create_topic(Topic(name=name, type=kind, queues=queues))

    async def create_group(self, group: ConsumerGroup) -> None:
        await self.catalog.create_group(group)

    async def store(self, topic: str, *bodies: bytes, queue_id: int = 0, tag: str = "") -> None:
        """Store messages with these bodies in a queue of the topic."""
        system = encode_field(_TAG_TAG, tag.encode()) if tag else b""
        messages = [NewMessage(tag_hash(tag), system, encode_field(_BODY_TAG, body), (body.hex(),)) for body in bodies]
        await self.messages.sending.append(QueueRef(topic, BROKER, queue_id), messages)

    async def receive(self, group: str, topic: str) -> list[tuple[str, int]]:
        """Receive what is there, and return the receipt handle and the delivery attempt of each message."""
        queues = range(self.catalog.find_topic(topic).queues)
        order = PopOrder(
            group=check_group_name(group),
            topic=topic,
            queues=queues,
            filter=TagFilter.parse_expression("*"),
            batch=32,
            invisible_ms=INVISIBLE_MS,
        )
        deliveries = await self.messages.consuming.pop(order, broker="", poll_s=0.0)
        form = self.services.handles.form_for(group, topic)
        return [(form.encode_handle(each.handle).decode(), each.attempt) for each in deliveries]

    async def bodies(self, topic: str, *, queue_id: int = 0) -> list[bytes]:
        """The bodies of all messages in a queue of the topic."""
        queue = QueueRef(topic, BROKER, queue_id)
        pulled = await self.messages.reading.pull(queue, 0, TagFilter.parse_expression("*"), batch=32, poll_s=0.0)
        return [body_of(message) for message in pulled.messages]


def body_of(message: StoredMessage) -> bytes:
    """The body of a short message that `Stack.store` stored."""
    rest = message.rest.partition(_BODY_TAG)[2]
    return rest[1 : 1 + rest[0]]


async def opened_stack(folder: Path, exits: AsyncExitStack) -> Stack:
    """Open the services over a new broker in the folder; `exits` closes them."""
    settings = local_settings(folder, flush=FlushMode.ASYNC, test_clock=True)
    clock = MovableClock()
    messages, catalog = await open_storage(settings, clock, exits)
    return Stack(make_services(settings, clock, catalog, messages, "127.0.0.1:8081"), clock)
