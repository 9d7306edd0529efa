"""The pages of consumer groups: progress and members of each; forms to create, change, reset and delete one."""

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

from ternmq_common.names import dead_letter_topic, retry_topic
from ternmq_common.resources.group_settings import GROUP_SETTINGS
from ternmq_console.pages.base.feature import PageFeature
from ternmq_console.pages.base.forms import BadForm
from ternmq_console.pages.base.page_context import CallRefused
from ternmq_console.pages.base.page_response import redirect_to, render_page
from ternmq_console.pages.base.setting_forms import change_inputs, creation_inputs, read_settings, setting_facts
from ternmq_console.pages.cluster.clients import client_kind
from ternmq_console.pages.plots import GROUP_CHARTS, build_plots
from ternmq_console.pages.topics import count_held

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.operator_calls import Message
    from ternmq_console.pages.base.forms import PageForm
    from ternmq_console.pages.base.page_context import PageContext

PAGE = 25
TARGETS = ("earliest", "latest", "time", "offset")


class GroupLag(NamedTuple):
    """The lag of a group in all of its queues, or in those of one topic.

    Unfinished messages, those of them in flight, the age of the oldest, None without one, and `lost` messages, which
    retention or a purge removed unread.
    """

    messages: int
    in_flight: int
    oldest: "Message | None"
    lost: int


def group_path(name: str) -> str:
    return f"/console/groups/{quote(name, safe='')}"


def sum_lag(progress: "list[Message]") -> GroupLag:
    """Return the lag of these queues together; below `cursor`, only messages in flight are unfinished."""
    ages = [row.oldest_age for row in progress if row.HasField("oldest_age")]
    return GroupLag(
        messages=sum(row.max_offset - row.cursor + row.in_flight for row in progress),
        in_flight=sum(row.in_flight for row in progress),
        oldest=max(ages, key=lambda age: (age.seconds, age.nanos), default=None),
        lost=sum(row.lost for row in progress),
    )


async def show_groups(request: "Request", asking: "PageContext") -> "Response":
    """Show a page of groups, with the lag of each."""
    search, after = request.query_params.get("search", ""), request.query_params.get("page", "")
    listed = await asking.call_server("ListGroups", search=search, limit=PAGE, page=after)
    found = await asyncio.gather(*(_describe_group(group.name, asking) for group in listed.groups))
    rows = [
        (group, described, None if described is None else sum_lag(list(described.progress)))
        for group, described in zip(listed.groups, found, strict=True)
    ]
    return await render_page(
        request, asking, "groups/list.html",
        title="Groups", search=search, after=after, following=listed.next_page, rows=rows,
    )  # fmt: skip


async def _describe_group(name: str, asking: "PageContext") -> "Message | None":
    """Describe a group; None if the user lacks the right, or if it was deleted."""
    return await asking.call_if_allowed("DescribeGroup", name=name)


async def show_group(
    request: "Request", asking: "PageContext", error: str = "", form: "PageForm | None" = None
) -> "Response":
    """Show one group."""
    name = request.path_params["name"]
    described = await asking.call_server("DescribeGroup", name=name)
    by_topic: dict[str, list[Message]] = defaultdict(list)
    for row in described.progress:
        by_topic[row.topic].append(row)
    retries, letters = await asyncio.gather(
        _count_messages(retry_topic(name), asking),
        _count_messages(dead_letter_topic(name), asking),
    )
    kinds = {each.client_id: client_kind(each) for each in described.members}
    return await render_page(
        request, asking, "groups/group.html",
        title=name, group=described.group, described=described, lag=sum_lag(list(described.progress)),
        topics={each: sum_lag(rows) for each, rows in sorted(by_topic.items())}, kinds=kinds,
        held=any(row.HasField("reader") or row.HasField("lock") for row in described.progress),
        plots=await build_plots(request, asking, GROUP_CHARTS, urlencode({"group": name}), group=name),
        facts=[*setting_facts(GROUP_SETTINGS, described.group)],
        inputs=[*change_inputs(GROUP_SETTINGS, described.group)],
        retries=retries, letters=letters, targets=TARGETS, error=error, form=form, status=400 if error else 200,
    )  # fmt: skip


async def _count_messages(topic: str, asking: "PageContext") -> int | None:
    """Return the number of messages in a topic of the group, 0 if it does not exist; None if the user lacks the
    right."""
    try:
        described = await asking.call_server("DescribeTopic", name=topic)
    except CallRefused as error:
        return 0 if error.is_missing else None
    return count_held(described)


async def show_new_group(
    request: "Request", asking: "PageContext", error: str = "", form: "PageForm | None" = None
) -> "Response":
    """Show the form for a new group."""
    return await render_page(
        request, asking, "groups/new.html",
        title="New group", inputs=[*creation_inputs(GROUP_SETTINGS, form)], error=error,
        form=form, status=400 if error else 200,
    )  # fmt: skip


async def create_group(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Create a group."""
    fields: dict[str, Any] = {"name": form.text("name"), "fifo": form.is_set("fifo")}
    fields |= read_settings(form, GROUP_SETTINGS, at_creation=True)
    answer = await asking.call_server("CreateGroup", group=fields)
    asking.session.notice = f"Group {fields['name']} {'was created' if answer.created else 'exists already'}."
    return redirect_to(group_path(fields["name"]))


async def change_group(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Change a group by the form; empty fields stay as they are."""
    name = request.path_params["name"]
    group = (await asking.call_server("DescribeGroup", name=name)).group
    for field, value in read_settings(form, GROUP_SETTINGS).items():
        setattr(group, field, value)
    await asking.call_server("UpdateGroup", group=group)
    asking.session.notice = f"Group {name} was changed. Its clients learn of it within five minutes."
    return redirect_to(group_path(name))


async def delete_group(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Delete a group."""
    name = request.path_params["name"]
    form.check_confirmation(name)
    await asking.call_server("DeleteGroup", name=name, with_dead_letters=form.is_set("with_dead_letters"))
    asking.session.notice = f"Group {name} was deleted."
    return redirect_to("/console/groups")


def _read_target(form: "PageForm") -> dict[str, Any]:
    """Return the target of a reset as fields of the call; raises BadForm."""
    target = form.text("target")
    if target == "time":
        return {"time": form.parse_time("time")}
    if target == "offset":
        return {"offset": form.parse_integer("offset")}
    if target in ("earliest", "latest"):
        return {target: True}
    raise BadForm("target", "choose where to move to")


async def preview_reset(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Show what a reset of offsets would do, without changing anything."""
    name = request.path_params["name"]
    topic = form.text("topic")
    answer = await asking.call_server("ResetOffsets", group=name, topic=topic, dry_run=True, **_read_target(form))
    return await render_page(
        request, asking, "groups/reset.html",
        title=f"Move {name}", name=name, topic=topic, form=form, moves=answer.moves,
        again=sum(max(0, move.before - move.after) for move in answer.moves if move.before >= 0),
        skipped=sum(max(0, move.after - move.before) for move in answer.moves if move.before >= 0), error="",
    )  # fmt: skip


async def reset_offsets(request: "Request", asking: "PageContext", form: "PageForm") -> "Response":
    """Reset the group's offsets in a topic."""
    name = request.path_params["name"]
    form.check_confirmation(name)
    topic = form.text("topic")
    await asking.call_server("ResetOffsets", group=name, topic=topic, **_read_target(form))
    asking.session.notice = f"Group {name} was moved in topic {topic}."
    return redirect_to(group_path(name))


FEATURE = PageFeature(
    homes=(("/groups", "Groups"),),
    shown={"/groups": show_groups, "/groups/{name}": show_group, "/new/group": show_new_group},
    done={
        "/new/group": (create_group, show_new_group),
        "/groups/{name}/change": (change_group, show_group),
        "/groups/{name}/preview": (preview_reset, show_group),
        "/groups/{name}/reset": (reset_offsets, show_group),
        "/groups/{name}/delete": (delete_group, show_group),
    },
)
