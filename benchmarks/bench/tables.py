"""Turns figures of runs into ratios: each pair of runs of the same round gives one; a row has their median and
range."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.bench.servers import TERNMQ, Setup

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from benchmarks.bench.works import Bar, Case, Measured

HEADERS = ("work", "figure", "server", "peer", "server's", "peer's", "ratio", "min..max", "bar", "holds")
LEFT = 4


@dataclass(frozen=True, slots=True)
class Result:
    """The figures of one run of a case on one server."""

    case: Case
    setup: Setup
    round: int
    measured: Measured


@dataclass(frozen=True, slots=True)
class Row:
    """A figure of one server beside a peer's, as the median of the rounds; without a peer it is the server's alone."""

    case: Case
    figure: str
    setup: Setup
    peer: Setup | None
    own: float
    others: float | None
    ratios: Sequence[float]
    bar: Bar | None

    @property
    def ratio(self) -> float | None:
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def holds(self) -> bool | None:
        """Whether the target holds; None without one, or without the figures for it."""
        value = self.own if self.peer is None else self.ratio
        return None if self.bar is None or value is None else self.bar.holds(value)


def pairs(setups: Sequence[Setup]) -> list[tuple[Setup, Setup]]:
    """Return each of our setups with each peer; if all are ours, the first with each other."""
    ours = [setup for setup in setups if setup.engine == TERNMQ]
    peers = [setup for setup in setups if setup.engine != TERNMQ]
    if peers:
        return [(own, peer) for own in ours for peer in peers]
    return [(ours[0], other) for other in ours[1:]]


def rows(results: Sequence[Result]) -> list[Row]:
    """Return a row for each figure of each pair, in the order in which cases were measured."""
    return [row for case in _cases(results) for row in _rows(case, [each for each in results if each.case is case])]


def _cases(results: Iterable[Result]) -> list[Case]:
    seen: list[Case] = []
    for result in results:
        if not any(result.case is case for case in seen):
            seen.append(result.case)
    return seen


def _rows(case: Case, results: Sequence[Result]) -> Iterator[Row]:
    by_setup: dict[Setup, dict[int, Measured]] = {}
    for result in results:
        by_setup.setdefault(result.setup, {})[result.round] = result.measured
    figures = list(dict.fromkeys(figure for result in results for figure in result.measured))
    for figure in figures:
        compared = [(own, peer) for own, peer in pairs(case.setups) if own in by_setup and peer in by_setup]
        for own, peer in compared:
            yield _pair(case, figure, own, peer, by_setup)
        for setup, measured in by_setup.items():
            bar = _bar(case, figure, setup, None)
            if bar or not compared:
                yield Row(case, figure, setup, None, _median(measured, figure), None, (), bar)


def _median(by_round: dict[int, Measured], figure: str) -> float:
    return statistics.median(measured[figure] for measured in by_round.values())


def _bar(case: Case, figure: str, setup: Setup, peer: str | None) -> Bar | None:
    return next((bar for bar in case.bars if (bar.figure, bar.setup, bar.peer) == (figure, setup, peer)), None)


def _pair(case: Case, figure: str, own: Setup, peer: Setup, by_setup: dict[Setup, dict[int, Measured]]) -> Row:
    both = sorted(by_setup[own].keys() & by_setup[peer].keys())
    mine = [by_setup[own][number][figure] for number in both]
    others = [by_setup[peer][number][figure] for number in both]
    ratios = [left / right for left, right in zip(mine, others, strict=True) if right]
    bar = _bar(case, figure, own, peer.engine)
    return Row(case, figure, own, peer, statistics.median(mine), statistics.median(others), ratios, bar)


def text(rows: Sequence[Row]) -> str:
    """Return the table to print."""
    lines = [HEADERS, *(_cells(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < LEFT else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def markdown(rows: Sequence[Row]) -> str:
    """Return the same table for a page."""
    lines = [HEADERS, ["---"] * LEFT + ["---:"] * (len(HEADERS) - LEFT), *(_cells(row) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cells(row: Row) -> tuple[str, ...]:
    spread = f"{shown(min(row.ratios))}..{shown(max(row.ratios))}" if row.ratios else ""
    holds = {True: "yes", False: "no", None: ""}[row.holds]
    return (
        f"{row.case.work}: {row.case.name}",
        row.figure,
        str(row.setup),
        str(row.peer or ""),
        shown(row.own),
        shown(row.others),
        shown(row.ratio),
        spread,
        str(row.bar or ""),
        holds,
    )


def shown(value: float | None) -> str:
    """Format with three significant digits and no exponent."""
    if value is None:
        return ""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def as_json(results: Sequence[Result]) -> dict[str, object]:
    """Return all figures of all runs, and the rows of the table."""
    return {
        "runs": [
            {
                "work": result.case.work,
                "case": result.case.name,
                "server": str(result.setup),
                "round": result.round,
                **result.measured,
            }
            for result in results
        ],
        "ratios": [
            {
                "work": row.case.work,
                "case": row.case.name,
                "figure": row.figure,
                "server": str(row.setup),
                "peer": str(row.peer) if row.peer else None,
                "own": row.own,
                "others": row.others,
                "ratio": row.ratio,
                "ratios": list(row.ratios),
                "bar": str(row.bar) if row.bar else None,
                "holds": row.holds,
            }
            for row in rows(results)
        ],
    }
