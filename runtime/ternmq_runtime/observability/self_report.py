"""A report of a process for the diagnosis of faults: versions, settings, threads and tasks.

It has no secrets: settings are masked, and a stack has code and no values. All of it has limits.
"""

import asyncio
import os
import platform
import sys
import threading
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ternmq_common.process.masking import mask_secrets
from ternmq_common.resources.setting import settings_of

if TYPE_CHECKING:
    from ternmq_common.server_settings import ProcessSettings

THREADS_CHARACTERS_MAX = 64 << 10
FRAMES_MAX = 50
KINDS_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfReport:
    """A report. `resident_bytes` and `descriptors` are 0 where the system has no /proc; `tasks_by_kind` has the
    most frequent coroutines of asyncio's tasks."""

    pid: int
    python: str
    platform: str
    resident_bytes: int
    descriptors: int
    settings: dict[str, str]
    threads: str
    tasks: int
    tasks_by_kind: dict[str, int]


def create_report(settings: "ProcessSettings") -> SelfReport:
    """Return the report of this process, at this moment; called on its event loop."""
    tasks = Counter(_coroutine_name(task) for task in asyncio.all_tasks())
    return SelfReport(
        pid=os.getpid(),
        python=platform.python_version(),
        platform=platform.platform(),
        resident_bytes=read_resident_bytes(),
        descriptors=_count_descriptors(),
        settings=masked_settings(settings),
        threads=_format_threads(),
        tasks=tasks.total(),
        tasks_by_kind=dict(tasks.most_common(KINDS_MAX)),
    )


def read_resident_bytes() -> int:
    """Return the resident memory; 0 where the system has no /proc. It does not read from a disk."""
    statm = Path("/proc/self/statm")
    pages = int(statm.read_text().split()[1]) if statm.exists() else 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def masked_settings(settings: "ProcessSettings") -> dict[str, str]:
    """Return all settings as a person would write them, without secrets."""
    described = settings_of(type(settings)).values()
    return {each.key: _mask_secret(each.name, each.render(getattr(settings, each.name))) for each in described}


def _mask_secret(name: str, text: str) -> str:
    """Mask secrets, also those that only the setting's name reveals."""
    return mask_secrets(f"{name}={mask_secrets(text)}").removeprefix(f"{name}=")


def _count_descriptors() -> int:
    folder = Path("/proc/self/fd")
    return sum(1 for _ in folder.iterdir()) if folder.exists() else 0


def _format_threads() -> str:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = []
    for ident, frame in sys._current_frames().items():  # noqa: SLF001 - the one way to see them
        stack = traceback.StackSummary.extract(traceback.walk_stack(frame), limit=FRAMES_MAX, lookup_lines=False)
        stack.reverse()
        lines = (f"  {each.filename}:{each.lineno} {each.name}" for each in stack)
        parts.append("\n".join([f"thread {names.get(ident, ident)}", *lines]))
    return "\n\n".join(parts)[:THREADS_CHARACTERS_MAX]


def _coroutine_name(task: "asyncio.Task[object]") -> str:
    coroutine = task.get_coro()
    return str(getattr(coroutine, "__qualname__", type(coroutine).__qualname__))
