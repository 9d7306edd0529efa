"""The page of groups that have dead letters, with their numbers."""

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.names import dead_letter_topic
from ternmq_console.pages.base.page_context import CallRefused
from ternmq_console.pages.base.page_response import render_page
from ternmq_console.pages.topics import count_held

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.pages.base.page_context import PageContext

PAGE = 25
LOOKED_MAX = 200
"""Groups that are queried for one page."""


class LetterCount(NamedTuple):
    """The number of a group's dead letters; None if the user lacks the right."""

    group: str
    letters: int | None


async def count_letters(group: str, asking: "PageContext") -> int | None:
    """Return the number of the group's dead letters; None if the user lacks the right."""
    try:
        described = await asking.call_server("DescribeTopic", name=dead_letter_topic(group))
    except CallRefused as error:
        return 0 if error.is_missing else None
    return count_held(described)


async def show_groups(request: "Request", asking: "PageContext") -> "Response":
    """Show the next groups that have dead letters; groups are queried page by page until there are enough."""
    search, after = request.query_params.get("search", ""), request.query_params.get("page", "")
    found: list[LetterCount] = []
    looked, following = 0, after
    while len(found) < PAGE and looked < LOOKED_MAX:
        listed = await asking.call_server("ListGroups", search=search, limit=PAGE, page=following)
        counts = await asyncio.gather(*(count_letters(group.name, asking) for group in listed.groups))
        found += [
            LetterCount(group.name, count)
            for group, count in zip(listed.groups, counts, strict=True)
            if count is None or count
        ]
        looked += len(listed.groups)
        following = listed.next_page
        if not following:
            break
    return await render_page(
        request, asking, "dead_letters/groups.html",
        title="Dead letters", search=search, after=after, following=following, piles=found, looked=looked,
    )  # fmt: skip
