"""The words for the enum numbers of the protocol, and its times."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from ternmq.admin.requests.checks import check_choice
from ternmq.times.wire_time import to_datetime
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from google.protobuf.timestamp_pb2 import Timestamp

TopicType = Literal["normal", "fifo", "delay", "transaction", "priority", "lite", "mixed"]
Permission = Literal["read-write", "read", "write", "none"]
Replication = Literal["sync", "async", "shard"]
Flush = Literal["sync", "async", "broker"]
LiteModel = Literal["shared", "exclusive"]
LiteReset = Literal["taken", "unsubscribed"]
OpenState = Literal["pending", "discarded"]
Resolution = Literal["commit", "rollback"]

MIXED = "mixed"
"""The word for a NORMAL topic that also takes FIFO, DELAY and TRANSACTION messages."""
TYPES: Mapping[str, definition_pb2.MessageType] = {
    "normal": definition_pb2.NORMAL,
    "fifo": definition_pb2.FIFO,
    "delay": definition_pb2.DELAY,
    "transaction": definition_pb2.TRANSACTION,
    "priority": definition_pb2.PRIORITY,
    "lite": definition_pb2.LITE,
    MIXED: definition_pb2.NORMAL,
}
PERMISSIONS: Mapping[str, definition_pb2.Permission] = {
    "read-write": definition_pb2.READ_WRITE,
    "read": definition_pb2.READ,
    "write": definition_pb2.WRITE,
    "none": definition_pb2.NONE,
}
REPLICATIONS: Mapping[str, admin_pb2.Replication] = {
    "sync": admin_pb2.REPLICATION_SYNC,
    "async": admin_pb2.REPLICATION_ASYNC,
    "shard": admin_pb2.REPLICATION_SHARD,
}
OPEN_STATES: Mapping[str, admin_pb2.TransactionState] = {
    "pending": admin_pb2.PENDING,
    "discarded": admin_pb2.DISCARDED,
}
RESOLUTIONS: Mapping[str, definition_pb2.TransactionResolution] = {
    "commit": definition_pb2.COMMIT,
    "rollback": definition_pb2.ROLLBACK,
}
STATES: Mapping[str, admin_pb2.TransactionState] = {
    **OPEN_STATES,
    "committed": admin_pb2.COMMITTED,
    "rolled_back": admin_pb2.ROLLED_BACK,
}
CLIENT_TYPES: Mapping[str, definition_pb2.ClientType] = {
    "producer": definition_pb2.PRODUCER,
    "push_consumer": definition_pb2.PUSH_CONSUMER,
    "simple_consumer": definition_pb2.SIMPLE_CONSUMER,
    "pull_consumer": definition_pb2.PULL_CONSUMER,
    "lite_push_consumer": definition_pb2.LITE_PUSH_CONSUMER,
    "lite_simple_consumer": definition_pb2.LITE_SIMPLE_CONSUMER,
}


def word_of(number: int, words: Mapping[str, int], *, unspecified: str = "unspecified") -> str:
    """Return the word for a number; the number as text if it is not known here, as of a newer server."""
    if not number:
        return unspecified
    return next((word for word, known in words.items() if known == number), str(number))


def permission_number(word: str) -> definition_pb2.Permission:
    """Return the number of a permission; ValueError, with the nearest word, for an unknown one."""
    return PERMISSIONS[check_choice("permission", word, list(PERMISSIONS))]


def permission_word(permission: int) -> str:
    """Return the word of a permission; a server that sends none permits all."""
    return word_of(permission, PERMISSIONS, unspecified="read-write")


def replication_word(replication: int) -> str:
    """Return the word of a replication mode; a server that sends none has no replication of its own."""
    return word_of(replication, REPLICATIONS, unspecified="shard")


def read_moment(timestamp: "Timestamp") -> datetime | None:
    """Return the time; None if the server did not send it."""
    return to_datetime(timestamp) if timestamp.seconds else None
