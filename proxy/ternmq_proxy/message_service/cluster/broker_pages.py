"""Pages of what all brokers have, broker by broker. A page ends with its broker, and its position is `BROKER@PLACE`."""

from typing import TYPE_CHECKING, Protocol, TypeVar

from ternmq_common.errors import ErrorCode, MessagingError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence


class _BrokerPage(Protocol):
    @property
    def following(self) -> str: ...


PageT = TypeVar("PageT", bound=_BrokerPage)


async def page_of_brokers(
    names: "Sequence[str]", start: str, ask: "Callable[[str, str], Awaitable[tuple[PageT, bool]]]"
) -> tuple[PageT | None, str]:
    """Return the first page from `start` on that has entries or continues, and where the next one begins; None and ""
    behind the last broker. `ask` returns a broker's page from a place on, and whether it has entries. Raises
    BAD_REQUEST if `start` is no such position."""
    name, at, place = start.rpartition("@")
    if start and (not at or name not in names):
        raise MessagingError(ErrorCode.BAD_REQUEST, f"{start[:100]!r} is no page; give what next_page was")
    left = names[names.index(name) :] if start else names
    for number, broker in enumerate(left):
        page, has_some = await ask(broker, place if number == 0 else "")
        if page.following:
            return page, f"{broker}@{page.following}"
        if has_some:
            return page, f"{left[number + 1]}@" if number + 1 < len(left) else ""
    return None, ""
