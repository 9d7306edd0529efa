"""The delay levels of RocketMQ 4.x: the user property DELAY sets a delivery timestamp
(`sending.md, Delay levels`).

A level counts in a message to a DELAY topic that is NORMAL by its fields. In every other message the key is reserved,
like those of all other 4.x properties.
"""

from typing import TYPE_CHECKING

from ternmq_common.catalog.delay_levels import delay_of_level
from ternmq_common.catalog.message_type import MessageType
from ternmq_proxy.operations.message_checks import DELAY_LEVEL_KEY, effective_type

if TYPE_CHECKING:
    from ternmq_proxy.processors.sending.producer_message import ProducerMessage

_DIGITS_MAX = 18


def has_delay_level(message: "ProducerMessage") -> bool:
    """Return whether there is anything for `take_delay_level` to do."""
    return DELAY_LEVEL_KEY in message.properties


def take_delay_level(message: "ProducerMessage", levels_ms: tuple[int, ...], now_ms: int) -> None:
    """Replace the property by the delivery timestamp of its level, in a message to a DELAY topic.

    Levels above the highest count as the highest; level 0 is now. A property that is no level stays, and is refused
    later.
    """
    level = message.properties.get(DELAY_LEVEL_KEY)
    if level is None:
        return
    is_number = level.isascii() and level.isdigit() and len(level) <= _DIGITS_MAX
    if is_number and effective_type(message) == MessageType.NORMAL:
        del message.properties[DELAY_LEVEL_KEY]
        message.delivery_ns = (now_ms + delay_of_level(levels_ms, int(level))) * 1_000_000
