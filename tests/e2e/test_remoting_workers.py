"""Remoting clients of several workers behind one port: what one worker takes, clients of another one get."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from ternmq_rpc.remoting.commands import Command
from ternmq_rpc.remoting.message_ids import decode_offset_id
from ternmq_rpc.remoting.message_records import decode_records
from tests.support.ports import free_address
from tests.support.remoting_client import RemotingClient
from tests.support.workers import WorkerStack

pytestmark = [pytest.mark.slow]
# That all are at one worker is less likely than one in 30,000.
CLIENTS = 16
PATIENCE_S = 30.0


async def test_replies_and_transactions_reach_clients_of_other_workers(tmp_path: Path) -> None:
    stack = WorkerStack(tmp_path, "--workers", "2")
    stack.addresses["remoting"] = free_address()
    with stack:
        async with AsyncExitStack() as opened:
            address = stack.addresses["remoting"]
            clients = [await opened.enter_async_context(await RemotingClient.connect(address)) for _ in range(CLIENTS)]
            for number, client in enumerate(clients):
                client.answers[326] = Command(0)
                await client.heartbeat(f"client-{number}", producers=(f"group-{number}",))
            await check_replies(clients)
            await check_ends(clients)
            await check_checks(clients)


async def check_replies(clients: list[RemotingClient]) -> None:
    """Each gets the reply that its neighbour sends."""
    for number, client in enumerate(clients):
        to = (number + 1) % len(clients)
        fields = {"b": "DefaultCluster_REPLY_TOPIC", "e": 0, "i": f"REPLY_TO_CLIENT\x01client-{to}"}
        sent = await client.call(325, b"to %d" % to, **fields)
        assert sent.code == 0, sent.remark
        pushed = await asyncio.wait_for(clients[to].pushed.get(), PATIENCE_S)
        assert (pushed.code, pushed.body) == (326, b"to %d" % to)


async def check_ends(clients: list[RemotingClient]) -> None:
    """A transaction that all of them commit is one message."""
    pairs = {"UNIQ_KEY": "E1", "TRAN_MSG": "true", "PGROUP": "group-0"}
    sent = await clients[0].send("ended-4x", b"half", properties=pairs)
    end = end_of(sent.fields["msgId"], "group-0", "E1")
    assert [(await client.call(37, **end)).code for client in clients] == [0] * len(clients)
    pulled = await clients[0].call(
        11, consumerGroup="readers", topic="ended-4x", queueId=0, queueOffset=0, maxMsgNums=32, sysFlag=4
    )
    assert [record.body for record in decode_records(pulled.body)] == [b"half"]


def end_of(offset_id: str, group: str, message_id: str) -> dict[str, object]:
    _, number = decode_offset_id(offset_id)
    return {
        "producerGroup": group,
        "tranStateTableOffset": number & (1 << 48) - 1,
        "commitLogOffset": number,
        "commitOrRollback": 8,
        "msgId": message_id,
    }


async def check_checks(clients: list[RemotingClient]) -> None:
    """Each is asked about the half message that its neighbour sent for its group."""
    for number, client in enumerate(clients):
        to = (number + 1) % len(clients)
        pairs = {"UNIQ_KEY": f"C{to}", "TRAN_MSG": "true", "PGROUP": f"group-{to}"}
        sent = await client.send("checked-4x", b"half", properties={**pairs, "CHECK_IMMUNITY_TIME_IN_SECONDS": "1"})
        assert sent.code == 0, sent.remark
    for number, client in enumerate(clients):
        check = await asyncio.wait_for(client.pushed.get(), PATIENCE_S)
        assert (check.code, check.fields["msgId"]) == (39, f"C{number}")
        end = end_of(check.fields["offsetMsgId"], f"group-{number}", f"C{number}")
        assert (await client.call(37, **end, fromTransactionCheck=True)).code == 0
