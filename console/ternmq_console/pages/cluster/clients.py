"""The page of connected clients, of all proxies."""

from typing import TYPE_CHECKING

from ternmq_console.pages.base.feature import PageFeature
from ternmq_console.pages.base.page_response import render_page
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.operator_calls import Message
    from ternmq_console.pages.base.page_context import PageContext

PAGE = 25
# Topics of a client that are shown; it may have thousands.
TOPICS = 5


def client_kind(client: "Message") -> str:
    """Return the name of the client's type, the number of an unknown type, which clients may send."""
    value = definition_pb2.ClientType.DESCRIPTOR.values_by_number.get(client.client_type)
    return str(client.client_type) if value is None else str(value.name)


async def show_clients(request: "Request", asking: "PageContext") -> "Response":
    """Show a page of clients, of one group or topic if they are given."""
    group, topic, after = (request.query_params.get(field, "").strip() for field in ("group", "topic", "page"))
    listed = await asking.call_if_allowed("ListClients", group=group, topic=topic, page=after, limit=PAGE)
    return await render_page(
        request, asking, "cluster/clients.html",
        title="Clients", group=group, topic=topic, after=after, listed=listed, kind_of=client_kind, topics_shown=TOPICS,
    )  # fmt: skip


FEATURE = PageFeature(homes=(("/clients", "Clients"),), shown={"/clients": show_clients}, done={})
