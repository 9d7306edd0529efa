"""The page of groups that have dead letters, with their numbers."""

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.names import dead_letter_topic
from ternmq_console.pages.base.answering import page
from ternmq_console.pages.base.asking import Refused
from ternmq_console.pages.topics import held_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ternmq_console.pages.base.asking import Asking

PAGE = 25
LOOKED_MAX = 200
"""Groups that are queried for one page."""


class Pile(NamedTuple):
    """The number of a group's dead letters; None if the user lacks the right."""

    group: str
    letters: int | None


async def count_of(group: str, asking: "Asking") -> int | None:
    """Return the number of the group's dead letters; None if the user lacks the right."""
    try:
        described = await asking.ask("DescribeTopic", name=dead_letter_topic(group))
    except Refused as error:
        return 0 if error.is_missing else None
    return held_of(described)


async def piles(request: "Request", asking: "Asking") -> "Response":
    """Show the next groups that have dead letters; groups are queried page by page until there are enough."""
    search, after = request.query_params.get("search", ""), request.query_params.get("page", "")
    found: list[Pile] = []
    looked, following = 0, after
    while len(found) < PAGE and looked < LOOKED_MAX:
        listed = await asking.ask("ListGroups", search=search, limit=PAGE, page=following)
        counts = await asyncio.gather(*(count_of(group.name, asking) for group in listed.groups))
        found += [
            Pile(group.name, count)
            for group, count in zip(listed.groups, counts, strict=True)
            if count is None or count
        ]
        looked += len(listed.groups)
        following = listed.next_page
        if not following:
            break
    return await page(
        request, asking, "dead_letters/groups.html",
        title="Dead letters", search=search, after=after, following=following, piles=found, looked=looked,
    )  # fmt: skip
