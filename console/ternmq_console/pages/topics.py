"""The pages of topics: what each holds and which groups read it; forms to create, change, purge and delete one."""

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.resources.topic_settings import TOPIC_SETTINGS
from ternmq_console.calls import SUBSCRIPTIONS
from ternmq_console.pages.base.feature import PageFeature
from ternmq_console.pages.base.page_response import redirect_to, render_page
from ternmq_console.pages.base.setting_forms import change_inputs, creation_inputs, read_settings, setting_facts
from ternmq_console.pages.plots import TOPIC_CHARTS, build_plots
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.operator_calls import Message
    from ternmq_console.pages.base.forms import PageForm
    from ternmq_console.pages.base.page_context import PageContext

PAGE = 25
TYPES = ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "LITE", "MIXED")


def topic_path(name: str) -> str:
    return f"/console/topics/{quote(name, safe='')}"


async def show_topics(request: "Request", asking: "PageContext") -> "Response":
    """Show a page of topics, with the contents of each."""
    search, after = request.query_params.get("search", ""), request.query_params.get("page", "")
    listed = await asking.call_server("ListTopics", search=search, limit=PAGE, page=after)
    held = await asyncio.gather(*(_describe_contents(topic.name, asking) for topic in listed.topics))
    return await render_page(
        request, asking, "topics/list.html",
        title="Topics", search=search, after=after, following=listed.next_page,
        rows=list(zip(listed.topics, held, strict=True)), kind_of=type_name, held_of=count_held,
        permission_of=permission_name,
        size_of=sum_bytes, oldest_of=find_oldest,
    )  # fmt: skip


async def _describe_contents(name: str, asking: "PageContext") -> "Message | None":
    """Describe a topic with its contents; None if the user lacks the right, or if it was deleted."""
    return await asking.call_if_allowed("DescribeTopic", name=name, contents=True)


def count_held(described: "Message") -> int:
    """Return the number of messages in its queues and lite topics."""
    held: int = described.lite_messages + sum(queue.max_offset - queue.min_offset for queue in described.queues)
    return held


def sum_bytes(described: "Message") -> int:
    """Return the approximate number of bytes in its queues."""
    return sum(queue.bytes for queue in described.queues)


def find_oldest(described: "Message") -> "Message | None":
    """Return the store time of its oldest message; None if it has none."""
    times = [queue.oldest for queue in described.queues if queue.HasField("oldest")]
    return min(times, key=lambda time: (time.seconds, time.nanos), default=None)


def permission_name(topic: "Message") -> str:
    """Return the name of its permission."""
    return definition_pb2.Permission.Name(topic.permission)


def type_name(topic: "Message") -> str:
    """Return the name of its type for people."""
    return "mixed" if topic.mixed else MessageType(topic.type).name.lower()


async def show_topic(
    request: "Request", asking: "PageContext", error: str = "", form: "PageForm | None" = None
) -> "Response":
    """Show one topic."""
    name = request.path_params["name"]
    described = await asking.call_server("DescribeTopic", name=name, contents=True)
    return await render_page(
        request, asking, "topics/topic.html",
        title=name, described=described, topic=described.topic, kind=type_name(described.topic),
        held=count_held(described), size=sum_bytes(described), oldest=find_oldest(described),
        readers=await _list_readers(name, described, asking),
        plots=await build_plots(request, asking, TOPIC_CHARTS, urlencode({"topic": name}), topic=name),
        facts=[*setting_facts(TOPIC_SETTINGS, described.topic)],
        inputs=[*change_inputs(TOPIC_SETTINGS, described.topic)],
        error=error, form=form, status=400 if error else 200,
    )  # fmt: skip


async def _list_readers(name: str, described: "Message", asking: "PageContext") -> "dict[str, Message | None]":
    """Return the groups that received messages of the topic or subscribe to it, by name.

    Their values are the subscriptions of members that are connected here; None without such members.
    """
    found = await asking.call_if_allowed(SUBSCRIPTIONS, topic={"name": name})
    connected = {} if found is None else {each.group.name: each for each in found.subscription_info}
    return {group: connected.get(group) for group in sorted({*described.groups, *connected})}


async def show_new_topic(
    request: "Request", asking: "PageContext", error: str = "", form: "PageForm | None" = None
) -> "Response":
    """Show the form for a new topic."""
    return await render_page(
        request, asking, "topics/new.html",
        title="New topic", types=TYPES, inputs=[*creation_inputs(TOPIC_SETTINGS, form)], error=error, form=form,
        status=400 if error else 200,
    )  # fmt: skip


async def create_topic(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Create a topic."""
    fields: dict[str, Any] = {"name": form.text("name")}
    kind = form.text("type") or "NORMAL"
    if kind == "MIXED":
        fields |= {"type": MessageType.NORMAL, "mixed": True}
    elif kind in TYPES:
        fields["type"] = MessageType[kind]
    fields |= read_settings(form, TOPIC_SETTINGS, at_creation=True)
    answer = await asking.call_server("CreateTopic", topic=fields)
    asking.session.notice = f"Topic {fields['name']} {'was created' if answer.created else 'exists already'}."
    return redirect_to(topic_path(fields["name"]))


async def change_topic(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Change a topic by the form; empty fields stay as they are."""
    name = request.path_params["name"]
    await asking.call_server("UpdateTopic", name=name, **read_settings(form, TOPIC_SETTINGS))
    asking.session.notice = f"Topic {name} was changed."
    return redirect_to(topic_path(name))


async def purge_topic(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Remove the topic's messages, all or those before a time."""
    name = request.path_params["name"]
    form.check_confirmation(name)
    fields = {"before": form.parse_time("before")} if form.is_set("before") else {}
    purged = await asking.call_server("PurgeTopic", name=name, **fields)
    removed = sum(queue.after - queue.first for queue in purged.queues)
    asking.session.notice = f"{removed:,} messages of topic {name} were removed."
    return redirect_to(topic_path(name))


async def delete_topic(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Delete a topic."""
    name = request.path_params["name"]
    form.check_confirmation(name)
    await asking.call_server("DeleteTopic", name=name)
    asking.session.notice = f"Topic {name} was deleted."
    return redirect_to("/console/topics")


FEATURE = PageFeature(
    homes=(("/topics", "Topics"),),
    shown={"/topics": show_topics, "/topics/{name}": show_topic, "/new/topic": show_new_topic},
    done={
        "/new/topic": (create_topic, show_new_topic),
        "/topics/{name}/change": (change_topic, show_topic),
        "/topics/{name}/purge": (purge_topic, show_topic),
        "/topics/{name}/delete": (delete_topic, show_topic),
    },
)
