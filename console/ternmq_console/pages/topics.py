"""The pages of topics: what each holds and which groups read it; forms to create, change, purge and delete one."""

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from ternmq_common.message_type import MessageType
from ternmq_console.calls import SUBSCRIPTIONS
from ternmq_console.pages.base.answering import moved_to, page
from ternmq_console.pages.base.feature import Feature
from ternmq_console.pages.plots import TOPIC_CHARTS, plots_of
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.desk import Message
    from ternmq_console.pages.base.asking import Asking
    from ternmq_console.pages.base.forms import Form

PAGE = 25
TYPES = ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "LITE", "MIXED")
PERMISSIONS = ("READ_WRITE", "READ", "WRITE", "NONE")
FLUSHES = ("FLUSH_BROKER", "FLUSH_SYNC", "FLUSH_ASYNC")


def path_of(name: str) -> str:
    return f"/console/topics/{quote(name, safe='')}"


async def topics(request: "Request", asking: "Asking") -> "Response":
    """Show a page of topics, with the contents of each."""
    search, after = request.query_params.get("search", ""), request.query_params.get("page", "")
    listed = await asking.ask("ListTopics", search=search, limit=PAGE, page=after)
    held = await asyncio.gather(*(_held(topic.name, asking) for topic in listed.topics))
    return await page(
        request, asking, "topics/list.html",
        title="Topics", search=search, after=after, following=listed.next_page,
        rows=list(zip(listed.topics, held, strict=True)), kind_of=kind_of, held_of=held_of, permission_of=permission_of,
        size_of=size_of, oldest_of=oldest_of,
    )  # fmt: skip


async def _held(name: str, asking: "Asking") -> "Message | None":
    """Describe a topic with its contents; None if the user lacks the right, or if it was deleted."""
    return await asking.ask_if_allowed("DescribeTopic", name=name, contents=True)


def held_of(described: "Message") -> int:
    """Return the number of messages in its queues and lite topics."""
    held: int = described.lite_messages + sum(queue.max_offset - queue.min_offset for queue in described.queues)
    return held


def size_of(described: "Message") -> int:
    """Return the approximate number of bytes in its queues."""
    return sum(queue.bytes for queue in described.queues)


def oldest_of(described: "Message") -> "Message | None":
    """Return the store time of its oldest message; None if it has none."""
    times = [queue.oldest for queue in described.queues if queue.HasField("oldest")]
    return min(times, key=lambda time: (time.seconds, time.nanos), default=None)


def permission_of(topic: "Message") -> str:
    """Return the name of its permission."""
    return definition_pb2.Permission.Name(topic.permission)


def kind_of(topic: "Message") -> str:
    """Return the name of its type for people."""
    return "mixed" if topic.mixed else MessageType(topic.type).name.lower()


async def topic(request: "Request", asking: "Asking", error: str = "", form: "Form | None" = None) -> "Response":
    """Show one topic."""
    name = request.path_params["name"]
    described = await asking.ask("DescribeTopic", name=name, contents=True)
    return await page(
        request, asking, "topics/topic.html",
        title=name, described=described, topic=described.topic, kind=kind_of(described.topic),
        held=held_of(described), size=size_of(described), oldest=oldest_of(described),
        readers=await _readers(name, described, asking),
        plots=await plots_of(request, asking, TOPIC_CHARTS, urlencode({"topic": name}), topic=name),
        permissions=PERMISSIONS, flushes=FLUSHES,
        permission=permission_of(described.topic),
        flush=admin_pb2.Flush.Name(described.topic.flush),
        error=error, form=form, status=400 if error else 200,
    )  # fmt: skip


async def _readers(name: str, described: "Message", asking: "Asking") -> "dict[str, Message | None]":
    """Return the groups that received messages of the topic or subscribe to it, by name.

    Their values are the subscriptions of members that are connected here; None without such members.
    """
    found = await asking.ask_if_allowed(SUBSCRIPTIONS, topic={"name": name})
    connected = {} if found is None else {each.group.name: each for each in found.subscription_info}
    return {group: connected.get(group) for group in sorted({*described.groups, *connected})}


async def new(request: "Request", asking: "Asking", error: str = "", form: "Form | None" = None) -> "Response":
    """Show the form for a new topic."""
    return await page(
        request, asking, "topics/new.html",
        title="New topic", types=TYPES, error=error, form=form, status=400 if error else 200,
    )  # fmt: skip


async def create(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Create a topic."""
    asked: dict[str, Any] = {"name": form.text("name")}
    kind = form.text("type") or "NORMAL"
    if kind == "MIXED":
        asked |= {"type": MessageType.NORMAL, "mixed": True}
    elif kind in TYPES:
        asked["type"] = MessageType[kind]
    if form.is_set("queues"):
        asked["queues"] = form.whole("queues", least=1)
    if form.is_set("retention"):
        asked["retention"] = form.duration("retention")
    if form.is_set("lite_ttl"):
        asked["lite_ttl"] = form.duration("lite_ttl")
    made = await asking.ask("CreateTopic", topic=asked)
    asking.session.notice = f"Topic {asked['name']} {'was created' if made.created else 'exists already'}."
    return moved_to(path_of(asked["name"]))


async def change(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Change a topic by the form; empty fields stay as they are."""
    name = request.path_params["name"]
    asked: dict[str, Any] = {}
    if form.is_set("queues"):
        asked["queues"] = form.whole("queues", least=1)
    if form.is_set("retention"):
        asked["retention"] = form.duration("retention")
    if form.text("permission") in PERMISSIONS:
        asked["permission"] = definition_pb2.Permission.Value(form.text("permission"))
    if form.text("flush") in FLUSHES:
        asked["flush"] = admin_pb2.Flush.Value(form.text("flush"))
    await asking.ask("UpdateTopic", name=name, **asked)
    asking.session.notice = f"Topic {name} was changed."
    return moved_to(path_of(name))


async def purge(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Remove the topic's messages, all or those before a time."""
    name = request.path_params["name"]
    form.confirm(name)
    asked = {"before": form.moment("before")} if form.is_set("before") else {}
    purged = await asking.ask("PurgeTopic", name=name, **asked)
    removed = sum(queue.after - queue.first for queue in purged.queues)
    asking.session.notice = f"{removed:,} messages of topic {name} were removed."
    return moved_to(path_of(name))


async def delete(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Delete a topic."""
    name = request.path_params["name"]
    form.confirm(name)
    await asking.ask("DeleteTopic", name=name)
    asking.session.notice = f"Topic {name} was deleted."
    return moved_to("/console/topics")


FEATURE = Feature(
    homes=(("/topics", "Topics"),),
    shown={"/topics": topics, "/topics/{name}": topic, "/new/topic": new},
    done={
        "/new/topic": (create, new),
        "/topics/{name}/change": (change, topic),
        "/topics/{name}/purge": (purge, topic),
        "/topics/{name}/delete": (delete, topic),
    },
)
