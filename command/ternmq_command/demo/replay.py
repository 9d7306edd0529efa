"""Runs broker, consumers and sender until every wanted row came back or there is no more progress."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from ternmq_command.calls.admin import AdminClient
from ternmq_command.demo import CONSUMERS, GROUP, TOPIC
from ternmq_command.demo.consumer_process import ConsumerProcess
from ternmq_command.demo.display import DemoDisplay
from ternmq_command.demo.flights import build_message, data_file, read_rows
from ternmq_command.demo.ledger import BrokerKill, Ledger
from ternmq_command.demo.sender import send_all
from ternmq_command.demo.stack import DemoStack
from ternmq_command.demo.waiting import wait_until
from ternmq_command.terminal.failures import CommandFailure

TICK_S = 0.1
SAVE_INTERVAL_S = 2.0
# Longer than the invisible duration after a delivery that was not acknowledged.
STILL_MAX_S = 45.0
LAST_SENDS_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoFolders:
    """The files and folders of the demo."""

    root: Path

    @property
    def stack(self) -> Path:
        return self.root / "stack"

    @property
    def ledger(self) -> Path:
        return self.root / "progress.json"

    @property
    def lake(self) -> Path:
        return self.root / "lake"

    @property
    def tables(self) -> Path:
        return self.root / "tables"

    @property
    def charts(self) -> Path:
        return self.root / "charts"

    @property
    def log(self) -> Path:
        return self.root / "demo.log"


async def replay_flights(
    folders: DemoFolders, ledger: Ledger, wanted: int, display: DemoDisplay, *, kill_server: bool
) -> None:
    """Send and consume the rows below `wanted`; at the end, also after errors, stop the children and save the
    ledger."""
    ledger.save_to(folders.ledger, clean=False)
    stack = DemoStack(folders.stack, folders.log)
    try:
        took_s = await stack.start()
        display.show_text(f"broker ready at {stack.grpc} after {took_s:.2f} s")
        await asyncio.to_thread(create_topic_and_group, stack.grpc)
        await _run_consumers(stack, folders, ledger, wanted, display, kill_server=kill_server)
    finally:
        await stack.stop()
        ledger.save_to(folders.ledger, clean=True)


def create_topic_and_group(endpoint: str) -> None:
    """Create the topic and the consumer group of the demo; nothing changes if they exist."""
    from ternmq.admin import groups as group_calls
    from ternmq.admin import topics as topic_calls

    with AdminClient(endpoint) as admin:
        admin.send_call(topic_calls.create_topic(TOPIC, "normal"))
        admin.send_call(group_calls.create_group(GROUP))


async def _run_consumers(
    stack: DemoStack, folders: DemoFolders, ledger: Ledger, wanted: int, display: DemoDisplay, *, kill_server: bool
) -> None:
    consumers = [await ConsumerProcess.start(number, stack.grpc, folders.log) for number in range(1, CONSUMERS + 1)]
    messages = (
        (number, build_message(number, row))
        for number, row in read_rows(data_file(), wanted)
        if not ledger.sent[number]
    )
    async with asyncio.TaskGroup() as tasks:
        for consumer in consumers:
            tasks.create_task(consumer.read_reports(ledger))
        stop_sending = asyncio.Event()
        sender = tasks.create_task(send_all(stack.grpc, messages, ledger, stop_sending))
        killer = tasks.create_task(_kill_in_the_middle(stack, ledger, wanted, display)) if kill_server else None
        try:
            await _watch_progress(stack, folders, ledger, wanted, display, consumers)
        finally:
            if killer:
                killer.cancel()
            stop_sending.set()
            await asyncio.wait([sender], timeout=LAST_SENDS_S)
            sender.cancel()
            # Their last reports are read by the tasks above, which end with them.
            await asyncio.gather(*(consumer.stop() for consumer in consumers))
    display.update(ledger)


async def _watch_progress(
    stack: DemoStack,
    folders: DemoFolders,
    ledger: Ledger,
    wanted: int,
    display: DemoDisplay,
    consumers: list[ConsumerProcess],
) -> None:
    """Show and save the progress, and measure memory, until every wanted row came back."""
    saved_s = moved_s = time.monotonic()
    moved_count = -1
    while not all(memoryview(ledger.consumed)[:wanted]):
        await asyncio.sleep(TICK_S)
        now_s = time.monotonic()
        display.update(ledger)
        if (resident_bytes := stack.resident_bytes()) is not None:
            ledger.add_resident(resident_bytes)
        if now_s - saved_s > SAVE_INTERVAL_S:
            ledger.save_to(folders.ledger, clean=False)
            saved_s = now_s
        if ledger.deliveries + ledger.sent_count != moved_count:
            moved_count, moved_s = ledger.deliveries + ledger.sent_count, now_s
        if now_s - moved_s > STILL_MAX_S:
            display.show_text(f"no progress for {STILL_MAX_S:.0f} s")
            return
        if any(consumer.has_ended for consumer in consumers):
            raise CommandFailure(f"a consumer ended unexpectedly; see {folders.log}")


async def _kill_in_the_middle(stack: DemoStack, ledger: Ledger, wanted: int, display: DemoDisplay) -> None:
    half = (wanted + ledger.consumed_count) // 2
    await wait_until(lambda: ledger.consumed_count >= half)
    killed_s, consumed = time.monotonic(), ledger.consumed_count
    await stack.kill_process()
    display.show_text(f"kill -9 of the broker, with {ledger.sent_count:,} sent and {consumed:,} consumed")
    await stack.start()
    down_s = time.monotonic() - killed_s
    ledger.kills.append(BrokerKill(consumed, down_s))
    display.show_text(f"the broker serves again after {down_s:.2f} s")
