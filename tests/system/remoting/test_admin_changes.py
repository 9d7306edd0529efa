"""Groups that are moved, and requests that clients answer themselves."""

import asyncio
import json
from typing import Any

from ternmq_rpc.remoting.commands import Command
from ternmq_rpc.remoting.json_dialect import MessageQueueKey, decode_dialect, encode_dialect
from tests.support.remoting_client import RemotingClient
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
Content = Any
"""What a body holds: tests compare it."""
TIMEOUT_S = 20


def read(body: bytes) -> Content:
    """Return a body's content."""
    return decode_dialect(body)


async def next_pushed(client: RemotingClient, code: int) -> Command:
    """Return the next request of that code that the server made."""
    while True:
        pushed = await asyncio.wait_for(client.pushed.get(), TIMEOUT_S)
        if pushed.code == code:
            return pushed


async def test_a_group_is_moved_and_its_members_are_told(remoting: RemotingClient) -> None:
    for _ in range(3):
        await remoting.send("reset-4x", b"x")
    await remoting.heartbeat("reset-client", consumers={"reset-4x-group": ["reset-4x"]})
    place = {"consumerGroup": "reset-4x-group", "topic": "reset-4x", "queueId": 0}
    to_end = await remoting.call(222, topic="reset-4x", group="reset-4x-group", timestamp=-1, isForce=True)
    moved = {each.queue_id: offset for each, offset in read(to_end.body)["offsetTable"].items()}
    assert moved == {0: 3, 1: 0, 2: 0, 3: 0}
    assert (await remoting.call(14, **place)).fields["offset"] == "3"
    pushed = await next_pushed(remoting, 220)
    assert (pushed.fields["group"], pushed.fields["topic"]) == ("reset-4x-group", "reset-4x")
    assert read(pushed.body) == read(to_end.body)
    await remoting.call(222, topic="reset-4x", group="reset-4x-group", timestamp=0, isForce=True)
    assert (await remoting.call(14, **place)).fields["offset"] == "0"
    wanted = {"timestamp": -1, "queueId": 0, "offset": 2}
    await remoting.call(222, topic="reset-4x", group="reset-4x-group", isForce=True, **wanted)
    assert (await remoting.call(14, **place)).fields["offset"] == "2"
    assert (await remoting.call(222, topic="reset-4x", group="none-4x", timestamp=-1, isForce=True)).code == 26
    assert (await remoting.call(222, topic="none-4x", group="reset-4x-group", timestamp=-1, isForce=True)).code == 17


async def test_a_group_goes_on_where_another_is(remoting: RemotingClient) -> None:
    for _ in range(3):
        await remoting.send("cloned-4x", b"x")
    for group in ("clone-source", "clone-destination"):
        assert (await remoting.call(200, json.dumps({"groupName": group}).encode())).code == 0
    place = {"topic": "cloned-4x", "queueId": 0}
    await remoting.call(15, consumerGroup="clone-source", **place, commitOffset=2)
    cloned = {"srcGroup": "clone-source", "destGroup": "clone-destination", "topic": "cloned-4x", "offline": False}
    assert (await remoting.call(314, **cloned)).code == 0
    assert (await remoting.call(14, consumerGroup="clone-destination", **place)).fields["offset"] == "2"
    assert (await remoting.call(314, **{**cloned, "destGroup": "nobody-4x"})).code == 26


async def test_members_say_themselves_where_they_are(remoting: RemotingClient) -> None:
    queue = MessageQueueKey("asked-4x", "broker", 0)
    remoting.answers[221] = Command(0, body=encode_dialect({"messageQueueTable": {queue: 7}}))
    remoting.answers[307] = Command(0, body=b'{"properties":{}}')
    remoting.answers[309] = Command(0, body=b'{"consumeResult":"CR_SUCCESS"}')
    await remoting.heartbeat("asked-client", consumers={"asked-4x-group": ["asked-4x"]})
    sent = await remoting.send("asked-4x", b"again")
    status = read((await remoting.call(223, topic="asked-4x", group="asked-4x-group")).body)
    assert status == {"consumerTable": {"asked-client": {queue: 7}}, "messageQueueTable": {}}
    member = {"consumerGroup": "asked-4x-group", "clientId": "asked-client"}
    info = await remoting.call(307, **member, jstackEnable=False)
    assert (info.code, info.body) == (0, b'{"properties":{}}')
    consumed = await remoting.call(309, **member, msgId=sent.fields["msgId"], brokerName="b")
    assert (consumed.code, consumed.body) == (0, b'{"consumeResult":"CR_SUCCESS"}')
    pushed = await next_pushed(remoting, 309)
    assert (pushed.fields["topic"], b"again" in pushed.body) == ("asked-4x", True)
    absent = await remoting.call(307, **{**member, "clientId": "nobody"}, jstackEnable=False)
    assert (absent.code, absent.remark) == (1, "The Consumer <asked-4x-group> <nobody> not online")
    assert (await remoting.call(309, **member, msgId="no id", brokerName="b")).code == 1
