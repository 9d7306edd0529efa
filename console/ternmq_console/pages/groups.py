"""The pages of consumer groups: progress and members of each; forms to create, change, reset and delete one."""

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

from ternmq_common.names import dead_letter_topic, retry_topic
from ternmq_console.pages.base.answering import moved_to, page
from ternmq_console.pages.base.asking import Refused
from ternmq_console.pages.base.feature import Feature
from ternmq_console.pages.base.forms import BadForm
from ternmq_console.pages.cluster.clients import kind_of
from ternmq_console.pages.plots import GROUP_CHARTS, plots_of
from ternmq_console.pages.topics import held_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.desk import Message
    from ternmq_console.pages.base.asking import Asking
    from ternmq_console.pages.base.forms import Form

PAGE = 25
# Clients whose details are shown, not only their ids.
CLIENTS = 256
TARGETS = ("earliest", "latest", "time", "offset")


class Lag(NamedTuple):
    """The lag of a group in all of its queues, or in those of one topic.

    Unfinished messages, those of them in flight, the age of the oldest, None without one, and `lost` messages, which
    retention or a purge removed unread.
    """

    messages: int
    in_flight: int
    oldest: "Message | None"
    lost: int


def path_of(name: str) -> str:
    return f"/console/groups/{quote(name, safe='')}"


def lag_of(progress: "list[Message]") -> Lag:
    """Return the lag of these queues together; below `cursor`, only messages in flight are unfinished."""
    ages = [row.oldest_age for row in progress if row.HasField("oldest_age")]
    return Lag(
        messages=sum(row.max_offset - row.cursor + row.in_flight for row in progress),
        in_flight=sum(row.in_flight for row in progress),
        oldest=max(ages, key=lambda age: (age.seconds, age.nanos), default=None),
        lost=sum(row.lost for row in progress),
    )


async def groups(request: "Request", asking: "Asking") -> "Response":
    """Show a page of groups, with the lag of each."""
    search, after = request.query_params.get("search", ""), request.query_params.get("page", "")
    listed = await asking.ask("ListGroups", search=search, limit=PAGE, page=after)
    found = await asyncio.gather(*(_described(group.name, asking) for group in listed.groups))
    rows = [
        (group, described, None if described is None else lag_of(list(described.progress)))
        for group, described in zip(listed.groups, found, strict=True)
    ]
    return await page(
        request, asking, "groups/list.html",
        title="Groups", search=search, after=after, following=listed.next_page, rows=rows,
    )  # fmt: skip


async def _described(name: str, asking: "Asking") -> "Message | None":
    """Describe a group; None if the user lacks the right, or if it was deleted."""
    return await asking.ask_if_allowed("DescribeGroup", name=name)


async def group(request: "Request", asking: "Asking", error: str = "", form: "Form | None" = None) -> "Response":
    """Show one group."""
    name = request.path_params["name"]
    described = await asking.ask("DescribeGroup", name=name)
    by_topic: dict[str, list[Message]] = defaultdict(list)
    for row in described.progress:
        by_topic[row.topic].append(row)
    clients, retries, letters = await asyncio.gather(
        _clients(name, asking), _count(retry_topic(name), asking), _count(dead_letter_topic(name), asking)
    )
    kinds = {each.client_id: kind_of(each) for each in described.members}
    return await page(
        request, asking, "groups/group.html",
        title=name, group=described.group, described=described, lag=lag_of(list(described.progress)),
        topics={each: lag_of(rows) for each, rows in sorted(by_topic.items())}, clients=clients, kinds=kinds,
        plots=await plots_of(request, asking, GROUP_CHARTS, urlencode({"group": name}), group=name),
        retries=retries, letters=letters, targets=TARGETS, error=error, form=form, status=400 if error else 200,
    )  # fmt: skip


async def _clients(name: str, asking: "Asking") -> "dict[str, Message]":
    """Return the group's clients by id; empty if the user lacks the right."""
    found = await asking.ask_if_allowed("ListClients", group=name, limit=CLIENTS)
    return {} if found is None else {client.client_id: client for client in found.clients}


async def _count(topic: str, asking: "Asking") -> int | None:
    """Return the number of messages in a topic of the group, 0 if it does not exist; None if the user lacks the
    right."""
    try:
        described = await asking.ask("DescribeTopic", name=topic)
    except Refused as error:
        return 0 if error.is_missing else None
    return held_of(described)


async def new(request: "Request", asking: "Asking", error: str = "", form: "Form | None" = None) -> "Response":
    """Show the form for a new group."""
    return await page(
        request, asking, "groups/new.html", title="New group", error=error, form=form, status=400 if error else 200
    )


async def create(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Create a group."""
    asked: dict[str, Any] = {"name": form.text("name"), "fifo": form.is_set("fifo")}
    if form.is_set("max_attempts"):
        asked["max_attempts"] = form.whole("max_attempts", least=1)
    for field in ("retry_backoff", "consume_from"):
        if form.is_set(field):
            asked[field] = form.text(field)
    made = await asking.ask("CreateGroup", group=asked)
    asking.session.notice = f"Group {asked['name']} {'was created' if made.created else 'exists already'}."
    return moved_to(path_of(asked["name"]))


async def change(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Change a group by the form; empty fields stay as they are."""
    name = request.path_params["name"]
    asked = (await asking.ask("DescribeGroup", name=name)).group
    if form.is_set("max_attempts"):
        asked.max_attempts = form.whole("max_attempts", least=1)
    for field in ("retry_backoff", "consume_from"):
        if form.is_set(field):
            setattr(asked, field, form.text(field))
    await asking.ask("UpdateGroup", group=asked)
    asking.session.notice = f"Group {name} was changed. Its clients learn of it within five minutes."
    return moved_to(path_of(name))


async def delete(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Delete a group."""
    name = request.path_params["name"]
    form.confirm(name)
    await asking.ask("DeleteGroup", name=name, with_dead_letters=form.is_set("with_dead_letters"))
    asking.session.notice = f"Group {name} was deleted."
    return moved_to("/console/groups")


def _target(form: "Form") -> dict[str, Any]:
    """Return the target of a reset as fields of the call; raises BadForm."""
    target = form.text("target")
    if target == "time":
        return {"time": form.moment("time")}
    if target == "offset":
        return {"offset": form.whole("offset")}
    if target in ("earliest", "latest"):
        return {target: True}
    raise BadForm("target", "choose where to move to")


async def preview(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Show what a reset of offsets would do, without changing anything."""
    name = request.path_params["name"]
    topic = form.text("topic")
    answer = await asking.ask("ResetOffsets", group=name, topic=topic, dry_run=True, **_target(form))
    return await page(
        request, asking, "groups/reset.html",
        title=f"Move {name}", name=name, topic=topic, form=form, moves=answer.moves,
        again=sum(max(0, move.before - move.after) for move in answer.moves if move.before >= 0),
        skipped=sum(max(0, move.after - move.before) for move in answer.moves if move.before >= 0), error="",
    )  # fmt: skip


async def reset(request: "Request", asking: "Asking", form: "Form") -> "Response":
    """Reset the group's offsets in a topic."""
    name = request.path_params["name"]
    form.confirm(name)
    topic = form.text("topic")
    await asking.ask("ResetOffsets", group=name, topic=topic, **_target(form))
    asking.session.notice = f"Group {name} was moved in topic {topic}."
    return moved_to(path_of(name))


FEATURE = Feature(
    homes=(("/groups", "Groups"),),
    shown={"/groups": groups, "/groups/{name}": group, "/new/group": new},
    done={
        "/new/group": (create, new),
        "/groups/{name}/change": (change, group),
        "/groups/{name}/preview": (preview, group),
        "/groups/{name}/reset": (reset, group),
        "/groups/{name}/delete": (delete, group),
    },
)
