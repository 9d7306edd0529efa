"""Subscriptions to lite topics by clients of lite groups (`consuming.md, Lite topics`)."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.names import check_group_name, check_lite_topic_name, check_topic_name
from ternmq_common.shard.model import LiteAction, LiteOffset, LiteSync
from ternmq_proxy.operations.lite_groups import check_bound_topic
from ternmq_proxy.operations.rights import require_consumer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_common.pacing.bucket import TokenBucket
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

LITE_ADDS_PER_S = 5000
_OFFSET_MAX = 1 << 62
_NUMBER_NAMES = {LiteOffset.OFFSET: "offset", LiteOffset.TAIL: "tail_n", LiteOffset.TIME: "timestamp"}


@dataclass(frozen=True, slots=True)
class LitePosition:
    """The start of a group in lite topics that are added; `number` is an offset, a count, or milliseconds since the
    epoch, as `begin` says."""

    begin: LiteOffset
    number: int = 0


async def sync_lite_topics(
    group: str,
    topic: str,
    action: LiteAction | int,
    names: "Iterable[str]",
    call: "Call",
    services: "Services",
    *,
    position: LitePosition | None = None,
) -> None:
    """Change the lite topics that a client of a lite group subscribes to: add some, remove some, replace all, or remove
    all. Without a `position` the group keeps its offsets.

    Raises BAD_REQUEST for an unknown action, and TOO_MANY_REQUESTS, ILLEGAL_TOPIC, ILLEGAL_LITE_TOPIC and
    ILLEGAL_OFFSET.
    """
    require_consumer("SyncLiteSubscription", call, group, topic, services)
    client_id = call.require_client()
    check_topic_name(topic)
    check_group_name(group)
    if isinstance(action, int):
        raise MessagingError(ErrorCode.BAD_REQUEST, f"action {action} is none")
    checked = list(map(check_lite_topic_name, names))
    if action is LiteAction.PARTIAL_ADD:
        _take_rate(services.lite_adds)
    check_bound_topic(topic, await services.catalog.existing_group(group, bind=topic))
    services.clients.note_call(client_id, group, user=call.user, joined=True)
    if position is not None and position.begin in _NUMBER_NAMES:
        _check_number(position)
    sync = LiteSync(group, topic, client_id, action, checked)
    if action is LiteAction.PARTIAL_ADD and position is not None:
        sync = LiteSync(group, topic, client_id, action, checked, position.begin, position.number)
    await services.messages.consuming.sync_lite(sync)


def _take_rate(adds: "TokenBucket") -> None:
    now = time.monotonic()
    if adds.wait_s(1, now):
        raise MessagingError(
            ErrorCode.TOO_MANY_REQUESTS,
            f"this proxy takes {adds.rate:g} additions to subscriptions of lite topics each second; try again later",
        )
    adds.take_tokens(1, now)


def _check_number(position: LitePosition) -> None:
    """Raise ILLEGAL_OFFSET for a number that no queue has."""
    if not 0 <= position.number <= _OFFSET_MAX:
        raise MessagingError(
            ErrorCode.ILLEGAL_OFFSET, f"{_NUMBER_NAMES[position.begin]} is {position.number}; it is 0 or more"
        )
