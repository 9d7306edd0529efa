"""Kills proxies, brokers and members of a group of 4.x consumers under load, and accounts for each message.

    python -m tests.cluster.remoting_kills --kills 200 [--pops] [--seed N]

The account is made at the end. Lost is a message that was acknowledged and is not stored, skipped one that is stored
and that no member of the group ever finished, doubled each further time that a message was finished. Lost and
skipped must be 0; the exit code is 0 if so. A message whose number ends with 7 fails once: it is sent back, or with
`--pops`, where members pop, shown again by its invisible time.
"""

import argparse
import asyncio
import contextlib
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ternmq_proxy.fronts.remoting.handlers.pulls import HAS_SUBSCRIPTION
from ternmq_rpc.remoting.message_records import MessageRecord, decode_records
from tests.cluster.watching import eventually
from tests.support.cluster_processes import ClusterProcesses
from tests.support.embedded import RawClient
from tests.support.popping_consumer import PoppingConsumer
from tests.support.remoting_client import RemotingClient
from tests.support.remoting_consumer import RemotingConsumer
from tests.support.soaks import print_line

if TYPE_CHECKING:
    from tests.support.cluster_processes import MemberProcess

MEMBERS = 4
QUEUES = 4
_PRODUCE_EVERY_S = 0.005
_PAUSE_S = 0.2
_SENT_WITHIN_S = 60.0
_DOWN_S = (0.0, 3.0)
_MORE_SENT = 100


@dataclass(frozen=True, slots=True)
class Account:
    """What became of the messages; see the module. `failed` came again after their first delivery failed."""

    acknowledged: int
    failed: int
    lost: int
    skipped: int
    doubled: int

    def __str__(self) -> str:
        return (
            f"{self.acknowledged:,} acknowledged, {self.failed:,} failed once; "
            f"{self.lost} lost, {self.skipped} skipped, {self.doubled:,} doubled"
        )


class KilledGroup:
    """A producer, and a group whose members are killed: `async with killed_group(...) as group`."""

    def __init__(self, cluster: ClusterProcesses, topic: str, *, pops: bool) -> None:
        self._cluster = cluster
        self._topic = topic
        self._pops = pops
        self._doors = [proxy.remoting for proxy in cluster.proxies]
        self._finished: Counter[bytes] = Counter()
        self._failed: set[bytes] = set()
        self._acknowledged: set[bytes] = set()
        self._numbers = iter(range(sys.maxsize))
        self._members: list[RemotingConsumer] = []
        self._producing: asyncio.Task[None]

    async def begin(self) -> None:
        """Make the topic, and begin to send and to consume."""
        async with RawClient(self._cluster.proxies[0].grpc) as operator:
            await operator.create_topic(self._topic, queues=QUEUES)
            if self._pops:
                await operator.create_group(f"{self._topic}-g", consume_from="earliest", remoting_pop=True)
        self._producing = asyncio.create_task(self._produce())
        for _ in range(MEMBERS):
            self.add_member()

    async def end(self) -> None:
        self._producing.cancel()
        await asyncio.gather(self._producing, return_exceptions=True)
        await asyncio.gather(*(member.kill() for member in self._members))

    def add_member(self) -> None:
        number = next(self._numbers)
        turned = self._doors[number % len(self._doors) :] + self._doors[: number % len(self._doors)]
        create = PoppingConsumer if self._pops else RemotingConsumer
        self._members.append(create(turned, f"k{number}", f"{self._topic}-g", self._topic, self._handle))

    async def replace_member(self, index: int) -> None:
        """Kill a member, and have another one join."""
        await self._members.pop(index).kill()
        self.add_member()

    def _handle(self, record: MessageRecord) -> bool:
        if record.body.endswith(b"7") and record.body not in self._failed:
            self._failed.add(record.body)
            return False
        self._finished[record.body] += 1
        return True

    async def wait_for_sent(self, count: int) -> None:
        """Wait until so many more messages were acknowledged."""
        before = len(self._acknowledged)

        async def are_sent() -> bool:
            return len(self._acknowledged) >= before + count

        await eventually(are_sent, within_s=_SENT_WITHIN_S, what=f"{count} more messages sent")

    async def _produce(self) -> None:
        number = 0
        while True:
            for door in self._doors:
                with contextlib.suppress(OSError, TimeoutError):
                    async with await RemotingClient.connect(door) as client:
                        while True:
                            body = b"%d" % number
                            number += 1
                            broker = self._cluster.brokers[number // QUEUES % len(self._cluster.brokers)].name
                            answer = await client.send(self._topic, body, queue_id=number % QUEUES, n=broker)
                            if answer.code == 0:
                                self._acknowledged.add(body)
                            await asyncio.sleep(_PRODUCE_EVERY_S)
                await asyncio.sleep(_PAUSE_S)

    async def finish(self, *, within_s: float = 60.0) -> Account:
        """Stop sending, wait until the group has finished all that is stored, and return the account."""
        self._producing.cancel()
        await asyncio.gather(self._producing, return_exceptions=True)
        stored = await self._read_stored()

        async def all_finished() -> bool:
            return stored <= self._finished.keys()

        with contextlib.suppress(AssertionError):  # the account says it
            await eventually(all_finished, within_s=within_s, what="all messages finished")
        return Account(
            acknowledged=len(self._acknowledged),
            failed=len(self._failed),
            lost=len(self._acknowledged - stored),
            skipped=len(stored - self._finished.keys()),
            doubled=sum(count - 1 for count in self._finished.values()),
        )

    async def _read_stored(self) -> set[bytes]:
        """Return the bodies of all messages of the topic."""
        stored: set[bytes] = set()
        async with await RemotingClient.connect(self._doors[0]) as client:
            for broker in self._cluster.brokers:
                for queue_id in range(QUEUES):
                    stored |= await self._read_queue(client, broker.name, queue_id)
        return stored

    async def _read_queue(self, client: RemotingClient, broker: str, queue_id: int) -> set[bytes]:
        stored: set[bytes] = set()
        offset, end = 0, 0

        async def is_bounded() -> bool:
            nonlocal end
            found = await client.call(30, topic=self._topic, queueId=queue_id, bname=broker)
            end = int(found.fields.get("offset", 0))
            return found.code == 0

        await eventually(is_bounded, within_s=_SENT_WITHIN_S, what=f"{broker} answers")
        while offset < end:
            answer = await client.pull(
                f"{self._topic}-readers",
                self._topic,
                queue_id=queue_id,
                offset=offset,
                bname=broker,
                subscription="*",
                sysFlag=HAS_SUBSCRIPTION,
            )
            assert answer.code == 0, answer.remark
            stored.update(record.body for record in decode_records(answer.body))
            offset = int(answer.fields["nextBeginOffset"])
        return stored


@contextlib.asynccontextmanager
async def killed_group(cluster: ClusterProcesses, topic: str, *, pops: bool = False) -> AsyncIterator[KilledGroup]:
    """A group at work; nothing of it is left afterwards."""
    group = KilledGroup(cluster, topic, pops=pops)
    await group.begin()
    try:
        yield group
    finally:
        await group.end()


async def _kill(group: KilledGroup, victim: "MemberProcess | None", dice: random.Random) -> None:
    await group.wait_for_sent(_MORE_SENT)
    if victim is None:
        await group.replace_member(dice.randrange(MEMBERS))
        return
    await asyncio.to_thread(victim.kill9)
    await asyncio.sleep(dice.uniform(*_DOWN_S))
    await asyncio.to_thread(victim.start)


async def run(kills: int, seed: int, *, pops: bool) -> int:
    dice, killed = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as folder, ClusterProcesses(Path(folder)) as cluster:
        began = time.monotonic()
        async with killed_group(cluster, "killed", pops=pops) as group:
            try:
                for number in range(kills):
                    victim = dice.choice([*cluster.brokers, *cluster.proxies, None])
                    await _kill(group, victim, dice)
                    killed["a member" if victim is None else victim.name] += 1
                    if (number + 1) % 10 == 0:
                        print_line(f"{number + 1} kills in {time.monotonic() - began:.0f} s")
                account = await group.finish()
            except AssertionError as error:
                print_line(f"{error}\n{cluster.logs}")
                return 1
        print_line(f"{kills} kills ({', '.join(f'{count} of {name}' for name, count in sorted(killed.items()))})")
        print_line(str(account))
        if account.lost or account.skipped:
            print_line(cluster.logs)
    return int(bool(account.lost or account.skipped))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.remoting_kills", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--pops", action="store_true", help="members pop")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    arguments = parser.parse_args()
    print_line(f"seed {arguments.seed}")
    return asyncio.run(run(arguments.kills, arguments.seed, pops=arguments.pops))


if __name__ == "__main__":
    sys.exit(main())
