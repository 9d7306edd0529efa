"""What the processes of one server ask each other for the published service: each knows its own clients alone."""

from typing import TYPE_CHECKING

from ternmq_proxy.activities.published_admin.running_info import RUNNING_INFO, answer_running_info
from ternmq_proxy.activities.published_admin.server import STATS, answer_stats
from ternmq_proxy.activities.published_admin.subscribers import (
    SUBSCRIBERS,
    SUBSCRIPTIONS,
    answer_subscribers,
    answer_subscriptions,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PUBLISHED_ANSWERS: "dict[str, Callable[..., Awaitable[bytes]]]" = {
    RUNNING_INFO: answer_running_info,
    STATS: answer_stats,
    SUBSCRIBERS: answer_subscribers,
    SUBSCRIPTIONS: answer_subscriptions,
}
"""By question; each gets the argument, and `services`."""
