"""What the tests of pull consumers share."""

from ternmq import MessageQueue, MessageView, PullConsumer, Timing
from tests.unit.client.scripted_server import TOPIC, ScriptedServer

GROUP = "g"
SUBSCRIPTIONS = {TOPIC: "*"}
NEVER_S = 1e6
# Nothing is asked again by itself, and errors cost no time.
CALM = Timing(assignment_s=NEVER_S, heartbeat_s=NEVER_S, route_refresh_s=NEVER_S, error_pause_s=0.001)
# Longer than any test: who runs into it fails.
LONG_S = 60.0


def queue(queue_id: int = 0, broker: str = "broker-a") -> MessageQueue:
    return MessageQueue(TOPIC, broker, queue_id)


async def taken(consumer: PullConsumer, count: int) -> list[MessageView]:
    """Exactly so many messages."""
    views: list[MessageView] = []
    while len(views) < count:
        views += await consumer.poll(count - len(views), timeout=LONG_S)
    return views


async def taken_bodies(consumer: PullConsumer, count: int) -> list[bytes]:
    return [view.body for view in await taken(consumer, count)]


def commits(server: ScriptedServer) -> list[tuple[int, int]]:
    """Queue id and offset of each UpdateOffset so far."""
    return [(request.message_queue.id, request.offset) for request in server.requests["UpdateOffset"]]


def pulls(server: ScriptedServer, queue_id: int | None = None) -> list[int]:
    """The offsets that were asked for so far, in one queue or in all."""
    requests = server.requests["PullMessage"]
    return [request.offset for request in requests if queue_id in {None, request.message_queue.id}]


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [str(number).encode() for number in range(start, start + count)]
