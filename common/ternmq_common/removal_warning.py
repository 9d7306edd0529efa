"""The warning of what is lost with a broker that is removed: in refusals, and after a removal by force."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

TOPICS_SHOWN = 5


class Told(Protocol):
    """The last report of a broker; see `cluster.BrokerLoad`."""

    @property
    def transactions(self) -> int: ...
    @property
    def messages(self) -> int | None: ...
    @property
    def unfinished(self) -> int | None: ...
    @property
    def timers(self) -> int | None: ...


def is_empty(told: Told) -> bool:
    """Whether nothing would be lost, by the last report."""
    return told.unfinished == 0 and told.timers == 0 and told.transactions == 0


def removal_warning(topics: "Sequence[str]", told: Told) -> str:
    """The text that says what is lost with a broker that has queues of these topics."""
    shown = ", ".join(topics[:TOPICS_SHOWN]) + (", ..." if len(topics) > TOPICS_SHOWN else "")
    queues = f"its queues of {_counted(len(topics), 'topic')} ({shown})" if topics else "no queues of any topic"
    if told.messages is None or told.unfinished is None or told.timers is None:
        return (
            f"{queues}, with unknown numbers of messages, timed messages and open transactions: it never reported any"
        )
    return (
        f"{queues}; by its last report, {_counted(told.messages, 'message')} in them, of which groups have "
        f"{told.unfinished:,} to finish, {_counted(told.timers, 'timed message')} and "
        f"{_counted(told.transactions, 'open transaction')}"
    )


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
