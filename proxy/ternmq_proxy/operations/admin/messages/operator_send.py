"""Sends one message for an operator."""

from typing import TYPE_CHECKING

from ternmq_proxy.access.needs import TOPIC_PUB
from ternmq_proxy.operations.send import store_messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_proxy.call import Call
    from ternmq_proxy.operations.sent_message import SentMessage
    from ternmq_proxy.processors.sending.producer_message import ProducerMessage
    from ternmq_proxy.services import Services


async def send_operator_message(
    topic: str, read: "Callable[[], tuple[ProducerMessage, int]]", call: "Call", services: "Services"
) -> "SentMessage":
    """Send the message of the topic that `read` returns, with the size of its request, by the checks, limits and codes
    of any send."""
    services.access.require_change("AdminSendMessage", call, (TOPIC_PUB, topic))
    message, size = read()
    [sent] = await store_messages([message], call, services, size=size)
    return sent
