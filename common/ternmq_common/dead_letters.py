"""User properties of a dead letter with its origin (`consuming.md, Dead letters`): some clients show only these."""

import enum
from typing import Final

ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC"
ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID"
ATTEMPTS = "DLQ_ATTEMPTS"
REASON = "DLQ_REASON"
DEAD_LETTER_PROPERTIES: Final = (ORIGIN_TOPIC, ORIGIN_MESSAGE_ID, ATTEMPTS, REASON)


class DeadLetterReason(enum.Enum):
    """Why a message became a dead letter."""

    ATTEMPTS = "attempts"  # none of its deliveries was acknowledged
    FORWARDED = "forwarded"  # its consumer sent it there
