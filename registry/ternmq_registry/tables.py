"""The registry's tables, as the newest migration leaves them; a test compares both."""

from sqlalchemy import BigInteger, Boolean, Column, Integer, MetaData, String, Table

from ternmq_common.limits import GROUP_CHARACTERS_MAX, TOPIC_CHARACTERS_MAX

METADATA = MetaData()

TOPICS = Table(
    "topics",
    METADATA,
    Column("name", String(TOPIC_CHARACTERS_MAX), primary_key=True),
    Column("type", String(16), nullable=False, comment="name of the value in v2.MessageType"),
    Column("queues", Integer, nullable=False, comment="message queues on each broker"),
    Column("created_ms", BigInteger, nullable=False, comment="milliseconds since the epoch"),
)

GROUPS = Table(
    "consumer_groups",
    METADATA,
    Column("name", String(GROUP_CHARACTERS_MAX), primary_key=True),
    Column("fifo", Boolean, nullable=False),
    Column("max_attempts", Integer, nullable=False, comment="deliveries of a message, the first included"),
    Column("created_ms", BigInteger, nullable=False, comment="milliseconds since the epoch"),
    Column("retry_backoff", String(1024), nullable=False, server_default="", comment="see retry_backoff.py"),
    Column("consume_from", String(32), nullable=False, server_default="auto", comment="see model.Group"),
    Column("assignment", String(4096), nullable=False, server_default="averagely", comment="see model.Group"),
    Column("queue_lock_hold_ms", BigInteger, nullable=False, server_default="0", comment="0: no lock"),
    Column("priority_factor", Integer, nullable=False, server_default="99", comment="see model.Group"),
)
