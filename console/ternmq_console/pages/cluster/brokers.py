"""The pages of brokers and proxies: health and load of each; forms to drain, restrict and remove a broker."""

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import quote

from ternmq_common.errors import ErrorCode
from ternmq_common.removal_warning import removal_warning
from ternmq_console.pages.base.answering import moved_to, page
from ternmq_console.pages.base.asking import Refused
from ternmq_console.pages.base.feature import Feature
from ternmq_console.pages.base.forms import BadForm
from ternmq_console.pages.cluster import telling
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.desk import Message
    from ternmq_console.pages.base.asking import Asking
    from ternmq_console.pages.base.forms import Form

PERMISSIONS = ("READ_WRITE", "READ", "WRITE", "NONE")
# Backlogs of a broker that are listed, the largest first.
BACKLOGS = 200


def path_of(name: str) -> str:
    return f"/console/brokers/{quote(name, safe='')}"


async def brokers(request: "Request", asking: "Asking") -> "Response":
    """Show the health of the components, the server itself, and all brokers and proxies."""
    health, server, listed, proxies = await asyncio.gather(
        asking.ask_if_allowed("GetStatus"), asking.ask_if_allowed("GetServerInfo"),
        asking.ask_if_allowed("ListBrokers"), asking.ask_if_allowed("ListProxies"),
    )  # fmt: skip
    return await page(
        request, asking, "cluster/brokers.html",
        title="Brokers", health=health, server=server, telling=telling, proxies=proxies,
        brokers=None if listed is None else list(listed.brokers),
    )  # fmt: skip


async def broker_named(name: str, asking: "Asking") -> "Message":
    """Return the broker of that name; raises Refused if there is none."""
    listed = await asking.ask("ListBrokers")
    found = next((each for each in listed.brokers if each.name == name), None)
    if found is None:
        raise Refused(ErrorCode.NOT_FOUND, f"broker {name!r} does not exist")
    return found


async def broker(request: "Request", asking: "Asking", error: str = "", form: "Form | None" = None) -> "Response":
    """Show one broker."""
    name = request.path_params["name"]
    return await page(
        request, asking, "cluster/broker.html",
        title=name, broker=await broker_named(name, asking), telling=telling, permissions=PERMISSIONS,
        error=error, form=form, status=400 if error else 200,
    )  # fmt: skip


async def remaining(request: "Request", asking: "Asking") -> "Response":
    """Show what would be lost with a broker, which it counts on request; that may take a while."""
    name = request.path_params["name"]
    answer, error, status = None, "", 200
    try:
        answer = await asking.ask("BrokerRemaining", name=name)
    except Refused as refused:
        if refused.is_missing:
            raise
        error, status = refused.message, refused.status
    told = [] if answer is None else answer.backlogs
    backlogs = sorted(told, key=lambda each: (-each.messages, each.group, each.topic))
    return await page(
        request, asking, "cluster/remaining.html",
        title=f"Unfinished on {name}", name=name, answer=answer, backlogs=backlogs[:BACKLOGS],
        more=len(backlogs[BACKLOGS:]), error=error, status=status,
    )  # fmt: skip


async def drain(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Drain a broker, or end its draining."""
    name = request.path_params["name"]
    draining = form.text("draining") == "yes"
    await asking.ask("UpdateBroker", name=name, draining=draining)
    said = "is draining: new messages go to others" if draining else "stores messages again"
    asking.session.notice = f"Broker {name} {said}."
    return moved_to(path_of(name))


async def permit(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Set what clients may do with all queues of a broker."""
    name, permission = request.path_params["name"], form.text("permission")
    if permission not in PERMISSIONS:
        raise BadForm("permission", "choose what clients may do")
    await asking.ask("UpdateBroker", name=name, permission=definition_pb2.Permission.Value(permission))
    asking.session.notice = f"Broker {name} was changed."
    return moved_to(path_of(name))


async def remove(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Remove a broker."""
    name = request.path_params["name"]
    form.confirm(name)
    removed = await asking.ask("RemoveBroker", name=name, force=form.is_set("force"))
    notice = f"Broker {name} was removed."
    if removed.HasField("lost"):
        notice += f" Lost with it: {removal_warning(removed.topics, telling.told_of(removed.lost))}."
    asking.session.notice = notice
    return moved_to("/console/brokers")


FEATURE = Feature(
    homes=(("/brokers", "Brokers"),),
    shown={"/brokers": brokers, "/brokers/{name}": broker, "/brokers/{name}/remaining": remaining},
    done={
        "/brokers/{name}/drain": (drain, broker),
        "/brokers/{name}/permission": (permit, broker),
        "/brokers/{name}/remove": (remove, broker),
    },
)
