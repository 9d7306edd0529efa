"""The types of messages, with the names and numbers of `apache.rocketmq.v2.MessageType`."""

from enum import IntEnum


class MessageType(IntEnum):
    """The type of a message, by its needs: nothing, order, a delay, a transaction, a lite topic, or a priority.

    A topic accepts one type, or all of them.
    """

    MESSAGE_TYPE_UNSPECIFIED = 0
    NORMAL = 1
    FIFO = 2
    DELAY = 3
    TRANSACTION = 4
    LITE = 5
    PRIORITY = 6
