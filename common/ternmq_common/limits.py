"""Limits of the protocol, checked at the front before memory is spent (`sending.md, Limits`, `consuming.md, Receive`,
`overview.md, Limits of a request`)."""

from dataclasses import dataclass, field
from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB = 1024 * MIB
SECOND_MS: Final = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

TOPIC_CHARACTERS_MAX = 127
GROUP_CHARACTERS_MAX = 120
LITE_TOPIC_BYTES_MAX = 64
# A client may send a request before it knows the quota of its group.
LITE_QUOTA_SLACK = 300
LITE_SUBSCRIPTIONS_MAX = 200_000
LITE_TOPICS_MAX = 200_000
LITE_TTL_MIN_MS, LITE_TTL_MAX_MS = 15 * MINUTE_MS, 3650 * DAY_MS
RECEIVE_BATCH_MAX: Final = 32
# Pulled messages need not be settled, so a pull may bring more; as much as an event loop sends in two milliseconds.
PULL_BATCH_MAX: Final = 256
# Of messages by column, in the same time.
PULL_ROWS_MAX = 512
PULL_BYTES_MAX: Final = 4 * MIB
RECEIVE_BYTES_MAX: Final = 4 * MIB
# gRPC's default for what a client takes in one piece; the official Rust and Node.js clients leave it so.
CLIENT_MESSAGE_BYTES: Final = 4 * MIB
# More than delivery adds to a stored message: topic, receipt handle, host, times and places.
DELIVERY_BYTES: Final = 2 * KIB
INVISIBLE_MIN_MS: Final = 10 * SECOND_MS
INVISIBLE_MAX_MS = 12 * HOUR_MS
AUTO_RENEW_INVISIBLE_MS: Final = 60 * SECOND_MS
POLL_MAX_MS = 20 * SECOND_MS
POLL_MARGIN_MS: Final = 300
# Room for a few of the longest tags that can be sent; what a filter costs is bounded by how many tags it names.
TAG_FILTER_BYTES_MAX = 64 * KIB
TAGS_MAX = 2048
SQL_FILTER_BYTES_MAX = 8 * KIB
QUEUES_MAX: Final = 1024
DEFAULT_QUEUES = 8
DEFAULT_MAX_ATTEMPTS = 17
ATTEMPTS_MAX = 1000
DEFAULT_PRIORITY_FACTOR = 99
INBOUND_BYTES_MAX = 130 * MIB
# Topics of the settings of one client, published or subscribed to.
SETTINGS_TOPICS_MAX = 1024


_FIELDS_PER_ENTRY = 128
_FIELDS_MIN = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """The limits of one request: `entries_max` messages, receipt handles or the like.

    `inflated_bytes_max` is for all its compressed bodies together.
    """

    entries_max: int = 1024
    inflated_bytes_max: int = 32 * MIB

    @property
    def fields_max(self) -> int:
        """All fields together; messages with three dozen properties each have fewer."""
        return max(_FIELDS_MIN, _FIELDS_PER_ENTRY * self.entries_max)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLimits:
    """The limits of one message. Sizes in bytes of UTF-8, times in milliseconds."""

    body_bytes_max: int = 4 * MIB
    properties_max: int = 128
    properties_bytes_max: int = 16 * KIB
    system_properties_bytes_max: int = 16 * KIB - 1
    message_group_bytes_max: int = 63
    delay_max_ms: int = 24 * HOUR_MS
    transaction_recovery_max_ms: int = HOUR_MS
    stored_properties_bytes_max: int = field(init=False)
    """All that is stored of a message but its body: by default 32767 bytes, as in RocketMQ's brokers."""

    def __post_init__(self) -> None:
        stored_bytes_max = self.properties_bytes_max + self.system_properties_bytes_max
        object.__setattr__(self, "stored_properties_bytes_max", stored_bytes_max)
        if not 0 < self.body_bytes_max < INBOUND_BYTES_MAX:
            raise ValueError(f"body_bytes_max={self.body_bytes_max} must be above 0 and below {INBOUND_BYTES_MAX}")
