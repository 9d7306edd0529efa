"""Combines the health of the processes of a server into one answer. Pure.

Workers share the port: a client whose worker is gone reaches another in the next attempt. So a server is ready while
its broker and one worker are, and what is missing is reported as degraded.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ternmq_runtime.workers.worker_place import BROKER

SILENT = "it does not answer"


@dataclass(frozen=True, slots=True)
class ProcessHealth:
    """The health of one process: whether all is well, the reason if not, and what is degraded although it serves."""

    is_well: bool
    status: str
    degraded: str | None = None


Content = dict[str, str]


def combine_live(reports: Mapping[str, ProcessHealth | None], running: frozenset[str]) -> tuple[int, Content]:
    """Combine liveness: 503 if a restart would help, since a process that runs does not turn. Dead processes are
    restarted anyway."""
    for name, each in reports.items():
        if name in running and (each is None or not each.is_well):
            return 503, {"status": f"{name}: {SILENT if each is None else each.status}"}
    return 200, {"status": "live"}


def combine_ready(reports: Mapping[str, ProcessHealth | None]) -> tuple[int, Content]:
    """Combine readiness: whether messages can be sent and received now."""
    amiss = {
        name: SILENT if each is None else each.status
        for name, each in reports.items()
        if each is None or not each.is_well
    }
    workers = [name for name in reports if name != BROKER]
    if BROKER in amiss or amiss.keys() >= set(workers):
        name = BROKER if BROKER in amiss else workers[0]
        return 503, {"status": f"{name}: {amiss[name]}"}
    degraded = [f"{name}: {why}" for name, why in amiss.items()]
    degraded += [f"{name}: {each.degraded}" for name, each in reports.items() if each is not None and each.degraded]
    return 200, {"status": "ready", **({"degraded": "; ".join(degraded)} if degraded else {})}
