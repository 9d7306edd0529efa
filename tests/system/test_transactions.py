"""Half messages and EndTransaction: who sees what, and which ids are good (`sending.md, EndTransaction`)."""

import asyncio
from pathlib import Path

import pytest

from ternmq_common.catalog.handle_keys import HandleKeys
from ternmq_common.shard.transaction_id import transaction_handle, transaction_of_handle
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.pool import Duration, Timestamp
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_protos.v2 import service_pb2 as rpc
from tests.support.embedded import Embedded, Proto, RawClient, code, local_settings, message, names
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
POLL_S = 10.0
UNKNOWN = pb.TRANSACTION_RESOLUTION_UNSPECIFIED
INVALID = "INVALID_TRANSACTION_ID"


async def end(
    client: RawClient, topic: str, transaction_id: str, resolution: "pb.TransactionResolution", **fields: Proto
) -> str:
    """The code that ending a transaction so is answered with."""
    request = rpc.EndTransactionRequest(
        topic={"name": topic}, transaction_id=transaction_id, resolution=resolution, **fields
    )
    return code(await client.call("EndTransaction", request))


async def state(client: RawClient, transaction_id: str) -> str:
    """What operators see of the transaction."""
    answer = await client.admin("GetTransaction", transaction_id=transaction_id)
    assert code(answer) == "OK"
    return admin_pb2.TransactionState.Name(answer.transaction.state)


async def is_empty(client: RawClient, topic: str, group: str) -> bool:
    return (await client.receive(topic, group)).code == "MESSAGE_NOT_FOUND"


# --- half messages


async def test_the_entry_names_the_message_and_its_transaction(timed: RawClient, payments: str) -> None:
    answer = await timed.send(payments, b"body", message_type=pb.TRANSACTION, message_id="mine")
    [entry] = answer.entries
    assert (code(entry), entry.message_id, entry.recall_handle) == ("OK", "mine", "")
    transaction = transaction_of_handle(entry.transaction_id)
    assert (transaction.message_id, transaction.broker) == ("mine", "broker-0")


async def test_a_commit_by_any_client_delivers_the_message_with_all_its_fields(
    timed: RawClient, second: RawClient, payments: str, group: str
) -> None:
    sent = message(
        payments,
        b"pay",
        properties={"k": "v"},
        message_type=pb.TRANSACTION,
        tag="t",
        keys=["a"],
        orphaned_transaction_recovery_duration=Duration(seconds=60),
    )
    answer = await timed.call("SendMessage", messages=[sent])
    transaction_id = answer.entries[0].transaction_id
    ends = [await end(second, payments, transaction_id, each) for each in (pb.COMMIT, pb.COMMIT, pb.ROLLBACK)]
    assert ends == ["OK", "OK", INVALID]
    [got] = (await timed.receive(payments, group, poll_s=POLL_S)).messages
    properties = got.system_properties
    assert (got.body, dict(got.user_properties)) == (b"pay", {"k": "v"})
    assert properties.message_type == pb.TRANSACTION
    assert (properties.message_id, properties.tag, list(properties.keys)) == (answer.entries[0].message_id, "t", ["a"])
    assert (properties.queue_id, properties.queue_offset, properties.delivery_attempt) == (0, 0, 1)


@pytest.mark.parametrize(
    "fields",
    [
        {"delivery_timestamp": Timestamp(seconds=1)},
        {"message_group": "g"},
        {"priority": 7},
        {"lite_topic": "l"},
    ],
    ids=lambda fields: next(iter(fields)),
)
async def test_what_would_make_another_type_is_ignored(
    timed: RawClient, payments: str, group: str, fields: dict[str, Proto]
) -> None:
    transaction_id = await timed.begin_transaction(payments, **fields)
    assert await end(timed, payments, transaction_id, pb.COMMIT) == "OK"
    [got] = (await timed.receive(payments, group, poll_s=POLL_S)).messages
    assert got.system_properties.message_type == pb.TRANSACTION
    assert not any(got.system_properties.HasField(field) for field in fields)


@pytest.mark.parametrize("duration", [Duration(seconds=-1), Duration(seconds=1, nanos=-(2**31)), Duration()], ids=repr)
async def test_a_recovery_duration_that_is_none_is_passed_over(
    timed: RawClient, payments: str, group: str, duration: Duration
) -> None:
    transaction_id = await timed.begin_transaction(payments, orphaned_transaction_recovery_duration=duration)
    assert await end(timed, payments, transaction_id, pb.COMMIT) == "OK"
    [got] = (await timed.receive(payments, group, poll_s=POLL_S)).messages
    assert not got.system_properties.HasField("orphaned_transaction_recovery_duration")


async def test_each_message_of_a_request_is_a_transaction_of_its_own(
    timed: RawClient, payments: str, group: str
) -> None:
    sent = [message(payments, b"%d" % number, message_type=pb.TRANSACTION) for number in range(3)]
    answer = await timed.call("SendMessage", messages=sent)
    assert code(answer) == "OK"
    assert [entry.message_id for entry in answer.entries] == [each.system_properties.message_id for each in sent]
    ids = [entry.transaction_id for entry in answer.entries]
    assert len(set(ids)) == 3
    assert [await end(timed, payments, ids[number], pb.COMMIT) for number in (2, 0)] == ["OK", "OK"]
    assert await end(timed, payments, ids[1], pb.ROLLBACK) == "OK"
    assert (await timed.receive(payments, group, poll_s=POLL_S)).bodies == [b"2", b"0"]


async def test_too_many_open_transactions_are_refused_until_some_end(tmp_path: Path) -> None:
    async with Embedded(local_settings(tmp_path, transactions_max=2)) as server, RawClient(server.grpc) as client:
        await client.create_topic("payments", kind=pb.TRANSACTION)
        sent = [message("payments", message_type=pb.TRANSACTION) for _ in range(3)]
        answer = await client.call("SendMessage", messages=sent)
        assert code(answer) == "MULTIPLE_RESULTS"
        assert names(answer.entries) == ["OK", "OK", "TOO_MANY_REQUESTS"]
        one_more = rpc.SendMessageRequest(messages=[message("payments", message_type=pb.TRANSACTION)])
        assert code(await client.call("SendMessage", one_more)) == "TOO_MANY_REQUESTS"
        assert await end(client, "payments", answer.entries[0].transaction_id, pb.ROLLBACK) == "OK"
        assert code(await client.call("SendMessage", one_more)) == "OK"


# --- half messages that come again: the answer to the first was lost


async def test_a_half_message_that_comes_again_is_the_same_transaction(
    timed: RawClient, payments: str, group: str
) -> None:
    await timed.send(payments, b"another", message_type=pb.TRANSACTION)
    first, again = [await timed.begin_transaction(payments, message_id="mine") for _ in range(2)]
    assert again == first
    pending = await timed.admin("ListTransactions", topic=payments)
    assert [each.message_id for each in pending.transactions].count("mine") == 1
    assert await end(timed, payments, again, pb.COMMIT) == "OK"
    assert (await timed.receive(payments, group, poll_s=POLL_S)).bodies == [b"body"]
    assert await is_empty(timed, payments, group)


async def test_two_that_come_at_the_same_time_are_one_transaction(timed: RawClient, payments: str) -> None:
    ids = await asyncio.gather(*(timed.begin_transaction(payments, message_id="mine") for _ in range(5)))
    assert len(set(ids)) == 1


async def test_one_that_comes_after_the_end_of_its_first_is_another_transaction(
    timed: RawClient, payments: str
) -> None:
    first = await timed.begin_transaction(payments, message_id="mine")
    assert await end(timed, payments, first, pb.ROLLBACK) == "OK"
    assert await timed.begin_transaction(payments, message_id="mine") != first


async def test_another_message_under_the_same_id_is_a_transaction_of_its_own(
    timed: RawClient, second: RawClient, payments: str
) -> None:
    first = await timed.begin_transaction(payments, message_id="mine")
    another = await timed.begin_transaction(payments, b"another", message_id="mine")
    strangers = await second.begin_transaction(payments, message_id="mine")
    assert len({first, another, strangers}) == 3
    assert [await state(timed, each) for each in (first, another, strangers)] == ["PENDING"] * 3


async def test_a_restart_knows_what_comes_again(tmp_path: Path) -> None:
    settings = local_settings(tmp_path, transactions_max=1)
    sent = rpc.SendMessageRequest(messages=[message("payments", message_id="mine", message_type=pb.TRANSACTION)])
    entries: list[rpc.SendResultEntry] = []
    metadata = (("x-mq-client-id", "the same producer"),)
    for _ in range(2):
        async with Embedded(settings) as server, RawClient(server.grpc, metadata=metadata) as client:
            if not entries:
                await client.create_topic("payments", kind=pb.TRANSACTION)
            entries.append((await client.call("SendMessage", sent)).entries[0])
    assert entries[0] == entries[1]


# --- ending


async def test_no_resolution_leaves_the_transaction_open(timed: RawClient, payments: str, group: str) -> None:
    transaction_id = await timed.begin_transaction(payments)
    assert await end(timed, payments, transaction_id, UNKNOWN) == "OK"
    assert await state(timed, transaction_id) == "PENDING"
    assert await is_empty(timed, payments, group)
    assert await end(timed, payments, transaction_id, pb.COMMIT) == "OK"
    assert await end(timed, payments, transaction_id, UNKNOWN) == "OK"
    assert await state(timed, transaction_id) == "COMMITTED"


@pytest.mark.parametrize("resolution", [pb.COMMIT, pb.ROLLBACK, UNKNOWN])
@pytest.mark.parametrize(
    "transaction_id",
    [
        "",
        " ",
        "id",
        "id@broker-0",
        "@broker-0@1",
        "id@broker-0@",
        "id@broker-0@xyz",
        "id@broker-0@7fffffff",
        "x" * 9999,
    ],
)
async def test_an_id_of_no_transaction_is_invalid(
    timed: RawClient, payments: str, transaction_id: str, resolution: "pb.TransactionResolution"
) -> None:
    assert await end(timed, payments, transaction_id, resolution) == INVALID


@pytest.mark.parametrize("resolution", [pb.COMMIT, pb.ROLLBACK, UNKNOWN])
async def test_a_transaction_of_another_topic_is_invalid(
    timed: RawClient, payments: str, new_topic: str, resolution: "pb.TransactionResolution"
) -> None:
    await timed.create_topic(new_topic, kind=pb.TRANSACTION)
    transaction_id = await timed.begin_transaction(payments)
    assert await end(timed, new_topic, transaction_id, resolution) == INVALID
    assert await state(timed, transaction_id) == "PENDING"


@pytest.mark.parametrize("resolution", [pb.COMMIT, pb.ROLLBACK, UNKNOWN])
async def test_a_message_id_must_be_that_of_the_transaction(
    timed: RawClient, payments: str, resolution: "pb.TransactionResolution"
) -> None:
    transaction_id = await timed.begin_transaction(payments, message_id="mine")
    assert await end(timed, payments, transaction_id, resolution, message_id="other") == INVALID
    assert await state(timed, transaction_id) == "PENDING"
    assert await end(timed, payments, transaction_id, resolution, message_id="mine") == "OK"


async def test_the_id_of_another_message_at_that_place_is_invalid(
    timed: RawClient, timed_keys: HandleKeys, payments: str
) -> None:
    transaction = transaction_of_handle(begun := await timed.begin_transaction(payments))
    for wrong in (
        transaction._replace(message_id="other"),
        transaction._replace(broker="broker-9"),
        transaction._replace(log_offset=transaction.log_offset + 1),
    ):
        assert await end(timed, payments, transaction_handle(str(wrong), payments, timed_keys), pb.COMMIT) == INVALID
        assert await end(timed, payments, str(wrong), pb.COMMIT) == INVALID
    assert await state(timed, begun) == "PENDING"


@pytest.mark.parametrize(
    "source", [pb.SOURCE_UNSPECIFIED, pb.SOURCE_CLIENT, pb.SOURCE_SERVER_CHECK], ids=pb.TransactionSource.Name
)
async def test_where_an_end_comes_from_makes_no_difference(
    timed: RawClient, payments: str, source: "pb.TransactionSource"
) -> None:
    transaction_id = await timed.begin_transaction(payments)
    assert await end(timed, payments, transaction_id, pb.COMMIT, source=source, trace_context="t") == "OK"


async def test_a_resolution_that_nobody_knows_is_a_bad_request(timed: RawClient, payments: str) -> None:
    transaction_id = await timed.begin_transaction(payments)
    data = rpc.EndTransactionRequest(topic={"name": payments}, transaction_id=transaction_id).SerializeToString()
    answer = await timed.call("EndTransaction", data + b"\x20\x09")  # resolution = 9
    assert code(answer) == "BAD_REQUEST"
    assert await state(timed, transaction_id) == "PENDING"
