"""Sends, recalls and ends of transactions by plain values, without a front and without its protocol."""

import dataclasses
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.filters.tag_filter import ALL
from ternmq_common.server_settings import ServerSettings
from ternmq_common.shard.model import NewMessage, QueueRef, StoredMessage, Topic, TransactionResolution
from ternmq_proxy.access.needs import TOPIC_PUB, AccessNeed
from ternmq_proxy.call import Call
from ternmq_proxy.operations.recall import recall_timed_message
from ternmq_proxy.operations.send import send_messages
from ternmq_proxy.operations.send_ordinary import begin_ordinary_send
from ternmq_proxy.operations.sent_message import SentMessage
from ternmq_proxy.operations.transactions import resolve_transaction
from ternmq_proxy.processors.sending.producer_message import ProducerMessage
from ternmq_proxy.processors.sending.stored_form import body_checksum, to_stored_form
from ternmq_proxy.server.main import make_clock, open_storage
from ternmq_proxy.server.serving import make_services
from ternmq_proxy.services import Services

if TYPE_CHECKING:
    from ternmq_proxy.access.control import AccessControl

CALL = Call(client_id="client", peer="127.0.0.1:9")
HOUR_MS = 3_600_000


@pytest.fixture
async def services(tmp_path: Path) -> AsyncIterator[Services]:
    settings = ServerSettings(data_dir=tmp_path, auto_create=False)
    async with AsyncExitStack() as stack:
        clock = make_clock(settings)
        messages, catalog = await open_storage(settings, clock, stack)
        for kind in (MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION):
            await catalog.create_topic(Topic(name=kind.name, type=kind, queues=1))
        yield make_services(settings, clock, catalog, messages, "here:1")


def message(topic: str, body: bytes = b"body", message_id: str = "id") -> ProducerMessage:
    return ProducerMessage(topic=topic, body=body, message_id=message_id)


async def send(services: Services, *messages: ProducerMessage, call: Call = CALL) -> list[SentMessage]:
    return await send_messages(messages, call, services, size=100)


async def stored(services: Services, topic: str) -> list[StoredMessage]:
    queue = QueueRef(topic, services.messages.find_route(services.catalog.find_topic(topic)).brokers[0], 0)
    pulled = await services.messages.reading.pull(queue, 0, ALL, batch=32, poll_s=0.0)
    return list(pulled.messages)


async def bodies(services: Services, topic: str) -> list[bytes]:
    """The last bytes of each stored message, which are its body's."""
    return [each.rest[-4:] for each in await stored(services, topic)]


async def test_normal_messages_are_stored_in_order(services: Services) -> None:
    results = await send(services, message("NORMAL", b"--1.", "a"), message("NORMAL", b"--2.", "b"))
    assert results == [SentMessage("a", 0), SentMessage("b", 1)]
    assert await bodies(services, "NORMAL") == [b"--1.", b"--2."]


async def test_messages_of_message_groups_are_stored_in_order(services: Services) -> None:
    sent = [message("FIFO", b"--1.", "a"), message("FIFO", b"--2.", "b")]
    for each in sent:
        each.message_group = "group"
    assert await send(services, *sent) == [SentMessage("a", 0), SentMessage("b", 1)]
    assert await bodies(services, "FIFO") == [b"--1.", b"--2."]


async def test_a_timed_message_has_a_handle_by_which_it_is_recalled(services: Services) -> None:
    timed = message("DELAY")
    timed.delivery_ns = (services.clock.now_ms() + HOUR_MS) * 1_000_000
    [result] = await send(services, timed)
    assert await recall_timed_message("DELAY", result.recall_handle, CALL, services) == "id"
    assert await stored(services, "DELAY") == []


async def test_a_delay_level_stands_for_a_delivery_time(services: Services) -> None:
    levelled = message("DELAY")
    levelled.properties = {"DELAY": "1"}
    [result] = await send(services, levelled)
    assert result.recall_handle
    assert levelled.properties == {}


@pytest.mark.parametrize("delivery_ns", [-(2**80), 0, 10**18])
async def test_a_message_whose_time_is_past_is_stored_at_once(services: Services, delivery_ns: int) -> None:
    timed = message("DELAY")
    timed.delivery_ns = delivery_ns
    [result] = await send(services, timed)
    assert (result.recall_handle, result.queue_offset) == ("", 0)
    assert await bodies(services, "DELAY") == [b"body"]


async def test_a_half_message_appears_when_it_is_committed(services: Services) -> None:
    half = message("TRANSACTION")
    half.is_transaction = True
    [result] = await send(services, half)
    await resolve_transaction("TRANSACTION", result.transaction_id, "id", None, CALL, services)
    assert await bodies(services, "TRANSACTION") == []
    for _ in range(2):
        commit = TransactionResolution.COMMIT
        await resolve_transaction("TRANSACTION", result.transaction_id, "id", commit, CALL, services)
    assert await bodies(services, "TRANSACTION") == [b"body"]


async def test_a_transaction_ends_by_its_own_message_and_a_known_resolution_only(services: Services) -> None:
    half = message("TRANSACTION")
    half.is_transaction = True
    [result] = await send(services, half)
    with pytest.raises(MessagingError, match="INVALID_TRANSACTION_ID: the transaction is that of message 'id'"):
        await resolve_transaction("TRANSACTION", result.transaction_id, "else", 7, CALL, services)
    with pytest.raises(MessagingError, match="BAD_REQUEST: resolution 7 is unknown"):
        await resolve_transaction("TRANSACTION", result.transaction_id, "", 7, CALL, services)


@pytest.mark.parametrize("other", [message("FIFO"), message("NORMAL")], ids=["name", "namespace"])
async def test_the_messages_of_a_send_are_of_one_topic(services: Services, other: ProducerMessage) -> None:
    if other.topic == "NORMAL":
        other.namespace = "tenant"
    with pytest.raises(MessagingError, match="MESSAGE_CORRUPTED: the request mixes topics"):
        await send(services, message("NORMAL"), other)


class Refusing:
    """Allows nothing, and says what it was to allow."""

    def require_right(self, rpc: str, call: Call, need: AccessNeed, name: str) -> None:
        del call
        assert need is TOPIC_PUB
        raise MessagingError(ErrorCode.UNAUTHORIZED, f"{rpc} {name}")


@pytest.mark.plain  # compiled code takes no other object for its access control
async def test_rights_are_required_before_anything_else_is_said(services: Services) -> None:
    nobody = Call()
    refusing = dataclasses.replace(services, access=cast("AccessControl", Refusing()))
    with pytest.raises(MessagingError, match="UNAUTHORIZED: SendMessage missing"):
        await send(refusing, message("missing", b"", ""), call=nobody)
    with pytest.raises(MessagingError, match="UNAUTHORIZED: RecallMessage missing"):
        await recall_timed_message("missing", "", nobody, refusing)
    with pytest.raises(MessagingError, match="UNAUTHORIZED: EndTransaction missing"):
        await resolve_transaction("missing", "", "", 7, nobody, refusing)
    with pytest.raises(MessagingError, match="UNAUTHORIZED: SendMessage missing"):
        begin_ordinary_send("missing", ("", ""), [], 0, nobody, refusing, lambda *_: None)


async def test_a_client_has_an_id(services: Services) -> None:
    with pytest.raises(MessagingError, match="CLIENT_ID_REQUIRED"):
        await send(services, call=Call())
    with pytest.raises(MessagingError, match="MESSAGE_CORRUPTED: the request has no message"):
        await send(services)


def ordinary(services: Services, name: str = "NORMAL") -> NewMessage:
    values = message(name)
    return to_stored_form(values, MessageType.NORMAL, body_checksum(values.body), CALL.peer, 1, services.limits)


async def test_an_ordinary_send_is_begun_if_its_topic_takes_it(services: Services) -> None:
    results: list[tuple[int, Exception | None]] = []

    def done(first: int, error: Exception | None) -> None:
        results.append((first, error))

    for topic, order_key in (("NORMAL", ("group", "")), ("FIFO", ("", "")), ("missing", ("", ""))):
        assert not begin_ordinary_send(topic, order_key, [ordinary(services)], 9, CALL, services, done)
    assert not begin_ordinary_send("NORMAL", ("", ""), [], 9, CALL, services, done)
    assert begin_ordinary_send("NORMAL", ("", ""), [ordinary(services)], 9, CALL, services, done)
    await send(services, message("NORMAL"))  # is stored after the one before
    assert results == [(0, None)]
    assert await bodies(services, "NORMAL") == [b"body"] * 2
