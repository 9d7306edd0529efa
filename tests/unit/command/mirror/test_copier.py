"""The copier of a queue: in order, nothing lost, nothing twice, whatever either side does."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_command.calls.remoting_calls import RemotingRefused
from ternmq_command.mirror.copier import MessageRefused, QueueCopier, Shared
from ternmq_command.mirror.positions import Queue
from ternmq_command.mirror.scanning import scan_topic
from tests.support.until import until
from tests.unit.command.mirror.memory_clusters import QUICK, MemorySource, MemoryTarget, connect, unreachable

THERE, HERE = Queue("a", "orders", 0), Queue("here", "orders", 0)


async def start_copier(shared: Shared, *, retries_of: str | None = None) -> QueueCopier:
    """Return the copier of a mirror that has just started."""
    positions = await scan_topic(shared.target, [HERE], "east", None)
    return QueueCopier(shared, THERE, HERE, positions, retries_of=retries_of)


async def copy_all(shared: Shared, *, retries_of: str | None = None) -> QueueCopier:
    """Copy as a mirror does that has just started, until nothing is missing."""
    copier = await start_copier(shared, retries_of=retries_of)
    await copy_until(lambda: copier.is_caught_up, copier)
    return copier


async def copy_until(is_enough: Callable[[], bool], copier: QueueCopier) -> None:
    task = asyncio.create_task(copier.run())
    try:
        async with asyncio.timeout(20):
            await until(lambda: is_enough() or task.done())
        if task.done():
            task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


# Codes of refused sends, 0 for no answer; and whether the messages were stored.
FAILURES = st.lists(st.tuples(st.sampled_from([0, 1, 2, 10, 12, 14]), st.booleans()), max_size=6)


@given(failures=FAILURES, counts=st.lists(st.integers(1, 9), min_size=1, max_size=3))
def test_each_message_is_copied_once_and_in_order(failures: list[tuple[int, bool]], counts: list[int]) -> None:
    source, target, notes = MemorySource([THERE]), MemoryTarget([HERE]), list[str]()
    bodies: list[str] = []
    for count in counts:  # a mirror that starts again each time, and knows nothing
        more = [f"body-{len(bodies) + number}" for number in range(count)]
        source.send(THERE, *more)
        bodies += more
        source.failures.append(unreachable())
        for code, is_stored in failures:
            # Other refusals mean that nothing was stored.
            refusal = RemotingRefused("refused", code)
            target.failures.append((refusal if code else unreachable(), is_stored and code in (0, 1, 10, 12)))
        asyncio.run(copy_all(connect(source, target, notes)))
        assert target.bodies(HERE) == bodies


async def test_messages_that_retention_took_are_counted() -> None:
    source, target, notes = MemorySource([THERE]), MemoryTarget([HERE]), list[str]()
    source.send(THERE, *(f"{number}" for number in range(10)))
    source.contents[THERE].remove(6)
    shared = connect(source, target, notes)
    await copy_all(shared)
    assert (target.bodies(HERE), shared.counts.lost) == (["6", "7", "8", "9"], 0)  # those were gone before it began
    source.send(THERE, *(f"{number}" for number in range(10, 20)))
    source.contents[THERE].remove(9)
    await copy_all(shared)
    assert target.bodies(HERE) == ["6", "7", "8", "9", "15", "16", "17", "18", "19"]
    assert shared.counts.lost == 5
    assert "5 messages" in notes[0]


async def test_a_queue_that_was_made_again_is_copied_from_its_beginning() -> None:
    source, target, notes = MemorySource([THERE]), MemoryTarget([HERE]), list[str]()
    source.send(THERE, "a", "b", "c")
    await copy_all(connect(source, target, notes))
    source.contents[THERE].records.clear()
    source.send(THERE, "d", "e")
    await copy_all(connect(source, target, notes))
    assert target.bodies(HERE) == ["a", "b", "c", "d", "e"]
    assert "created again" in notes[0]


async def test_a_new_master_without_the_last_messages_does_not_bring_the_others_again() -> None:
    source, target, notes = MemorySource([THERE]), MemoryTarget([HERE]), list[str]()
    source.send(THERE, "a", "b", "c")
    await copy_all(connect(source, target, notes))
    del source.contents[THERE].records[2:]
    shared = connect(source, target, notes)
    copier = await copy_all(shared)
    assert copier.next_offset == 2
    assert "lost messages" in notes[0]
    source.send(THERE, "d")
    await copy_all(shared)


async def test_a_queue_that_ends_before_its_copies_is_not_caught_up_until_that_is_believed() -> None:
    source, target, notes = MemorySource([THERE]), MemoryTarget([HERE]), list[str]()
    source.send(THERE, "a", "b", "c")
    await copy_all(connect(source, target, notes))
    del source.contents[THERE].records[2:]
    copier = await start_copier(connect(source, target, notes, replace(QUICK, believed=60.0)))
    seen: list[bool] = []
    source.on_pull = lambda: seen.append(copier.is_caught_up)
    await copy_until(lambda: len(seen) >= 5, copier)
    assert not any(seen)
    assert (copier.next_offset, notes) == (3, [])


async def test_a_message_that_is_refused_ends_the_mirror_or_is_left_out() -> None:
    source, target, notes = MemorySource([THERE]), MemoryTarget([HERE]), list[str]()
    source.send(THERE, "a", "b", "c")
    target.refused.add(b"b")
    with pytest.raises(MessageRefused, match=r"message 1 of queue 0 of orders on a.*--skip-refused"):
        await copy_all(connect(source, target, notes))
    assert target.bodies(HERE) == ["a"]
    shared = connect(source, target, notes)
    shared.skips_refused = True
    await copy_all(shared)
    assert (target.bodies(HERE), shared.counts.refused) == (["a", "c"], 1)


async def test_control_characters_of_properties_become_spaces() -> None:
    source, target, notes = MemorySource([THERE]), MemoryTarget([HERE]), list[str]()
    source.contents[THERE].append(THERE, b"a", "own\x01a\tb", 1)
    shared = connect(source, target, notes)
    await copy_all(shared)
    assert shared.counts.changed == 1
    assert "own\x01a b" in target.contents[HERE].records[0].properties


async def test_missing_rights_end_the_mirror() -> None:
    source, target, notes = MemorySource([THERE]), MemoryTarget([HERE]), list[str]()
    source.send(THERE, "a")
    target.failures.append((RemotingRefused("no right", 16), False))
    with pytest.raises(RemotingRefused, match="no right"):
        await copy_all(connect(source, target, notes))


async def test_copies_are_sent_at_a_rate() -> None:
    source, target, notes = MemorySource([THERE]), MemoryTarget([HERE]), list[str]()
    source.send(THERE, *(f"{number}" for number in range(20)))
    shared = connect(source, target, notes)
    shared.rate = 100
    began = time.monotonic()
    await copy_all(shared)
    assert time.monotonic() - began > 0.15
    assert len(target.bodies(HERE)) == 20


async def test_retries_wait_until_their_group_has_left() -> None:
    source, target, notes = MemorySource([THERE]), MemoryTarget([HERE]), list[str]()
    source.send(THERE, "retry")
    shared = connect(source, target, notes)
    await copy_all(shared, retries_of="billing")
    assert target.bodies(HERE) == []
    shared.left_groups.add("billing")
    await copy_all(shared, retries_of="billing")
    assert target.bodies(HERE) == ["retry"]
