"""The pages of open transactions, and the forms to commit or roll them back."""

from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from ternmq_console.pages.base.answering import moved_to, page
from ternmq_console.pages.base.feature import Feature
from ternmq_console.pages.messages.bodies import FORMS
from ternmq_console.pages.messages.message import body_values
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.desk import Message
    from ternmq_console.pages.base.asking import Asking
    from ternmq_console.pages.base.forms import Form

PAGE = 25
# A message has one transaction, as a rule; a call examines this many to find it.
LOOKED_AT = 1000
STATES = {"PENDING": "wait for their producer", "DISCARDED": "no producer ended them"}
_PATH = "/console/transactions"


def path_of(transaction_id: str) -> str:
    return f"{_PATH}/{quote(transaction_id, safe='')}"


def list_path(topic: str, message_id: str, state: str = "PENDING") -> str:
    """Return the path of the list, of one topic and message if they are not empty."""
    return f"{_PATH}?{urlencode({'state': state, 'topic': topic, 'message_id': message_id})}"


async def transactions(request: "Request", asking: "Asking") -> "Response":
    """Show a page of transactions in one state, of one topic or all, of one message or all."""
    query = request.query_params
    state = query.get("state", "") if query.get("state", "") in STATES else "PENDING"
    topic, message_id, after = (
        query.get("topic", "").strip(),
        query.get("message_id", "").strip(),
        query.get("page", ""),
    )
    listed = await asking.ask(
        "ListTransactions",
        state=state, topic=topic, message_id=message_id, limit=LOOKED_AT if message_id else PAGE, page=after,
    )  # fmt: skip
    return await page(
        request, asking, "waiting/transactions.html",
        title="Transactions", topic=topic, message_id=message_id, state=state, states=STATES,
        first=list_path(topic, message_id, state), after=after, following=listed.next_page,
        rows=[(each, path_of(each.transaction_id)) for each in listed.transactions],
    )  # fmt: skip


async def transaction(request: "Request", asking: "Asking", error: str = "", form: "Form | None" = None) -> "Response":
    """Show a transaction with its half message."""
    del form
    transaction_id = request.path_params["id"]
    found = await asking.ask("GetTransaction", transaction_id=transaction_id)
    state = admin_pb2.TransactionState.Name(found.transaction.state)
    return await page(
        request, asking, "waiting/transaction.html",
        title="Transaction", transaction=found.transaction, message=found.message, path=path_of(transaction_id),
        state=state, is_open=state in STATES, properties=sorted(found.message.user_properties.items()), forms=FORMS,
        **await body_values(found.message, request.query_params.get("as", "")),
        error=error, status=400 if error else 200,
    )  # fmt: skip


async def commit(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Commit a transaction, so that its message is delivered."""
    return await _resolve(definition_pb2.COMMIT, "committed: its message is delivered", request, asking, form)


async def roll_back(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Roll a transaction back, so that its message is dropped."""
    return await _resolve(definition_pb2.ROLLBACK, "rolled back: its message is never delivered", request, asking, form)


async def _resolve(
    resolution: "definition_pb2.TransactionResolution", done: str, request: "Request", asking: "Asking", form: "Form"
) -> "Response":
    transaction_id = request.path_params["id"]
    found: Message = await asking.ask("GetTransaction", transaction_id=transaction_id)
    form.confirm(found.transaction.topic)
    await asking.ask("ResolveTransaction", transaction_id=transaction_id, resolution=resolution)
    asking.session.notice = f"The transaction of topic {found.transaction.topic} was {done}."
    return moved_to(path_of(transaction_id))


FEATURE = Feature(
    homes=(("/transactions", "Transactions"),),
    shown={"/transactions": transactions, "/transactions/{id}": transaction},
    done={
        "/transactions/{id}/commit": (commit, transaction),
        "/transactions/{id}/rollback": (roll_back, transaction),
    },
)
