"""The types of clients, with the names and numbers of `apache.rocketmq.v2.ClientType`."""

from enum import IntEnum


class ClientType(IntEnum):
    """The type of a client: what it does with messages, and how.

    Where a client's type is kept it is a plain number: clients of later versions may have others.
    """

    CLIENT_TYPE_UNSPECIFIED = 0
    PRODUCER = 1
    PUSH_CONSUMER = 2
    SIMPLE_CONSUMER = 3
    PULL_CONSUMER = 4
    LITE_PUSH_CONSUMER = 5
    LITE_SIMPLE_CONSUMER = 6


LITE_CONSUMERS: frozenset[int] = frozenset({ClientType.LITE_PUSH_CONSUMER, ClientType.LITE_SIMPLE_CONSUMER})
CONSUMERS: frozenset[int] = LITE_CONSUMERS | {
    ClientType.PUSH_CONSUMER,
    ClientType.SIMPLE_CONSUMER,
    ClientType.PULL_CONSUMER,
}
