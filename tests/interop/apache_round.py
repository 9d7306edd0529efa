"""What tests of the client library against Apache RocketMQ have in common."""

import asyncio
import uuid

from ternmq import MessageView, SimpleConsumer
from tests.interop.apache_rocketmq import ApacheRocketMQ

DEADLINE_S = 90


def new_names(peer: ApacheRocketMQ, kind: str = "NORMAL", *, ordered: bool = False) -> tuple[str, str]:
    """A topic and a group that no other test uses."""
    name = uuid.uuid4().hex[:12]
    peer.create_topic(f"topic-{name}", kind)
    peer.create_group(f"group-{name}", ordered=ordered)
    return f"topic-{name}", f"group-{name}"


async def received(consumer: SimpleConsumer, count: int) -> list[MessageView]:
    """Receive and acknowledge until `count` messages came."""
    views: list[MessageView] = []
    async with asyncio.timeout(DEADLINE_S):
        while len(views) < count:
            new = await consumer.receive()
            if new:
                await consumer.ack(new)
            views += new
    return views
