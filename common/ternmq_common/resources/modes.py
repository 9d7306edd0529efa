"""Modes that are settings of topics, brokers and shards: permissions of queues, and when sends are answered."""

import enum


class QueuePermission(enum.StrEnum):
    """The permission of clients for the queues of a topic, or of a broker."""

    READ_WRITE = "read-write"
    READ = "read"
    WRITE = "write"
    NONE = "none"

    @property
    def can_read(self) -> bool:
        return self is QueuePermission.READ_WRITE or self is QueuePermission.READ

    @property
    def can_write(self) -> bool:
        return self is QueuePermission.READ_WRITE or self is QueuePermission.WRITE


class FlushMode(enum.StrEnum):
    """When a message is acknowledged: `sync` after fdatasync, `async` after the write."""

    SYNC = "sync"
    ASYNC = "async"


class ReplicationMode(enum.StrEnum):
    """When a send to a shard with replicas is answered: `sync` when all in-sync replicas have the message, `async`
    when the leader has it."""

    SYNC = "sync"
    ASYNC = "async"
