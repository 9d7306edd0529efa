"""Operations on a received message: acknowledge it, change its invisible duration, forward it to the dead-letter queue.

`consuming.md` has the rules: Acknowledgement, Invisible durations, Forwarding to the dead letters.

A receipt handle is the text that the client got. Outcomes are None for a success, else the error.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.event_loop.fairness import WorkTurns
from ternmq_common.names import check_group_name, check_topic_name
from ternmq_common.shard.model import SettleOutcome
from ternmq_common.shard.receipt_handle import ReceiptHandle
from ternmq_proxy.access.needs import GROUP_SUB, TOPIC_SUB
from ternmq_proxy.handle_form import HandleForm
from ternmq_proxy.handles import settled_topic
from ternmq_proxy.operations.group_creation import may_create_group
from ternmq_proxy.operations.invisible_duration import checked_invisible_ms
from ternmq_proxy.operations.rights import require_consumer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

BEGUN_MAX: Final = 64
"""A millisecond's worth of acknowledgements; other tasks get turns between two of these."""
EXPIRED: Final = MessagingError(
    ErrorCode.INVALID_RECEIPT_HANDLE, "the invisible time has passed; the message is or will be delivered again"
)
_ERROR_OF: Final[dict[SettleOutcome, MessagingError | None]] = {
    SettleOutcome.DONE: None,
    SettleOutcome.STALE: None,
    SettleOutcome.EXPIRED: EXPIRED,
}

OutcomesCallback = Callable[[list[SettleOutcome] | None, Exception | None], None]
"""A callback for an outcome for each handle, or for the error that left the outcomes unknown."""


@dataclass(frozen=True, slots=True)
class MessageReceipt:
    """A received message: `handle` is its receipt handle, `lite_topic` is empty unless it is of a lite topic."""

    group: str
    topic: str
    handle: str
    lite_topic: str = ""


def begin_acknowledge(
    group: str,
    topic: str,
    lite_topic: str,
    handles: "Sequence[bytes]",
    call: "Call",
    services: "Services",
    done: OutcomesCallback,
) -> bool:
    """Acknowledge messages of one topic or lite topic, at most `BEGUN_MAX` of them; `done` is called at the end,
    possibly at once.

    `handles` are texts in ASCII; `call` has a checked client id. Return False, with nothing done, if one of the handles
    is unreadable. Raises MessagingError like `acknowledge_messages`.
    """
    require = services.access.require_right
    require("AckMessage", call, GROUP_SUB, group)
    require("AckMessage", call, TOPIC_SUB, topic)
    if lite_topic:
        topic = settled_topic(topic, lite_topic, "")
    client_id, let_go = call.client_id, services.renewal.release_messages
    decode = services.handles.form_for(group, topic).decode_ascii
    try:
        decoded = [decode(text) for text in handles]
    except MessagingError:
        return False  # the others are acknowledged all the same, and this one's outcome has the error

    def take_outcomes(outcomes: list[SettleOutcome] | None, error: Exception | None) -> None:
        if error is None:
            let_go(client_id, group, topic, decoded)
        done(outcomes, error)

    services.messages.consuming.acknowledge_nowait(group, topic, decoded, take_outcomes)
    return True


async def acknowledge_messages(
    group: str, topic: str, receipts: "Iterable[tuple[str, str]]", call: "Call", services: "Services"
) -> list[MessagingError | None]:
    """Acknowledge messages; return an outcome for each, in order. `receipts` are receipt handles, each with the lite
    topic of its message or ""."""
    require_consumer("AckMessage", call, group, topic, services)
    client_id = call.require_client()
    check_group_name(group)
    check_topic_name(topic)
    outcomes: list[MessagingError | None] = []
    turns = WorkTurns()
    left = iter(receipts)
    while some := list(islice(left, BEGUN_MAX)):
        if outcomes:
            await turns.next_turn()
        by_topic: dict[str, list[int]] = {}
        for place, (handle, lite_topic) in enumerate(some):
            by_topic.setdefault(settled_topic(topic, lite_topic, handle), []).append(place)
        found: dict[int, MessagingError | None] = {}
        for name, places in by_topic.items():
            handles = [some[place][0] for place in places]
            found.update(
                zip(places, await _acknowledge_handles(handles, client_id, group, name, services), strict=True)
            )
        outcomes += [found[place] for place in range(len(some))]
    if not outcomes:
        raise MessagingError(ErrorCode.BAD_REQUEST, "the request names no message")
    return outcomes


async def _acknowledge_handles(
    texts: "Sequence[str]", client_id: str, group: str, topic: str, services: "Services"
) -> list[MessagingError | None]:
    form = services.handles.form_for(group, topic)
    decoded = [_decode_handle(text, form) for text in texts]
    handles = [handle for handle in decoded if isinstance(handle, ReceiptHandle)]
    outcomes = iter(await services.messages.consuming.acknowledge(group, topic, handles))
    services.renewal.release_messages(client_id, group, topic, handles)
    return [_ERROR_OF[next(outcomes)] if isinstance(item, ReceiptHandle) else item for item in decoded]


def _decode_handle(text: str, form: HandleForm) -> ReceiptHandle | MessagingError:
    try:
        return form.decode_handle(text)
    except MessagingError as error:
        return error


async def change_invisible(
    receipt: MessageReceipt, invisible_ms: int, call: "Call", services: "Services", *, suspend: bool = False
) -> str:
    """Change how long a received message stays hidden; 0 shows it at once. Return its new receipt handle. With
    `suspend` it counts as no delivery attempt.

    A push consumer that returns a message without a duration (Node.js reads no customized backoff) gets the group's
    backoff: all its attempts would be used up within a moment.
    """
    group = receipt.group
    require_consumer("ChangeInvisibleDuration", call, group, receipt.topic, services)
    client_id = call.require_client()
    check_group_name(group)
    topic = settled_topic(receipt.topic, receipt.lite_topic, receipt.handle)
    checked_invisible_ms(invisible_ms, at_least_ms=0)
    form = services.handles.form_for(group, topic)
    handle = form.decode_handle(receipt.handle)
    if not invisible_ms and not suspend and _is_push(client_id, services):
        invisible_ms = services.renewal.backoff_ms(client_id, group, topic, handle)
    changed = await services.messages.consuming.change_invisible(group, topic, handle, invisible_ms, counts=not suspend)
    services.renewal.release_messages(client_id, group, topic, [handle])
    return form.encode_handle(changed).decode()


def _is_push(client_id: str, services: "Services") -> bool:
    client = services.clients.find_client(client_id)
    return client is not None and client.is_push


async def forward_to_dead_letters(receipt: MessageReceipt, attempts: int, call: "Call", services: "Services") -> None:
    """Forward a message after so many delivery attempts: a copy goes to the group's dead-letter queue, then the message
    is acknowledged. A repetition succeeds.

    Raises INVALID_RECEIPT_HANDLE when another consumer has the message by now, so that the client drops it.
    """
    group = receipt.group
    require_consumer("ForwardMessageToDeadLetterQueue", call, group, receipt.topic, services)
    client_id = call.require_client()
    check_group_name(group)
    topic = settled_topic(receipt.topic, receipt.lite_topic, receipt.handle)
    handle = services.handles.form_for(group, topic).decode_handle(receipt.handle)
    may_create = may_create_group(call, group, services)
    await services.catalog.ensure_subscribed_group(group, (receipt.topic,), may_create=may_create)
    outcome = await services.messages.consuming.dead_letter(group, topic, handle, attempts=attempts)
    services.renewal.release_messages(client_id, group, topic, [handle])
    if outcome is SettleOutcome.EXPIRED:
        raise MessagingError(
            ErrorCode.INVALID_RECEIPT_HANDLE, "the invisible time has passed, and the message was delivered again"
        )
