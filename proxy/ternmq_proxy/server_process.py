"""The process of an activity: its name, its settings, and its sibling processes."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ternmq_runtime.workers.siblings import Answers, SiblingProcesses

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_common.server_settings import FrontSettings


def _never_degraded() -> str | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProcess:
    """The process. `server` is the name of the server, a stack or a proxy, of which this process, `name`, may be one of
    several: `kind` is server, proxy or worker. `answers` are those to its siblings, `front_answers` those of fronts to
    other proxies; `degraded` returns what is wrong
    although messages are served."""

    kind: str
    server: str
    name: str
    settings: "FrontSettings"
    siblings: SiblingProcesses = field(default_factory=SiblingProcesses)
    answers: Answers = field(default_factory=dict)
    front_answers: Answers = field(default_factory=dict)
    degraded: "Callable[[], str | None]" = _never_degraded
