"""Transaction checks: who is asked, what is sent, and who is asked next (`sending.md, Transaction checks`)."""

import asyncio

import pytest

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.embedded import Embedded, Proto, RawClient, code, message
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
POLL_S = 10.0
FIRST_CHECK_S = 6
INTERVAL_S = 30
CHECKS_MAX = 15


def named(topic: str, namespace: str = "") -> pb.Resource:
    return pb.Resource(name=topic, resource_namespace=namespace)


async def end(client: RawClient, topic: str, transaction_id: str, resolution: "pb.TransactionResolution") -> None:
    request = rpc.EndTransactionRequest(
        topic={"name": topic},
        transaction_id=transaction_id,
        resolution=resolution,
        source=pb.SOURCE_SERVER_CHECK,
    )
    assert code(await client.call("EndTransaction", request)) == "OK"


async def asked(stream: Proto) -> str:
    """The transaction that the next command on the stream asks about."""
    async with asyncio.timeout(POLL_S):
        command = await stream.read()
    assert command.WhichOneof("command") == "recover_orphaned_transaction_command"
    transaction_id: str = command.recover_orphaned_transaction_command.transaction_id
    return transaction_id


async def described(client: RawClient, transaction_id: str) -> admin_pb2.Transaction:
    answer = await client.admin("GetTransaction", transaction_id=transaction_id)
    assert code(answer) == "OK"
    transaction = answer.transaction
    assert isinstance(transaction, admin_pb2.Transaction)
    return transaction


# --- the check


async def test_a_producer_is_asked_and_its_answer_counts(timed: RawClient, payments: str, group: str) -> None:
    stream = await timed.publish_to(named(payments))
    kept, dropped = (
        await timed.begin_transaction(payments, b"kept"),
        await timed.begin_transaction(payments, b"dropped"),
    )
    await timed.advance(FIRST_CHECK_S)
    assert [await asked(stream), await asked(stream)] == [kept, dropped]
    await end(timed, payments, dropped, pb.ROLLBACK)
    await end(timed, payments, kept, pb.COMMIT)
    assert (await timed.receive(payments, group, poll_s=POLL_S)).bodies == [b"kept"]
    stream.cancel()


async def test_the_question_holds_the_whole_message(timed: RawClient, movable_server: Embedded, payments: str) -> None:
    stream = await timed.publish_to(named("others"), named(payments, "tenant"))
    before = await timed.server_ms()
    sent = message(payments, b"pay", properties={"k": "v"}, message_type=pb.TRANSACTION, tag="t", keys=["a"])
    answer = await timed.call("SendMessage", messages=[sent])
    await timed.advance(FIRST_CHECK_S)
    command = await stream.read()
    assert not command.HasField("status")
    check = command.recover_orphaned_transaction_command
    assert check.transaction_id == answer.entries[0].transaction_id
    got, properties = check.message, check.message.system_properties
    assert got.topic == named(payments, "tenant")  # as the producer's settings have it
    assert (got.body, dict(got.user_properties)) == (b"pay", {"k": "v"})
    assert properties.message_id == answer.entries[0].message_id
    assert (properties.tag, list(properties.keys)) == ("t", ["a"])
    assert properties.message_type == pb.TRANSACTION
    assert (properties.body_encoding, properties.body_digest.type) == (pb.IDENTITY, pb.SHA1)
    assert properties.body_digest.checksum == "bfc95e50f828f0aecd632c939fd45c1bf5272127".upper()
    assert properties.born_host
    assert before <= properties.born_timestamp.ToMilliseconds() <= properties.store_timestamp.ToMilliseconds()
    assert properties.store_host == movable_server.grpc
    assert (properties.queue_id, properties.delivery_attempt) == (0, 1)
    stream.cancel()


# --- who is asked


async def test_topics_that_come_with_later_settings_count(timed: RawClient, payments: str) -> None:
    stream = await timed.publish_to()
    transaction_id = await timed.begin_transaction(payments)
    settings = pb.Settings(client_type=pb.PRODUCER, publishing={"topics": [named(payments)]})
    await stream.write(rpc.TelemetryCommand(settings=settings))
    assert (await stream.read()).HasField("settings")
    await timed.advance(FIRST_CHECK_S)
    assert await asked(stream) == transaction_id
    stream.cancel()


async def test_settings_are_answered_on_a_stream_that_is_asked_on(timed: RawClient, payments: str) -> None:
    stream = await timed.publish_to(named(payments))
    ids = [await timed.begin_transaction(payments) for _ in range(20)]
    settings = pb.Settings(client_type=pb.PRODUCER, publishing={"topics": [named(payments)]})
    moved = asyncio.ensure_future(timed.advance(FIRST_CHECK_S))
    for _ in range(20):
        await stream.write(rpc.TelemetryCommand(settings=settings))
    await moved
    kinds = [(await stream.read()).WhichOneof("command") for _ in range(40)]
    assert sorted(kinds) == ["recover_orphaned_transaction_command"] * len(ids) + ["settings"] * 20
    stream.cancel()


# --- who is asked next


@pytest.mark.parametrize("way", ["stream ends", "stream breaks", "good-bye", "connection breaks"])
async def test_when_the_producer_leaves_another_is_asked_at_once(
    timed: RawClient, second: RawClient, payments: str, way: str
) -> None:
    leaving = await second.publish_to(named(payments))
    transaction_id = await second.begin_transaction(payments)
    await timed.advance(FIRST_CHECK_S)
    assert await asked(leaving) == transaction_id
    staying = await timed.publish_to(named(payments))
    if way == "stream ends":
        await leaving.done_writing()
    elif way == "stream breaks":
        leaving.cancel()
    elif way == "good-bye":
        assert (
            code(
                await second.call(
                    "NotifyClientTermination",
                )
            )
            == "OK"
        )
    else:
        await second.channel.close()
    assert await asked(staying) == transaction_id
    await end(timed, payments, transaction_id, pb.COMMIT)
    staying.cancel()
    leaving.cancel()


async def test_what_was_answered_is_asked_of_nobody_else(timed: RawClient, second: RawClient, payments: str) -> None:
    leaving = await second.publish_to(named(payments))
    answered, open_one = await second.begin_transaction(payments), await second.begin_transaction(payments)
    await timed.advance(FIRST_CHECK_S)
    assert [await asked(leaving), await asked(leaving)] == [answered, open_one]
    staying = await timed.publish_to(named(payments))
    await end(second, payments, answered, pb.ROLLBACK)
    leaving.cancel()
    assert await asked(staying) == open_one
    staying.cancel()
