"""Texts of statuses that programs written for Apache RocketMQ look into."""

import pytest

from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.embedded import RawClient, code
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP


@pytest.mark.parametrize(("invisible_s", "problem"), [(-1, "small"), (12 * 3600 + 1, "large")])
async def test_an_invisible_duration_of_a_change_is_too_small_or_too_large(
    client: RawClient, topic: str, group: str, invisible_s: int, problem: str
) -> None:
    await client.send(topic, b"body")
    [got] = (await client.receive(topic, group)).messages
    answer = await client.change(topic, group, got.system_properties.receipt_handle, invisible_s)
    assert (code(answer), f"the invisibleTime is too {problem}" in answer.status.message) == (
        "ILLEGAL_INVISIBLE_TIME",
        True,
    )


@pytest.mark.parametrize(("invisible_s", "problem"), [(9, "small"), (12 * 3600 + 1, "large")])
async def test_an_invisible_duration_of_a_receive_is_too_small_or_too_large(
    client: RawClient, topic: str, group: str, invisible_s: int, problem: str
) -> None:
    refused = await client.receive(topic, group, invisible_s=invisible_s)
    assert refused.status is not None
    assert (refused.code, f"the invisibleTime is too {problem}" in refused.status.message) == (
        "ILLEGAL_INVISIBLE_TIME",
        True,
    )


async def test_a_receipt_handle_that_is_not_valid_is_called_so_everywhere(
    client: RawClient, topic: str, group: str
) -> None:
    await client.send(topic, b"body")
    [got] = (await client.receive(topic, group)).messages
    replaced = got.system_properties.receipt_handle
    soon_over = (await client.change(topic, group, replaced, 0.05)).receipt_handle
    await client.receive(topic, group, poll_s=15)
    acknowledged = await client.ack(topic, group, soon_over, "garbage")
    forwarding = rpc.ForwardMessageToDeadLetterQueueRequest(receipt_handle="garbage")
    forwarding.topic.name, forwarding.group.name = topic, group
    answers = [
        await client.change(topic, group, "garbage", 0),
        await client.change(topic, group, replaced, 0),
        await client.call("ForwardMessageToDeadLetterQueue", forwarding),
        acknowledged,
        *acknowledged.entries,
    ]
    assert {code(answer) for answer in answers} == {"INVALID_RECEIPT_HANDLE"}
    assert all("INVALID_RECEIPT_HANDLE" in answer.status.message for answer in answers)
