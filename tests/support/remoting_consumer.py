"""A small push consumer of the remoting protocol, which does what Java's does: heartbeats, rebalances on 40, pulls,
commits, and sends back what it fails on."""

import asyncio
import itertools
import json
from collections.abc import Callable, Sequence

from ternmq_rpc.remoting.commands import Command
from ternmq_rpc.remoting.message_records import MessageRecord, decode_records
from tests.support.remoting_client import RemotingClient

_SUSPEND_MS = 3000
PAUSE_S = 0.2
REBALANCE_S = 5.0
Queue = tuple[str, str, int]


def share_of(client_id: str, members: Sequence[str], queues: Sequence[Queue]) -> list[Queue]:
    """The queues of a member by the strategy AVG."""
    if client_id not in members:
        return []
    index, size = sorted(members).index(client_id), len(members)
    ordered = sorted(queues)
    rest = len(ordered) % size
    share = 1 if len(ordered) <= size else len(ordered) // size + (index < rest)
    begin = index * share if rest and index < rest else index * share + rest
    return ordered[begin : begin + share]


class RemotingConsumer:
    """One member of a group. `handle` takes each message and returns whether it worked; `assigned` are its queues."""

    def __init__(
        self, addresses: Sequence[str], client_id: str, group: str, topic: str, handle: Callable[[MessageRecord], bool]
    ) -> None:
        self.client_id, self.group, self.topic = client_id, group, topic
        self.assigned: set[Queue] = set()
        self._addresses = itertools.cycle(addresses)
        self._handle = handle
        self._pulls: dict[Queue, asyncio.Task[None]] = {}
        self._task = asyncio.create_task(self._run_forever())

    async def kill(self) -> None:
        """End without a word, as a process that is killed."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run_forever(self) -> None:
        while True:
            try:
                async with await RemotingClient.connect(next(self._addresses)) as client:
                    await self._consume(client)
            except (OSError, TimeoutError):
                await asyncio.sleep(PAUSE_S)
            finally:
                for task in self._pulls.values():
                    task.cancel()
                await asyncio.gather(*self._pulls.values(), return_exceptions=True)
                self._pulls.clear()
                self.assigned = set()

    async def _beat(self, client: RemotingClient) -> Command:
        return await client.heartbeat(self.client_id, consumers={self.group: [self.topic]})

    async def _consume(self, client: RemotingClient) -> None:
        while (await self._beat(client)).code:  # noqa: ASYNC110
            await asyncio.sleep(PAUSE_S)
        while True:
            while not client.pushed.empty():
                client.pushed.get_nowait()
            await self._rebalance(client)
            if client.is_closed or any(task.done() for task in self._pulls.values()):
                raise ConnectionError("the server closed the connection")
            try:
                async with asyncio.timeout(REBALANCE_S):
                    pushed = asyncio.create_task(client.pushed.get())
                    closed = asyncio.create_task(client.closed.wait())
                    try:
                        await asyncio.wait({pushed, closed}, return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        pushed.cancel()
                        closed.cancel()
            except TimeoutError:
                await self._beat(client)

    async def _rebalance(self, client: RemotingClient) -> None:
        listed = await client.call(38, consumerGroup=self.group)
        if listed.code:
            return
        members = json.loads(listed.body)["consumerIdList"]
        shares: set[Queue] = set()
        for topic in (self.topic, f"%RETRY%{self.group}"):
            route = await client.call(105, topic=topic)
            if route.code:
                return
            queues = [
                (topic, each["brokerName"], number)
                for each in json.loads(route.body)["queueDatas"]
                for number in range(each["readQueueNums"])
            ]
            shares.update(share_of(self.client_id, members, queues))
        for queue in [queue for queue in self._pulls if queue not in shares]:
            task = self._pulls.pop(queue)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        for queue in shares.difference(self._pulls):
            self._pulls[queue] = asyncio.create_task(self._pull_forever(client, queue))
        self.assigned = shares

    async def _pull_forever(self, client: RemotingClient, queue: Queue) -> None:
        topic, broker, number = queue
        named = {"consumerGroup": self.group, "topic": topic, "queueId": number, "bname": broker}
        while (begun := await client.call(14, **named)).code not in (0, 22):  # noqa: ASYNC110
            await asyncio.sleep(PAUSE_S)
        offset = 0 if begun.code else int(begun.fields["offset"])
        while True:
            answer = await client.pull(
                self.group, topic, queue_id=number, offset=offset, suspend_ms=_SUSPEND_MS, bname=broker
            )
            if answer.code not in (0, 19, 20, 21):
                await asyncio.sleep(PAUSE_S)
                continue
            for record in decode_records(answer.body) if answer.code == 0 else ():
                while not self._handle(record):
                    sent = await client.call(36, offset=record.log_offset, group=self.group, delayLevel=1, bname=broker)
                    if sent.code == 0:
                        break
                    await asyncio.sleep(PAUSE_S)
            offset = int(answer.fields["nextBeginOffset"])
            await client.call(15, **named, commitOffset=offset)
