"""`ternmq up --workers N` as processes, each of which a test can look at, and end."""

import contextlib
import json
import urllib.error
import urllib.request

import psutil
from prometheus_client.parser import text_string_to_metric_families

from tests.support.stack import Stack

TIMEOUT_S = 20.0
BROKER = "broker"


class WorkerStack(Stack):
    """`with WorkerStack(folder, "--workers", "2") as stack`."""

    @property
    def processes(self) -> dict[str, psutil.Process]:
        """Those beside the supervisor, by the names that they have in the log."""
        found = {_name(each): each for each in psutil.Process(self.process.pid).children()}
        return {name: each for name, each in found.items() if name}

    @property
    def workers(self) -> list[str]:
        return sorted(name for name in self.processes if name != BROKER)

    def health(self, what: str) -> tuple[int, dict[str, str]]:
        """Status and content of `/health/WHAT`."""
        try:
            with urllib.request.urlopen(f"http://{self.http}/health/{what}", timeout=TIMEOUT_S) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def metric(self, name: str) -> dict[str, float]:
        """The values of a metric by worker, other labels added up."""
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=TIMEOUT_S) as answer:
            text = answer.read().decode()
        values: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == name:
                    worker = sample.labels["worker"]
                    values[worker] = values.get(worker, 0.0) + sample.value
        return values


def _name(process: psutil.Process) -> str:
    """Empty for one that is dead, or not what it is going to be yet."""
    with contextlib.suppress(psutil.Error):
        name = (process.cmdline() or [""])[-1]
        return name if name == BROKER or name.startswith("worker-") else ""
    return ""
