"""The owner of tasks: it logs each failure once, stops everything, and runs work to its end when that is wanted."""

import asyncio
import logging

import pytest

from ternmq_common.event_loop.background_tasks import BackgroundTasks, cancel_tasks

_log = logging.getLogger("owner")


async def _fail(after: asyncio.Event | None = None) -> None:
    if after is not None:
        await after.wait()
    raise ValueError("a bug")


def _failures(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.name, record.getMessage()) for record in caplog.records]


async def test_a_task_that_fails_is_logged_once_with_its_name(caplog: pytest.LogCaptureFixture) -> None:
    tasks = BackgroundTasks(_log)
    tasks.start(_fail(), name="copy")
    tasks.start(_fail())
    await tasks.wait_until_done()
    await tasks.stop()
    assert sorted(_failures(caplog)) == [("owner", "the task _fail failed"), ("owner", "the task copy failed")]
    assert not tasks


async def test_the_error_of_an_awaited_task_is_its_callers_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    tasks = BackgroundTasks(_log)
    with pytest.raises(ValueError, match="a bug"):
        await tasks.start_awaited(_fail())
    with pytest.raises(ValueError, match="a bug"):
        await tasks.run_to_end(_fail())
    assert not _failures(caplog)


async def test_stopping_waits_for_the_ends_and_logs_an_error_among_them(caplog: pytest.LogCaptureFixture) -> None:
    ended = []

    async def clean_up() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(1)

    async def fail_at_the_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("the disk is full")

    async with BackgroundTasks(_log) as tasks:
        tasks.start(clean_up(), name="first")
        tasks.start(fail_at_the_end(), name="second")
        await asyncio.sleep(0)
    assert ended == [1]
    assert _failures(caplog) == [("owner", "the task second failed")]


async def test_stopping_ends_what_a_task_starts_at_its_end() -> None:
    tasks = BackgroundTasks()

    async def start_another() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            tasks.start(asyncio.sleep(3600))

    tasks.start(start_another())
    await asyncio.sleep(0)
    await tasks.stop()
    assert not tasks


async def test_a_task_may_stop_the_others_of_its_owner() -> None:
    tasks = BackgroundTasks()
    tasks.start(asyncio.sleep(3600))
    await tasks.start_awaited(tasks.stop())
    assert not tasks


async def test_work_goes_on_to_its_end_without_its_caller(caplog: pytest.LogCaptureFixture) -> None:
    tasks, goes_on = BackgroundTasks(_log), asyncio.Event()
    caller = asyncio.create_task(tasks.run_to_end(_fail(goes_on)))
    await asyncio.sleep(0)
    await cancel_tasks([caller])
    assert len(tasks) == 1
    goes_on.set()
    await tasks.wait_until_done()
    assert _failures(caplog) == [("owner", "the task _fail failed")]


async def test_cancelling_nothing_returns_at_once() -> None:
    await cancel_tasks([])


async def test_a_task_that_ended_in_this_turn_does_not_run() -> None:
    async def work() -> None:
        pass

    tasks = BackgroundTasks()
    task = tasks.start(work())
    assert len(tasks) == 1
    await asyncio.sleep(0)  # it ends in the turn that goes on here, and is released in the next one
    assert task.done()
    assert not tasks
