"""The order of runs: cases one after the other, with one run on every server in each round, so that noise affects them
all."""

from __future__ import annotations

import itertools
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.bench.field import Field, cores, say
from benchmarks.bench.load import LoadFailed
from benchmarks.bench.servers import APACHE, TERNMQ
from benchmarks.bench.tables import Result, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.bench.field import Scale
    from benchmarks.bench.servers import Server, Setup
    from benchmarks.bench.works import Case, Measured

    SetupsOf = Callable[[Case], Sequence[Setup]]


@dataclass(slots=True)
class Findings:
    """The results; not `complete` if the measurement was interrupted, or a load failed."""

    results: list[Result]
    notes: list[str]
    complete: bool


def measure(cases: Sequence[Case], scale: Scale, out: set[str], flush: str | None) -> Findings:
    """Measure all cases one after the other, each in rounds over all its servers; if interrupted, return the results so
    far."""
    server_cores, load_cores = cores()
    results: list[Result] = []
    with (
        tempfile.TemporaryDirectory(prefix="ternmq-bench-", ignore_cleanup_errors=True) as folder,
        Field(Path(folder), scale, server_cores=server_cores, load_cores=load_cores) as field,
    ):
        if server_cores == load_cores:
            field.notes.append("one core only: server and load generator share it")
        try:
            for fresh, group in itertools.groupby(cases, key=lambda case: case.fresh):
                turns = fresh_turns if fresh else warm_turns
                # The list has the results from before an interruption then.
                results.extend(turns(field, list(group), lambda case: wanted_setups(case, out, flush)))
        except KeyboardInterrupt:
            field.fail("interrupted: not all was measured")
        return Findings(results, field.notes, field.complete)


def wanted_setups(case: Case, out: set[str], flush: str | None) -> list[Setup]:
    return [
        setup
        for setup in case.setups
        if setup.engine not in out and (setup.engine != TERNMQ or flush in (None, setup.flush))
    ]


def warm_turns(field: Field, cases: Sequence[Case], setups_of: SetupsOf) -> Iterator[Result]:
    """Measure on servers that stay. Java compiles the code of a case during its first run, which does not count."""
    for case in cases:
        for setup in setups_of(case):
            if setup.engine == APACHE and field.scale.rehearses:
                rehearse(field, case, setup)
        for number in range(field.scale.rounds):
            for setup in setups_of(case):
                measured = attempt(field, case, setup, f"round {number + 1}")
                if measured:
                    yield Result(case, setup, number, measured)


def rehearse(field: Field, case: Case, setup: Setup) -> None:
    """Run once, and again until the time that the case wants has passed."""
    field.server(setup)  # which takes its time to start
    end = time.monotonic() + case.rehearsal_s
    while attempt(field, case, setup, "rehearsal") is not None and time.monotonic() < end:
        pass


def fresh_turns(field: Field, cases: Sequence[Case], setups_of: SetupsOf) -> Iterator[Result]:
    """Measure each round on servers of its own, which run all cases."""
    setups = list(dict.fromkeys(setup for case in cases for setup in setups_of(case)))
    for number, setup in itertools.product(range(field.scale.rounds), setups):
        with field.fresh(setup) as server:
            for case in cases:
                measured = setup in setups_of(case) and attempt(field, case, setup, f"round {number + 1}", server)
                if measured:
                    yield Result(case, setup, number, measured)


def attempt(field: Field, case: Case, setup: Setup, turn: str, server: Server | None = None) -> Measured | None:
    """Run once, on the permanent server if none is given; None, and a note, if the load generator failed."""
    try:
        measured_on = server or field.server(setup)
        with field.alone(measured_on):
            measured = case.measure(field, measured_on)
    except LoadFailed as error:
        field.fail(f"{case.work}: {case.name}, {setup}: {error}")
        return None
    figures = ", ".join(f"{figure} {shown(value)}" for figure, value in measured.items())
    say(f"{case.work}: {case.name}, {turn}, {setup}: {figures}")
    return measured
