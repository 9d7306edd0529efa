"""Makes and checks handles of clients with the registry's current keys."""

from typing import TYPE_CHECKING, Final

from ternmq_common.catalog.handle_keys import HandleKey, HandleKeys
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.names import (
    check_group_name,
    check_lite_topic_name,
    check_topic_name,
    is_legal_lite,
    is_lite_queue,
    lite_queue_topic,
)
from ternmq_common.shard.transaction_id import check_handle, transaction_of_handle
from ternmq_proxy.handle_form import HandleForm, lite_name_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_common.shard.model import OpenTransaction, StoredMessage
    from ternmq_proxy.services import Services

FORMS_MAX: Final = 1024


class HandleForms:
    """Creates and checks handles. It follows the registry's keys: a handle with a key that is no longer accepted is
    refused."""

    __slots__ = ("_forms", "_keys", "_known", "_read")

    def __init__(self, keys: "Callable[[], tuple[HandleKey, ...]]") -> None:
        """`keys` returns the registry's keys, as far as this process knows them, from memory."""
        self._read = keys
        self._known: tuple[HandleKey, ...] = ()
        self._keys: HandleKeys | None = None
        self._forms: dict[tuple[str, str], HandleForm] = {}

    @property
    def keys(self) -> HandleKeys:
        """Return the keys for recall handles and transaction ids."""
        known = self._read()
        if known is not self._known:
            self._take_keys(known)
        if self._keys is None:
            raise MessagingError(
                ErrorCode.INTERNAL_SERVER_ERROR,
                "the registry has no keys for handles: make some with `ternmq registry rotate-handle-key --all`",
            )
        return self._keys

    def form_for(self, group: str, topic: str) -> HandleForm:
        """Return the form of receipt handles of the group's messages of the topic, or of the lite topic with that queue
        topic (`settled_topic`). Raises MessagingError for an illegal name."""
        keys = self.keys
        form = self._forms.get((group, topic))
        if form is None:
            if not is_lite_queue(topic):
                check_topic_name(topic)
            form = HandleForm(check_group_name(group), topic, keys)
            if len(self._forms) >= FORMS_MAX:
                del self._forms[next(iter(self._forms))]
            self._forms[group, topic] = form
        return form

    def _take_keys(self, known: tuple[HandleKey, ...]) -> None:
        # Each change of the registry reads the keys again, and nearly always they are the same.
        if known != self._known:
            self._keys = HandleKeys(known) if known else None
            self._forms.clear()
        self._known = known


def settled_topic(topic: str, lite_topic: str, handle: str) -> str:
    """Return the topic with which a message is acknowledged: its own, or that of its lite topic's queue. Raises
    ILLEGAL_TOPIC and ILLEGAL_LITE_TOPIC.

    The handle names the lite topic too, since Java's client leaves it out of ChangeInvisibleDuration, and a message
    that can't be given back would block its lite topic for hours.
    """
    check_topic_name(topic)
    if lite_topic:
        return lite_queue_topic(topic, check_lite_topic_name(lite_topic))
    named = lite_name_in(handle)
    return lite_queue_topic(topic, named) if is_legal_lite(named) else topic


async def found_transaction(handle: str, services: "Services") -> "tuple[OpenTransaction, StoredMessage]":
    """Return the outcome of the handle's transaction, and its message; INVALID_TRANSACTION_ID if no server of
    this registry gave it. Only with the transaction is its topic known, for which the handle was created."""
    transaction, stored = await services.messages.inspecting.transaction(transaction_of_handle(handle))
    check_handle(handle, transaction.topic, services.handles.keys)
    return transaction, stored
