"""The pages of open transactions, and the forms to commit or roll them back."""

from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from ternmq_console.pages.base.feature import PageFeature
from ternmq_console.pages.base.page_response import redirect_to, render_page
from ternmq_console.pages.messages.bodies import FORMS
from ternmq_console.pages.messages.message import body_values
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.operator_calls import Message
    from ternmq_console.pages.base.forms import PageForm
    from ternmq_console.pages.base.page_context import PageContext

PAGE = 25
# A message has one transaction, as a rule; a call examines this many to find it.
LOOKED_AT = 1000
STATES = {"PENDING": "wait for their producer", "DISCARDED": "no producer ended them"}
_PATH = "/console/transactions"


def transaction_path(transaction_id: str) -> str:
    return f"{_PATH}/{quote(transaction_id, safe='')}"


def list_path(topic: str, message_id: str, state: str = "PENDING") -> str:
    """Return the path of the list, of one topic and message if they are not empty."""
    return f"{_PATH}?{urlencode({'state': state, 'topic': topic, 'message_id': message_id})}"


async def show_transactions(request: "Request", asking: "PageContext") -> "Response":
    """Show a page of transactions in one state, of one topic or all, of one message or all."""
    query = request.query_params
    state = query.get("state", "") if query.get("state", "") in STATES else "PENDING"
    topic, message_id, after = (
        query.get("topic", "").strip(),
        query.get("message_id", "").strip(),
        query.get("page", ""),
    )
    listed = await asking.call_server(
        "ListTransactions",
        state=state, topic=topic, message_id=message_id, limit=LOOKED_AT if message_id else PAGE, page=after,
    )  # fmt: skip
    return await render_page(
        request, asking, "waiting/transactions.html",
        title="Transactions", topic=topic, message_id=message_id, state=state, states=STATES,
        first=list_path(topic, message_id, state), after=after, following=listed.next_page,
        rows=[(each, transaction_path(each.transaction_id)) for each in listed.transactions],
    )  # fmt: skip


async def show_transaction(
    request: "Request", asking: "PageContext", error: str = "", form: "PageForm | None" = None
) -> "Response":
    """Show a transaction with its half message."""
    del form
    transaction_id = request.path_params["id"]
    found = await asking.call_server("GetTransaction", transaction_id=transaction_id)
    state = admin_pb2.TransactionState.Name(found.transaction.state)
    return await render_page(
        request, asking, "waiting/transaction.html",
        title="Transaction", transaction=found.transaction, message=found.message,
        path=transaction_path(transaction_id),
        state=state, is_open=state in STATES, properties=sorted(found.message.user_properties.items()), forms=FORMS,
        **await body_values(found.message, request.query_params.get("as", "")),
        error=error, status=400 if error else 200,
    )  # fmt: skip


async def commit_transaction(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Commit a transaction, so that its message is delivered."""
    return await _resolve_transaction(
        definition_pb2.COMMIT, "committed: its message is delivered", request, asking, form
    )


async def roll_back(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Roll a transaction back, so that its message is dropped."""
    return await _resolve_transaction(
        definition_pb2.ROLLBACK, "rolled back: its message is never delivered", request, asking, form
    )


async def _resolve_transaction(
    resolution: "definition_pb2.TransactionResolution",
    done: str,
    request: "Request",
    asking: "PageContext",
    form: "PageForm",
) -> "Response":
    transaction_id = request.path_params["id"]
    found: Message = await asking.call_server("GetTransaction", transaction_id=transaction_id)
    form.check_confirmation(found.transaction.topic)
    await asking.call_server("ResolveTransaction", transaction_id=transaction_id, resolution=resolution)
    asking.session.notice = f"The transaction of topic {found.transaction.topic} was {done}."
    return redirect_to(transaction_path(transaction_id))


FEATURE = PageFeature(
    homes=(("/transactions", "Transactions"),),
    shown={"/transactions": show_transactions, "/transactions/{id}": show_transaction},
    done={
        "/transactions/{id}/commit": (commit_transaction, show_transaction),
        "/transactions/{id}/rollback": (roll_back, show_transaction),
    },
)
