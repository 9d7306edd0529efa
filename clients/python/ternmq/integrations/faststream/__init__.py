"""A broker for FastStream: functions that consume and publish messages, with validation and dependency injection.

    broker = TernmqBroker("127.0.0.1:8081")
    app = FastStream(broker)

    @broker.subscriber("orders", group="billing")
    @broker.publisher("bills")
    async def bill(order: Order) -> Bill: ...

Headers     are the properties of a message; `content-type` and `correlation_id` are properties too
Acks        `NACK_ON_ERROR` by default: a failed message is delivered again with the group's backoff, and at last
            becomes a dead letter. `REJECT_ON_ERROR` and `ACK` drop it. By hand (`MANUAL`), a message that was not
            acknowledged when the handler ends is delivered again. `ACK_FIRST` is refused: a message is settled when its
            handler ends
Replies     are not supported: `request` and `reply_to` are refused
Order       is kept by groups that are FIFO on the server
Tests       `TestTernmqBroker` delivers in memory, without a server

It uses FastStream's internals, as brokers outside of its repository have to: the extra names the versions that it was
tested with.
"""

from ternmq_common.installing import missing_extra_error

try:
    from ternmq.integrations.faststream.broker import TernmqBroker
    from ternmq.integrations.faststream.message import TernmqMessage
    from ternmq.integrations.faststream.publishing import TernmqPublishCommand
    from ternmq.integrations.faststream.registrator import TernmqRouter
    from ternmq.integrations.faststream.testing import TestTernmqBroker
except ModuleNotFoundError as error:
    raise missing_extra_error(error, "ternmq.integrations.faststream", "faststream") from error

__all__ = ["TernmqBroker", "TernmqMessage", "TernmqPublishCommand", "TernmqRouter", "TestTernmqBroker"]
