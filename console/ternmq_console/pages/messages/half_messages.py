"""A test message that is a transaction: it is sent as a half message, and its outcome is chosen with it.

The answer of the send does not name the transaction, so it is looked for among the open ones, by the message's id. What
fails after the half message was stored is told as that: it was sent, and its transaction is open.
"""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode
from ternmq_console.desk import DeskBusy
from ternmq_console.pages.base.answering import moved_to, page
from ternmq_console.pages.base.asking import Refused
from ternmq_console.pages.base.forms import BadForm
from ternmq_console.pages.messages.message import found_path
from ternmq_console.pages.waiting.transactions import LOOKED_AT, list_path, path_of
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.pages.base.asking import Asking
    from ternmq_console.pages.base.forms import Form

FIELD = "outcome"
OPEN = "open"
OUTCOMES = {
    "commit": "Commit: consumers get it at once",
    "rollback": "Roll back: nobody gets it",
    OPEN: "Leave open: it waits on the page of transactions",
}
_RESOLUTIONS = {"commit": definition_pb2.COMMIT, "rollback": definition_pb2.ROLLBACK}
# No field of these has a place in a transaction: the server would drop it without a word.
_OF_OTHER_TYPES = ("message_group", "delay", "delivery")


def outcome_of(form: "Form") -> str:
    """The one that was chosen; empty if the message is no transaction. BadForm."""
    outcome = form.text(FIELD)
    if outcome and outcome not in OUTCOMES:
        raise BadForm(FIELD, f"{outcome!r} is no outcome of a transaction")
    if outcome and any(form.is_set(field) for field in _OF_OTHER_TYPES):
        raise BadForm(FIELD, "a transaction has neither a message group nor a time of delivery")
    return outcome


async def end(request: "Request", asking: "Asking", outcome: str, topic: str, message_id: str) -> "Response":
    """Bring about the outcome of a half message that was sent, and lead to where it is seen."""
    if outcome == OPEN:
        asking.session.notice = f"Half message {message_id} was sent, and its transaction is open."
        return moved_to(list_path(topic, message_id))
    try:
        transaction_id = await _transaction_of(asking, topic, message_id)
        await asking.ask("ResolveTransaction", transaction_id=transaction_id, resolution=_RESOLUTIONS[outcome])
    except Refused as error:
        return await _left_open(request, asking, outcome, topic, message_id, error.message, error.status)
    except DeskBusy as error:
        return await _left_open(request, asking, outcome, topic, message_id, f"{error}", 503)
    if outcome == "commit":
        asking.session.notice = f"Message {message_id} was sent, and its transaction committed."
        return moved_to(found_path(topic, message_id))
    asking.session.notice = f"Half message {message_id} was sent, and its transaction rolled back: nobody gets it."
    return moved_to(path_of(transaction_id))


async def _transaction_of(asking: "Asking", topic: str, message_id: str) -> str:
    """The id of the open transaction of a message; Refused if it is not open any more."""
    after = ""
    while True:
        listed = await asking.ask("ListTransactions", topic=topic, message_id=message_id, limit=LOOKED_AT, page=after)
        for each in listed.transactions:
            return str(each.transaction_id)
        after = listed.next_page
        if not after:
            raise Refused(
                ErrorCode.INVALID_TRANSACTION_ID,
                "it is not open any more: another operator or its producer ended it",
            )


async def _left_open(
    request: "Request", asking: "Asking", outcome: str, topic: str, message_id: str, why: str, status: int
) -> "Response":
    return await page(
        request, asking, "messages/left_open.html",
        title=f"Sent to {topic}, and not ended", topic=topic, message_id=message_id, why=why,
        verb="committed" if outcome == "commit" else "rolled back", path=list_path(topic, message_id), status=status,
    )  # fmt: skip
