"""The message that FastStream's handlers get, and how it is settled: by the result of the push consumer's listener."""

from typing import Any

from faststream.message import StreamMessage, decode_message

from ternmq.hooks import ConsumeResult
from ternmq.messages.message_view import MessageView

CONTENT_TYPE = "content-type"
CORRELATION_ID = "correlation_id"


class HandledDelivery:
    """One delivery and its result; without a decision it is given back."""

    def __init__(self, view: MessageView) -> None:
        self.view = view
        self.result = ConsumeResult.FAILURE


class TernmqMessage(StreamMessage[HandledDelivery]):
    """A message; `raw_message.view` is the `ternmq.MessageView`."""

    async def ack(self) -> None:
        """Acknowledge the message once its handlers have ended."""
        if self.committed is None:
            self.raw_message.result = ConsumeResult.SUCCESS
        await super().ack()

    async def reject(self) -> None:
        """Drop the message: it is not delivered again, and does not become a dead letter."""
        if self.committed is None:
            self.raw_message.result = ConsumeResult.SUCCESS
        await super().reject()


class TernmqParser:
    """Creates a message from a delivery, and a handler's argument from its body."""

    async def parse_message(self, delivery: HandledDelivery) -> TernmqMessage:
        view = delivery.view
        headers = view.properties
        return TernmqMessage(
            raw_message=delivery,
            body=view.body,
            headers=dict(headers),
            content_type=headers.get(CONTENT_TYPE),
            correlation_id=headers.get(CORRELATION_ID) or view.message_id,
            message_id=view.message_id,
        )

    async def decode_message(self, message: StreamMessage[Any]) -> Any:  # noqa: ANN401 - what it was is up to the sender
        return decode_message(message)
