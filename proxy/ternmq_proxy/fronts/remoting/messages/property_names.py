"""Names of the properties that 4.x clients and servers give a meaning."""

from typing import Final

from ternmq_proxy.operations.message_checks import RESERVED_PROPERTY_KEYS

KEYS: Final = "KEYS"
TAGS: Final = "TAGS"
UNIQUE_KEY: Final = "UNIQ_KEY"
WAIT: Final = "WAIT"
DELAY_LEVEL: Final = "DELAY"
TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
DELAYS: Final = frozenset({DELAY_LEVEL, TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS})
"""By which a message is delayed."""
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QUEUE_ID: Final = "REAL_QID"
RETRY_TOPIC: Final = "RETRY_TOPIC"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
RECONSUME_TIME: Final = "RECONSUME_TIME"
MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
TRANSACTION_PREPARED: Final = "TRAN_MSG"
PRODUCER_GROUP: Final = "PGROUP"
TRANSACTION_ID: Final = "__transactionId__"
CHECK_IMMUNITY_TIME: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
SHARDING_KEY: Final = "__SHARDINGKEY"
TRACE_CONTEXT: Final = "TRACE_CONTEXT"
MESSAGE_REGION: Final = "MSG_REGION"
TRACE_ON: Final = "TRACE_ON"
CLUSTER: Final = "CLUSTER"
POP_CHECKPOINT: Final = "POP_CK"
CORRELATION_ID: Final = "CORRELATION_ID"
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
TTL: Final = "TTL"
MESSAGE_TYPE: Final = "MSG_TYPE"
ARRIVE_TIME: Final = "ARRIVE_TIME"
PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"
REGION: Final = "DefaultRegion"

STORED_OTHERWISE: Final = frozenset({KEYS, TAGS, UNIQUE_KEY, WAIT, TRACE_CONTEXT})
"""Properties for which the stored form has fields, or needs none: `WAIT` is true for every message that waits for its
answer. The sharding key is not among them: delayed and half messages have no message group."""
WRITTEN_BY_SERVER: Final = frozenset({MESSAGE_REGION, TRACE_ON, CLUSTER, POP_CHECKPOINT})
NOT_HIDDEN: Final = STORED_OTHERWISE | WRITTEN_BY_SERVER
RESERVED: Final[frozenset[str]] = RESERVED_PROPERTY_KEYS | {
    CHECK_IMMUNITY_TIME,
    TRANSACTION_ID,
    TRACE_CONTEXT,
    SHARDING_KEY,
}
"""Names that are not the users'."""
