"""A pytest plugin that measures tests and fixtures: `-p tools.tiers.timings --timings=FILE`.

Writes one JSON object at the end of a run: `outcomes` (passed, failed, error, skipped: number of tests), `skipped`
(reason: number), `deselected` (number), `tests` (test: seconds of its own call) and `fixtures` (fixture with the place
where it is set up: seconds, without the fixtures that it uses). Works with xdist: workers attach their measurements to
their reports, the controller adds them up and writes.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from _pytest.fixtures import FixtureDef, SubRequest

FIXTURES = "fixture_seconds"
DESELECTED = "deselected_tests"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--timings", metavar="FILE", help="write outcomes and seconds of tests and fixtures to FILE as JSON"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Measurements(config), "tools-tiers-measurements")


class Measurements:
    """Adds up the reports of a run; in a worker of xdist it only attaches the worker's measurements."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._fixture_seconds: list[tuple[str, float]] = []
        self._deselected = 0
        self._worst = dict[str, str]()
        self._reasons = dict[str, str]()
        self._tests: defaultdict[str, float] = defaultdict(float)
        self._fixtures: defaultdict[str, float] = defaultdict(float)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: FixtureDef[object], request: SubRequest
    ) -> Generator[None, object, object]:
        began = time.perf_counter()
        try:
            return (yield)
        finally:
            name = f"{fixturedef.argname} ({request.scope}, {request.node.nodeid or 'session'})"
            self._fixture_seconds.append((name, time.perf_counter() - began))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        report = yield
        setattr(report, FIXTURES, self._fixture_seconds)
        self._fixture_seconds = []
        return report

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self._deselected += len(items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, seconds in getattr(report, FIXTURES, ()):
            self._fixtures[name] += seconds
        if report.when == "call":
            self._tests[report.nodeid] += report.duration
        if report.outcome == "failed":
            self._worst[report.nodeid] = "failed" if report.when == "call" else "error"
        elif report.outcome == "skipped":
            self._worst.setdefault(report.nodeid, "skipped")
            self._reasons[report.nodeid] = _reason(report)
        elif report.when == "call":
            self._worst.setdefault(report.nodeid, "passed")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:  # noqa: ANN401 - a class of xdist, which may be missing
        # Each worker collects the same tests, and deselects the same ones.
        self._deselected = max(self._deselected, getattr(node, "workeroutput", {}).get(DESELECTED, 0))

    def pytest_sessionfinish(self) -> None:
        output: dict[str, int] | None = getattr(self._config, "workeroutput", None)
        if output is not None:
            output[DESELECTED] = self._deselected
        elif path := self._config.getoption("timings"):
            Path(path).write_text(json.dumps(self._measured()))

    def _measured(self) -> dict[str, object]:
        return {
            "outcomes": Counter(self._worst.values()),
            "skipped": Counter(self._reasons.values()),
            "deselected": self._deselected,
            "tests": self._tests,
            "fixtures": self._fixtures,
        }


def _reason(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return getattr(report, "wasxfail", "") or "no reason given"
