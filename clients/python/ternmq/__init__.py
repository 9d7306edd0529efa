"""The Python client of TernMQ, for any server that speaks the RocketMQ 5 protocol.

    async with Producer("127.0.0.1:8081", topics=["orders"]) as producer:
        await producer.send(Message("orders", b"hello"))

`ternmq.blocking` has the same clients without `async`; `ternmq.otel` creates traces.

Names are imported when they are first used: the command and the server are in this package too, and do not need the
client's gRPC, which takes 10 MB.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ternmq.admin.clients.client import Admin
    from ternmq.connections.connection_events import ConnectionEvent, ConnectionState
    from ternmq.connections.credentials import Credentials, CredentialsFile
    from ternmq.connections.tls import TlsOptions
    from ternmq.consuming.listener_calls import RetryLater, Suspend
    from ternmq.consuming.push_consumer import PushConsumer
    from ternmq.consuming.received_message import ReceivedMessage
    from ternmq.consuming.simple_consumer import SimpleConsumer
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
        TlsFailed,
        TooManyRequests,
        TransactionOutcomeUnknown,
        TransactionRefused,
        TransportError,
        Unauthorized,
        UndecodableBody,
        Unsupported,
        UnusableFile,
    )
    from ternmq.hooks import ConsumeResult, Consuming, Hooks, Sending
    from ternmq.lite.lite_begin import LiteBegin, Tail
    from ternmq.lite.lite_push_consumer import LitePushConsumer
    from ternmq.lite.lite_simple_consumer import LiteSimpleConsumer
    from ternmq.messages.filters import SqlFilter, TagFilter
    from ternmq.messages.message import Message, SendReceipt
    from ternmq.messages.message_id import parse_message_id
    from ternmq.messages.message_view import MessageView
    from ternmq.options import ClientOptions, Timing
    from ternmq.producing.producer import Producer
    from ternmq.pull.pull_consumer import PullConsumer
    from ternmq.pull.pull_queue import MessageQueue
    from ternmq.transactions.checking import Checker
    from ternmq.transactions.transaction import Transaction, TransactionResolution

_MODULES = {
    "admin.clients.client": ("Admin",),
    "transactions.checking": ("Checker",),
    "connections.connection_events": ("ConnectionEvent", "ConnectionState"),
    "connections.credentials": ("Credentials", "CredentialsFile"),
    "errors": (
        "AckError",
        "BadRequest",
        "ClientError",
        "ConnectionFailed",
        "DeadlineExceeded",
        "Forbidden",
        "InternalError",
        "LiteSubscriptionQuotaExceeded",
        "LiteTopicQuotaExceeded",
        "NotFound",
        "NotRunning",
        "OffsetFileError",
        "PayloadEmpty",
        "PayloadTooLarge",
        "PaymentRequired",
        "ProxyTimeout",
        "RequestHeaderFieldsTooLarge",
        "SendManyError",
        "TlsFailed",
        "TooManyRequests",
        "TransactionOutcomeUnknown",
        "TransactionRefused",
        "TransportError",
        "Unauthorized",
        "UndecodableBody",
        "Unsupported",
        "UnusableFile",
    ),
    "messages.filters": ("SqlFilter", "TagFilter"),
    "hooks": ("ConsumeResult", "Consuming", "Hooks", "Sending"),
    "consuming.listener_calls": ("RetryLater", "Suspend"),
    "lite.lite_begin": ("LiteBegin", "Tail"),
    "lite.lite_push_consumer": ("LitePushConsumer",),
    "lite.lite_simple_consumer": ("LiteSimpleConsumer",),
    "messages.message": ("Message", "SendReceipt"),
    "messages.message_id": ("parse_message_id",),
    "messages.message_view": ("MessageView",),
    "options": ("ClientOptions", "Timing"),
    "producing.producer": ("Producer",),
    "pull.pull_queue": ("MessageQueue",),
    "pull.pull_consumer": ("PullConsumer",),
    "consuming.push_consumer": ("PushConsumer",),
    "consuming.received_message": ("ReceivedMessage",),
    "consuming.simple_consumer": ("SimpleConsumer",),
    "connections.tls": ("TlsOptions",),
    "transactions.transaction": ("Transaction", "TransactionResolution"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "AckError",
    "Admin",
    "BadRequest",
    "Checker",
    "ClientError",
    "ClientOptions",
    "ConnectionEvent",
    "ConnectionFailed",
    "ConnectionState",
    "ConsumeResult",
    "Consuming",
    "Credentials",
    "CredentialsFile",
    "DeadlineExceeded",
    "Forbidden",
    "Hooks",
    "InternalError",
    "LiteBegin",
    "LitePushConsumer",
    "LiteSimpleConsumer",
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
    "ReceivedMessage",
    "RequestHeaderFieldsTooLarge",
    "RetryLater",
    "SendManyError",
    "SendReceipt",
    "Sending",
    "SimpleConsumer",
    "SqlFilter",
    "Suspend",
    "TagFilter",
    "Tail",
    "Timing",
    "TlsFailed",
    "TlsOptions",
    "TooManyRequests",
    "Transaction",
    "TransactionOutcomeUnknown",
    "TransactionRefused",
    "TransactionResolution",
    "TransportError",
    "Unauthorized",
    "UndecodableBody",
    "Unsupported",
    "UnusableFile",
    "parse_message_id",
]


if not TYPE_CHECKING:  # else a type checker would accept any name

    def __getattr__(name: str) -> object:
        module = _MODULE_OF.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found: object = getattr(import_module(f"{__name__}.{module}"), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
