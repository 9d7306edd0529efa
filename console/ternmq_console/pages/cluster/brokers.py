"""The pages of brokers and proxies: health and load of each; forms to drain, restrict and remove a broker."""

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import quote

from ternmq_common.catalog.removal_warning import removal_warning
from ternmq_common.errors import ErrorCode
from ternmq_console.pages.base.feature import PageFeature
from ternmq_console.pages.base.forms import BadForm
from ternmq_console.pages.base.page_context import CallRefused
from ternmq_console.pages.base.page_response import redirect_to, render_page
from ternmq_console.pages.cluster import broker_facts
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.operator_calls import Message
    from ternmq_console.pages.base.forms import PageForm
    from ternmq_console.pages.base.page_context import PageContext

PERMISSIONS = ("READ_WRITE", "READ", "WRITE", "NONE")
# Backlogs of a broker that are listed, the largest first.
BACKLOGS = 200


def broker_path(name: str) -> str:
    return f"/console/brokers/{quote(name, safe='')}"


async def show_brokers(request: "Request", asking: "PageContext") -> "Response":
    """Show the health of the components, the server itself, and all brokers and proxies."""
    health, server, listed, proxies = await asyncio.gather(
        asking.call_if_allowed("GetStatus"), asking.call_if_allowed("GetServerInfo"),
        asking.call_if_allowed("ListBrokers"), asking.call_if_allowed("ListProxies"),
    )  # fmt: skip
    return await render_page(
        request, asking, "cluster/brokers.html",
        title="Brokers", health=health, server=server, telling=broker_facts, proxies=proxies,
        brokers=None if listed is None else list(listed.brokers),
    )  # fmt: skip


async def find_broker(name: str, asking: "PageContext") -> "Message":
    """Return the broker of that name; raises Refused if there is none."""
    listed = await asking.call_server("ListBrokers")
    found = next((each for each in listed.brokers if each.name == name), None)
    if found is None:
        raise CallRefused(ErrorCode.NOT_FOUND, f"broker {name!r} does not exist")
    return found


async def show_broker(
    request: "Request", asking: "PageContext", error: str = "", form: "PageForm | None" = None
) -> "Response":
    """Show one broker."""
    name = request.path_params["name"]
    return await render_page(
        request, asking, "cluster/broker.html",
        title=name, broker=await find_broker(name, asking), telling=broker_facts, permissions=PERMISSIONS,
        error=error, form=form, status=400 if error else 200,
    )  # fmt: skip


async def show_remaining(request: "Request", asking: "PageContext") -> "Response":
    """Show what would be lost with a broker, which it counts on request; that may take a while."""
    name = request.path_params["name"]
    answer, error, status = None, "", 200
    try:
        answer = await asking.call_server("BrokerRemaining", name=name)
    except CallRefused as refused:
        if refused.is_missing:
            raise
        error, status = refused.message, refused.status
    listed = [] if answer is None else answer.backlogs
    backlogs = sorted(listed, key=lambda each: (-each.messages, each.group, each.topic))
    return await render_page(
        request, asking, "cluster/remaining.html",
        title=f"Unfinished on {name}", name=name, answer=answer, backlogs=backlogs[:BACKLOGS],
        more=len(backlogs[BACKLOGS:]), error=error, status=status,
    )  # fmt: skip


async def drain_broker(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Drain a broker, or end its draining."""
    name = request.path_params["name"]
    draining = form.text("draining") == "yes"
    await asking.call_server("UpdateBroker", name=name, draining=draining)
    change = "is draining: new messages go to others" if draining else "stores messages again"
    asking.session.notice = f"Broker {name} {change}."
    return redirect_to(broker_path(name))


async def change_permission(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Set what clients may do with all queues of a broker."""
    name, permission = request.path_params["name"], form.text("permission")
    if permission not in PERMISSIONS:
        raise BadForm("permission", "choose what clients may do")
    await asking.call_server("UpdateBroker", name=name, permission=definition_pb2.Permission.Value(permission))
    asking.session.notice = f"Broker {name} was changed."
    return redirect_to(broker_path(name))


async def remove_broker(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Remove a broker."""
    name = request.path_params["name"]
    form.check_confirmation(name)
    removed = await asking.call_server("RemoveBroker", name=name, force=form.is_set("force"))
    notice = f"Broker {name} was removed."
    if removed.HasField("lost"):
        notice += f" Lost with it: {removal_warning(removed.topics, broker_facts.reported_load(removed.lost))}."
    asking.session.notice = notice
    return redirect_to("/console/brokers")


FEATURE = PageFeature(
    homes=(("/brokers", "Brokers"),),
    shown={"/brokers": show_brokers, "/brokers/{name}": show_broker, "/brokers/{name}/remaining": show_remaining},
    done={
        "/brokers/{name}/drain": (drain_broker, show_broker),
        "/brokers/{name}/permission": (change_permission, show_broker),
        "/brokers/{name}/remove": (remove_broker, show_broker),
    },
)
