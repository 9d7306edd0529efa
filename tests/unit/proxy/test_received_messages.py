"""What a consumer does with a message that it received, called with plain values, whatever front has read them."""

import pytest

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.shard.model import SettleOutcome
from ternmq_proxy.call import Call
from ternmq_proxy.operations.received_messages import (
    EXPIRED,
    MessageReceipt,
    acknowledge_messages,
    begin_acknowledge,
    change_invisible,
    forward_to_dead_letters,
)
from ternmq_proxy.services import Services
from tests.support.operations import Stack

CALL = Call(client_id="client", peer="127.0.0.1:9")
GROUP, TOPIC = "readers", "orders"


@pytest.fixture(autouse=True)
async def topic(stack: Stack) -> None:
    await stack.create_topic(TOPIC, queues=1)


async def test_acknowledged_messages_do_not_come_again(stack: Stack, services: Services) -> None:
    await stack.store(TOPIC, b"a", b"b")
    handles = [text for text, _ in await stack.receive(GROUP, TOPIC)]
    assert await acknowledge_messages(GROUP, TOPIC, [(handle, "") for handle in handles], CALL, services) == [
        None,
        None,
    ]
    assert await stack.receive(GROUP, TOPIC) == []


async def test_each_handle_has_an_outcome_of_its_own(stack: Stack, services: Services) -> None:
    await stack.store(TOPIC, b"a")
    [(handle, _)] = await stack.receive(GROUP, TOPIC)
    good, bad = await acknowledge_messages(GROUP, TOPIC, [(handle, ""), ("garbled", "")], CALL, services)
    assert good is None
    assert bad is not None
    assert bad.code == ErrorCode.INVALID_RECEIPT_HANDLE


async def test_no_handle_is_a_bad_request(services: Services) -> None:
    with pytest.raises(MessagingError, match="BAD_REQUEST: the request names no message"):
        await acknowledge_messages(GROUP, TOPIC, [], CALL, services)


async def test_a_handle_that_has_expired_says_so(stack: Stack, services: Services) -> None:
    await stack.store(TOPIC, b"a")
    [(handle, _)] = await stack.receive(GROUP, TOPIC)
    stack.clock.advance_by(3_600_000)
    assert await acknowledge_messages(GROUP, TOPIC, [(handle, "")], CALL, services) == [EXPIRED]


async def test_an_acknowledgement_that_is_begun_calls_back(stack: Stack, services: Services) -> None:
    await stack.store(TOPIC, b"a")
    [(handle, _)] = await stack.receive(GROUP, TOPIC)
    called: list[tuple[list[SettleOutcome] | None, Exception | None]] = []

    def done(outcomes: list[SettleOutcome] | None, error: Exception | None) -> None:
        called.append((outcomes, error))

    assert not begin_acknowledge(GROUP, TOPIC, "", [b"garbled"], CALL, services, done)
    assert begin_acknowledge(GROUP, TOPIC, "", [handle.encode()], CALL, services, done)
    assert called == [([SettleOutcome.DONE], None)]


async def test_a_message_that_is_shown_at_once_comes_again_and_the_new_handle_acknowledges_no_more(
    stack: Stack, services: Services
) -> None:
    await stack.store(TOPIC, b"a")
    [(handle, attempt)] = await stack.receive(GROUP, TOPIC)
    changed = await change_invisible(MessageReceipt(GROUP, TOPIC, handle), 10_000, CALL, services)
    assert changed != handle
    await change_invisible(MessageReceipt(GROUP, TOPIC, changed), 0, CALL, services)
    [(_, again)] = await stack.receive(GROUP, TOPIC)
    assert (attempt, again) == (1, 2)


async def test_what_is_suspended_counts_as_no_attempt(stack: Stack, services: Services) -> None:
    await stack.store(TOPIC, b"a")
    [(handle, _)] = await stack.receive(GROUP, TOPIC)
    await change_invisible(MessageReceipt(GROUP, TOPIC, handle), 0, CALL, services, suspend=True)
    [(_, again)] = await stack.receive(GROUP, TOPIC)
    assert again == 1


@pytest.mark.parametrize("invisible_ms", [-1, 10**10])
async def test_an_invisible_duration_has_bounds(stack: Stack, services: Services, invisible_ms: int) -> None:
    await stack.store(TOPIC, b"a")
    [(handle, _)] = await stack.receive(GROUP, TOPIC)
    with pytest.raises(MessagingError, match="ILLEGAL_INVISIBLE_TIME"):
        await change_invisible(MessageReceipt(GROUP, TOPIC, handle), invisible_ms, CALL, services)


async def test_a_message_that_is_given_up_is_a_dead_letter(stack: Stack, services: Services) -> None:
    await stack.store(TOPIC, b"a")
    [(handle, attempt)] = await stack.receive(GROUP, TOPIC)
    await forward_to_dead_letters(MessageReceipt(GROUP, TOPIC, handle), attempt, CALL, services)
    assert await stack.bodies(f"%DLQ%{GROUP}") == [b"a"]


async def test_a_client_without_an_id_is_refused(services: Services) -> None:
    nameless = Call(peer="127.0.0.1:9")
    for refused in (
        acknowledge_messages(GROUP, TOPIC, [("handle", "")], nameless, services),
        change_invisible(MessageReceipt(GROUP, TOPIC, "handle"), 0, nameless, services),
        forward_to_dead_letters(MessageReceipt(GROUP, TOPIC, "handle"), 1, nameless, services),
    ):
        with pytest.raises(MessagingError, match="CLIENT_ID_REQUIRED"):
            await refused
