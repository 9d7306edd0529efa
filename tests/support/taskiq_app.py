"""An application with tasks, for `taskiq worker tests.support.taskiq_app:broker`. What its tasks do is a line each of
the file TASKIQ_APP_LOG."""

import asyncio
import os
from pathlib import Path

from ternmq.integrations.taskiq import TernmqBroker

broker = TernmqBroker(os.environ["TERNMQ_ENDPOINT"], topic=os.environ["TASKIQ_APP_TOPIC"])


def is_first() -> bool:
    return not Path(os.environ["TASKIQ_APP_LOG"]).exists()


def note(line: str) -> None:
    with Path(os.environ["TASKIQ_APP_LOG"]).open("a") as log:
        log.write(f"{line}\n")


@broker.task(task_name="add")
async def add(one: int, other: int) -> None:
    note(f"{one + other}")


@broker.task(task_name="hang_once")
async def hang_once() -> None:
    """Hangs the first time that it is executed."""
    first = is_first()
    note(f"hangs {os.getpid()}" if first else "done")
    if first:
        await asyncio.Event().wait()
