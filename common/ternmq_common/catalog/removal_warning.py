"""The warning of what is lost with a broker that is removed: in refusals, and after a removal by force."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

TOPICS_SHOWN = 5


class ReportedLoad(Protocol):
    """The last report of a broker; see `cluster.BrokerLoad`."""

    @property
    def transactions(self) -> int: ...
    @property
    def messages(self) -> int | None: ...
    @property
    def unfinished(self) -> int | None: ...
    @property
    def timers(self) -> int | None: ...


def has_nothing_to_lose(report: ReportedLoad) -> bool:
    """Whether nothing would be lost, by the last report."""
    return report.unfinished == 0 and report.timers == 0 and report.transactions == 0


def removal_warning(topics: "Sequence[str]", report: ReportedLoad) -> str:
    """The text that says what is lost with a broker that has queues of these topics."""
    shown = ", ".join(topics[:TOPICS_SHOWN]) + (", ..." if len(topics) > TOPICS_SHOWN else "")
    queues = f"its queues of {_count_things(len(topics), 'topic')} ({shown})" if topics else "no queues of any topic"
    if report.messages is None or report.unfinished is None or report.timers is None:
        return (
            f"{queues}, with unknown numbers of messages, timed messages and open transactions: it never reported any"
        )
    return (
        f"{queues}; by its last report, {_count_things(report.messages, 'message')} in them, of which groups have "
        f"{report.unfinished:,} to finish, {_count_things(report.timers, 'timed message')} and "
        f"{_count_things(report.transactions, 'open transaction')}"
    )


def _count_things(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
