"""A message that a `SimpleConsumer` received: it has its own `ack` and `nack`.

tools/generate_blocking.py generates `ternmq.blocking.ReceivedMessage` from this.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Protocol

from ternmq.connections.endpoints import Endpoints
from ternmq.errors import BadRequest
from ternmq.messages.message_view import MessageView
from ternmq.times.durations import check_span
from ternmq_protos.v2 import definition_pb2 as pb

AT_ONCE = timedelta(0)


class SettlingConsumer(Protocol):
    """The part of a consumer that a received message needs."""

    async def ack(self, views: MessageView | Iterable[MessageView]) -> None: ...

    async def change_invisible_duration(self, view: MessageView, invisible_duration: timedelta) -> None: ...


class ReceivedMessage(MessageView):
    """A `MessageView` that its consumer can still settle.

        for view in await consumer.receive():
            try:
                handle(view.body)
            except TimeoutError:
                await view.nack(timedelta(minutes=1))
            else:
                await view.ack()

    A copy, pickled or not, has no consumer; the `ack` of any consumer of the group accepts it.
    """

    __slots__ = ("_consumer",)

    def __init__(
        self, message: pb.Message, *, broker: str, endpoints: Endpoints, consumer: SettlingConsumer | None = None
    ) -> None:
        super().__init__(message, broker=broker, endpoints=endpoints)
        self._consumer = consumer

    async def ack(self) -> None:
        """Acknowledge this delivery, as the consumer's `ack` does; `AckError` if the server refuses."""
        await self._require_consumer().ack(self)

    async def nack(self, delay: timedelta = AT_ONCE) -> None:
        """Give this delivery back, to be delivered again after `delay`, up to 12 hours; it counts as an attempt."""
        await self._require_consumer().change_invisible_duration(self, check_span("delay", delay))

    def _require_consumer(self) -> SettlingConsumer:
        if self._consumer is None:
            raise BadRequest(
                pb.BAD_REQUEST,
                f"this copy of {self.message_id} has no consumer: give it to `ack` or `change_invisible_duration` of "
                "a SimpleConsumer of its group",
            )
        return self._consumer
