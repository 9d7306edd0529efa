"""The Python client of TernMQ, for any server that speaks the RocketMQ 5 protocol.

    async with Producer("127.0.0.1:8081", topics=["orders"]) as producer:
        await producer.send(Message("orders", b"hello"))

`ternmq.blocking` has the same clients without `async`; `ternmq.otel` makes traces.
"""

from ternmq.checking import Checker
from ternmq.errors import (
    AckError,
    BadRequest,
    ClientError,
    ConnectionFailed,
    DeadlineExceeded,
    Forbidden,
    InternalError,
    LiteSubscriptionQuotaExceeded,
    LiteTopicQuotaExceeded,
    NotFound,
    NotRunning,
    OffsetFileError,
    PayloadEmpty,
    PayloadTooLarge,
    PaymentRequired,
    ProxyTimeout,
    RequestHeaderFieldsTooLarge,
    SendManyError,
    TooManyRequests,
    TransactionOutcomeUnknown,
    TransactionRefused,
    TransportError,
    Unauthorized,
    Unsupported,
)
from ternmq.filters import SqlFilter, TagFilter
from ternmq.hooks import ConsumeResult, Consuming, Hooks, Sending
from ternmq.identity import Credentials
from ternmq.message import Message, SendReceipt
from ternmq.message_id import parse_message_id
from ternmq.message_view import MessageView
from ternmq.options import ClientOptions, Timing
from ternmq.producer import Producer
from ternmq.pull.queue import MessageQueue
from ternmq.pull_consumer import PullConsumer
from ternmq.push_consumer import PushConsumer
from ternmq.simple_consumer import SimpleConsumer
from ternmq.transaction import Transaction, TransactionResolution

__all__ = [
    "AckError",
    "BadRequest",
    "Checker",
    "ClientError",
    "ClientOptions",
    "ConnectionFailed",
    "ConsumeResult",
    "Consuming",
    "Credentials",
    "DeadlineExceeded",
    "Forbidden",
    "Hooks",
    "InternalError",
    "LiteSubscriptionQuotaExceeded",
    "LiteTopicQuotaExceeded",
    "Message",
    "MessageQueue",
    "MessageView",
    "NotFound",
    "NotRunning",
    "OffsetFileError",
    "PayloadEmpty",
    "PayloadTooLarge",
    "PaymentRequired",
    "Producer",
    "ProxyTimeout",
    "PullConsumer",
    "PushConsumer",
    "RequestHeaderFieldsTooLarge",
    "SendManyError",
    "SendReceipt",
    "Sending",
    "SimpleConsumer",
    "SqlFilter",
    "TagFilter",
    "Timing",
    "TooManyRequests",
    "Transaction",
    "TransactionOutcomeUnknown",
    "TransactionRefused",
    "TransactionResolution",
    "TransportError",
    "Unauthorized",
    "Unsupported",
    "parse_message_id",
]
