"""Ends the transaction of a test message, which is sent as a half message with a chosen outcome.

The answer of the send does not contain the transaction's id, so it is found among the open ones by the message's id. If
that fails, the page says that the message was sent and its transaction is open.
"""

from typing import TYPE_CHECKING

from ternmq_common.errors import ErrorCode
from ternmq_console.operator_calls import ServerBusy
from ternmq_console.pages.base.forms import BadForm
from ternmq_console.pages.base.page_context import CallRefused
from ternmq_console.pages.base.page_response import redirect_to, render_page
from ternmq_console.pages.messages.message import found_path
from ternmq_console.pages.waiting.transactions import LOOKED_AT, list_path, transaction_path
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.pages.base.forms import PageForm
    from ternmq_console.pages.base.page_context import PageContext

FIELD = "outcome"
OPEN = "open"
OUTCOMES = {
    "commit": "Commit: it is delivered immediately",
    "rollback": "Roll back: it is never delivered",
    OPEN: "Leave open: end it on the page of transactions",
}
_RESOLUTIONS = {"commit": definition_pb2.COMMIT, "rollback": definition_pb2.ROLLBACK}
# Fields that transactions do not have; the server would silently drop them.
_OF_OTHER_TYPES = ("message_group", "delay", "delivery")


def read_outcome(form: "PageForm") -> str:
    """Return the chosen outcome; empty if the message is no transaction. Raises BadForm."""
    outcome = form.text(FIELD)
    if outcome and outcome not in OUTCOMES:
        raise BadForm(FIELD, f"{outcome!r} is no outcome of a transaction")
    if outcome and any(form.is_set(field) for field in _OF_OTHER_TYPES):
        raise BadForm(FIELD, "a transaction has neither a message group nor a time of delivery")
    return outcome


async def end_transaction(
    request: "Request", asking: "PageContext", outcome: str, topic: str, message_id: str
) -> "Response":
    """End the transaction of a sent half message by its outcome, and redirect to the page that shows it."""
    if outcome == OPEN:
        asking.session.notice = f"Half message {message_id} was sent, and its transaction is open."
        return redirect_to(list_path(topic, message_id))
    try:
        transaction_id = await _find_transaction(asking, topic, message_id)
        await asking.call_server("ResolveTransaction", transaction_id=transaction_id, resolution=_RESOLUTIONS[outcome])
    except CallRefused as error:
        return await _show_left_open(request, asking, outcome, topic, message_id, error.message, error.status)
    except ServerBusy as error:
        return await _show_left_open(request, asking, outcome, topic, message_id, f"{error}", 503)
    if outcome == "commit":
        asking.session.notice = f"Message {message_id} was sent, and its transaction committed."
        return redirect_to(found_path(topic, message_id))
    asking.session.notice = (
        f"Half message {message_id} was sent, and its transaction rolled back: it is never delivered."
    )
    return redirect_to(transaction_path(transaction_id))


async def _find_transaction(asking: "PageContext", topic: str, message_id: str) -> str:
    """Return the id of a message's open transaction; raises Refused if it is not open any more."""
    after = ""
    while True:
        listed = await asking.call_server(
            "ListTransactions", topic=topic, message_id=message_id, limit=LOOKED_AT, page=after
        )
        for each in listed.transactions:
            return str(each.transaction_id)
        after = listed.next_page
        if not after:
            raise CallRefused(
                ErrorCode.INVALID_TRANSACTION_ID,
                "it is not open any more: another operator or its producer ended it",
            )


async def _show_left_open(
    request: "Request", asking: "PageContext", outcome: str, topic: str, message_id: str, why: str, status: int
) -> "Response":
    return await render_page(
        request, asking, "messages/left_open.html",
        title=f"Sent to {topic}, and not ended", topic=topic, message_id=message_id, why=why,
        verb="committed" if outcome == "commit" else "rolled back", path=list_path(topic, message_id), status=status,
    )  # fmt: skip
