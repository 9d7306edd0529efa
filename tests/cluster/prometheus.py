"""Debian's Prometheus for tests: its checks of files (`promtool`), and a server that scrapes processes of ours.

`tests/support/install_prometheus.sh` gets both.
"""

import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import yaml

from tests.support.ports import free_address

INSTALL = "run tests/support/install_prometheus.sh, as tools/check does"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ternmq/prometheus"
START_TIMEOUT_S, STOP_TIMEOUT_S, CHECK_TIMEOUT_S = 30.0, 20.0, 60.0
LOOK_INTERVAL_S = 0.2
SCRAPE_INTERVAL_S = 1
T = TypeVar("T")


def program(name: str) -> str:
    """The path of `prometheus` or `promtool`."""
    found = shutil.which(name, path=f"{CACHE}{os.pathsep}{os.environ['PATH']}")
    assert found is not None, f"{name} is missing: {INSTALL}"
    return found


def promtool(*words: str) -> "subprocess.CompletedProcess[str]":
    """What it says of files; its exit code is 0 if they are right."""
    command = [program("promtool"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=CHECK_TIMEOUT_S, check=False)


class Prometheus:
    """`with Prometheus(folder, jobs, rules) as prometheus`: it scrapes each second, and evaluates a file's rules."""

    def __init__(self, folder: Path, jobs: Sequence[dict[str, Any]], rules: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        interval = f"{SCRAPE_INTERVAL_S}s"
        config = {
            "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
            "rule_files": [str(rules)],
            "scrape_configs": list(jobs),
        }
        self._folder = folder
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        self._address = free_address()

    def __enter__(self) -> Self:
        options = (
            f"--config.file={self._folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address={self._address}",
        )
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen([program("prometheus"), *options], stdout=log, stderr=log)
        try:
            self.eventually(self._is_ready, within_s=START_TIMEOUT_S, what="Prometheus is ready")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, self.log_tail()
        try:
            with urllib.request.urlopen(f"http://{self._address}/-/ready", timeout=5):
                return True
        except (urllib.error.URLError, ConnectionError):
            return False

    def log_tail(self) -> str:
        return (self._folder / "log").read_text()[-4000:]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that an expression has now."""
        found: list[dict[str, Any]] = self._asked("query", query=expression)["result"]
        return found

    def rules(self) -> list[dict[str, Any]]:
        """Each rule, as it was evaluated last."""
        return [rule for group in self._asked("rules")["groups"] for rule in group["rules"]]

    def _asked(self, call: str, **fields: str) -> Any:  # noqa: ANN401 - any JSON
        url = f"http://{self._address}/api/v1/{call}?{urllib.parse.urlencode(fields)}"
        try:
            with urllib.request.urlopen(url, timeout=20) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{fields}: {error.read().decode()}") from None

    def eventually(self, check: Callable[[], T], *, within_s: float, what: str) -> T:
        """What `check` answers, as soon as that is true; nobody tells of a scrape."""
        deadline = time.monotonic() + within_s
        while not (found := check()):
            assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}; at last {found!r}"
            time.sleep(LOOK_INTERVAL_S)
        return found
