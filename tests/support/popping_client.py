"""What clients of the remoting protocol that pop send: `await pop(client, group, topic)`."""

import json
import time
from typing import NamedTuple

from ternmq_rpc.remoting.commands import Command
from ternmq_rpc.remoting.message_records import MessageRecord, decode_records
from tests.support.remoting_client import RemotingClient

POPPING_VERSION = 513  # 5.5.0


class Popped(NamedTuple):
    """A message that was popped, with its checkpoint and what clients read from that."""

    record: MessageRecord
    checkpoint: str

    @property
    def parts(self) -> list[str]:
        """The parts of its checkpoint."""
        return self.checkpoint.split(" ")


async def connect_popper(address: str) -> RemotingClient:
    """Connect as a client that can pop."""
    client = await RemotingClient.connect(address)
    client.version = POPPING_VERSION
    return client


async def set_mode(client: RemotingClient, group: str, topic: str, mode: str) -> Command:
    """Have the group pop, or pull (401)."""
    body = {"topic": topic, "consumerGroup": group, "mode": mode, "popShareQueueNum": 0}
    return await client.call(401, json.dumps(body).encode())


async def pop(
    client: RemotingClient,
    group: str,
    topic: str,
    *,
    invisible_ms: int = 60_000,
    poll_ms: int = 0,
    batch: int = 32,
    **fields: object,
) -> Command:
    """Pop messages (200050)."""
    header: dict[str, object] = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": -1,
        "maxMsgNums": batch,
        "invisibleTime": invisible_ms,
        "pollTime": poll_ms,
        "bornTime": int(time.time() * 1000),
        "initMode": 0,
        "expType": "TAG",
        "exp": "*",
        "order": False,
    }
    return await client.call(200050, **(header | fields))


def read_popped(answer: Command) -> list[Popped]:
    """The messages of an answer; each has the checkpoint that clients put together from the header, too."""
    assert answer.code == 0, answer.remark
    fields = answer.fields
    starts = {tuple(each.split(" ")[:2]): each.split(" ")[2] for each in fields["startOffsetInfo"].split(";")}
    listed = {tuple(each.split(" ")[:2]): each.split(" ")[2] for each in fields["msgOffsetInfo"].split(";")}
    popped: list[Popped] = []
    for record in decode_records(answer.body):
        pairs = dict(pair.split("\x01") for pair in record.properties.split("\x02") if pair)
        mark = "1" if record.topic.startswith("%RETRY%") else "0"
        place = (mark, str(record.queue_id))
        assert str(record.queue_offset) in listed[place].split(",")
        times = f"{fields['popTime']} {fields['invisibleTime']} {fields['reviveQid']}"
        broker = pairs["POP_CK"].split(" ")[5]
        put_together = f"{starts[place]} {times} {mark} {broker} {record.queue_id} {record.queue_offset}"
        assert pairs["POP_CK"] == put_together
        popped.append(Popped(record, put_together))
    return popped


async def settle(client: RemotingClient, code: int, group: str, message: Popped, **fields: object) -> Command:
    """Send the request of that code about a message."""
    return await client.call(
        code,
        consumerGroup=group,
        topic=message.record.topic,
        queueId=message.parts[6],
        offset=message.parts[7],
        extraInfo=message.checkpoint,
        bname=message.parts[5],
        **fields,
    )


async def acknowledge(client: RemotingClient, group: str, message: Popped) -> Command:
    """Acknowledge a message (200051)."""
    return await settle(client, 200051, group, message)
