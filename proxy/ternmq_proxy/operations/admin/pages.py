"""Pages of what has a name: topics and groups."""

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.event_loop.fairness import WorkTurns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ternmq_proxy.access.needs import AccessNeed
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


class _Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=_Named)


class PageQuery(NamedTuple):
    """Which page: at most `limit` entries, 0 for all, with names after `after` that contain `search`."""

    search: str = ""
    after: str = ""
    limit: int = 0


async def select_visible(found: "Iterable[T]", need: "AccessNeed", call: "Call", services: "Services") -> "list[T]":
    """Return those that the caller may see: pages consist of these, so that none is empty while others follow."""
    may, turns = services.access.has_right, WorkTurns()
    shown: list[T] = []
    for each in found:
        if may(call, need, each.name):
            shown.append(each)
        await turns.next_turn()
    return shown


def cut_page(found: "Iterable[T]", query: PageQuery) -> "tuple[list[T], str]":
    """Return the requested entries, by name, and the name after which the next page begins, empty at the end.
    BAD_REQUEST for a limit below 0."""
    if query.limit < 0:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"a page has 1 entry or more, not {query.limit}")
    search = query.search.lower()
    passing = [each for each in found if each.name > query.after and search in each.name.lower()]
    passing.sort(key=lambda each: each.name)
    limit = query.limit or len(passing)
    following = passing[limit - 1].name if len(passing) > limit else ""
    return passing[:limit], following
