"""Kills and restarts the stack for as long as you like, under load: `python -m tests.faults.chaos --minutes 10`.

Producers send, simple and push consumers of two groups read, and at random moments the process gets SIGKILL or SIGTERM
and is started again. At the end every group must have seen every message whose sending was acknowledged. What came more
than once is counted and said: each SIGKILL may cost a second of acknowledgements, and claims under way.
"""

import asyncio
import contextlib
import logging
import random
import sys
import tempfile
from collections import Counter
from datetime import timedelta
from pathlib import Path

from ternmq import AckError, ClientError, Message, MessageView, Producer, PushConsumer, SimpleConsumer
from tests.support.soaks import create_parser, print_line
from tests.support.stack import Stack

TOPIC = "chaos"
PRODUCERS = 3
QUIET_POLLS = 3


class Account:
    """What was promised, and what each group has seen."""

    def __init__(self) -> None:
        self.sent: set[bytes] = set()
        self.seen: dict[str, Counter[bytes]] = {"simple": Counter(), "push": Counter()}

    def missing(self, group: str) -> int:
        return len(self.sent - self.seen[group].keys())

    def repeated(self, group: str) -> int:
        return sum(self.seen[group].values()) - len(self.seen[group])


async def produce(endpoint: str, name: int, account: Account, dice: random.Random) -> None:
    number = 0
    async with Producer(endpoint, topics=[TOPIC]) as producer:
        while True:
            bodies = [b"%d-%d" % (name, number + each) for each in range(dice.randint(1, 40))]
            number += len(bodies)
            try:
                await producer.send_many([Message(TOPIC, body) for body in bodies])
            except ClientError:
                continue  # not acknowledged, so nothing was promised
            account.sent.update(bodies)
            await asyncio.sleep(dice.random() / 50)


async def consume_simply(endpoint: str, account: Account, *, until_quiet: bool = False) -> None:
    quiet = 0
    async with SimpleConsumer(endpoint, "simple", {TOPIC: "*"}, await_duration=timedelta(seconds=2)) as consumer:
        while not until_quiet or quiet < QUIET_POLLS or account.missing("simple"):
            try:
                views = await consumer.receive(32, timedelta(seconds=10))
                account.seen["simple"].update(view.body for view in views)
                if views:
                    await consumer.ack(views)
                quiet = 0 if views else quiet + 1
            except (AckError, ClientError):
                await asyncio.sleep(0.1)


async def run(minutes: float, seed: int) -> Account:
    dice = random.Random(seed)
    account = Account()

    pushed = asyncio.Event()

    async def listen(view: MessageView) -> None:
        account.seen["push"][view.body] += 1
        pushed.set()

    with tempfile.TemporaryDirectory() as folder, Stack(Path(folder)) as stack:
        tasks = [asyncio.create_task(produce(stack.grpc, name, account, dice)) for name in range(PRODUCERS)]
        tasks += [asyncio.create_task(consume_simply(stack.grpc, account)) for _ in range(2)]
        async with PushConsumer(stack.grpc, "push", {TOPIC: "*"}, listen):
            end = asyncio.get_running_loop().time() + minutes * 60
            while asyncio.get_running_loop().time() < end:
                await asyncio.sleep(dice.uniform(0.5, 8))
                await asyncio.to_thread(stack.kill9 if dice.random() < 0.7 else stack.terminate)
                await asyncio.to_thread(stack.start)
                print_line(f"{len(account.sent):,} acknowledged")
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            with contextlib.suppress(TimeoutError):  # the account tells what is missing
                async with asyncio.timeout(120):
                    await consume_simply(stack.grpc, account, until_quiet=True)
                    while account.missing("push"):
                        pushed.clear()
                        await pushed.wait()
    return account


def main() -> int:
    parser = create_parser(__doc__, minutes=10)
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    print_line(f"seed {arguments.seed}")
    account = Account()
    with contextlib.suppress(KeyboardInterrupt):
        account = asyncio.run(run(arguments.minutes, arguments.seed))
    for group in account.seen:
        missing, repeated = account.missing(group), account.repeated(group)
        print_line(f"group {group}: {len(account.sent):,} acknowledged, {missing} missing, {repeated:,} came again")
    return int(any(account.missing(group) for group in account.seen))


if __name__ == "__main__":
    sys.exit(main())
