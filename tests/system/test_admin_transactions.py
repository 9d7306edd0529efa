"""ListTransactions, GetTransaction and ResolveTransaction: what operators see of transactions, and do about them."""

import pytest

from ternmq_common.catalog.handle_keys import HandleKeys
from ternmq_common.shard.transaction_id import transaction_handle, transaction_of_handle
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
INVALID = "INVALID_TRANSACTION_ID"


async def end(client: RawClient, topic: str, transaction_id: str, resolution: "pb.TransactionResolution") -> str:
    request = rpc.EndTransactionRequest(topic={"name": topic}, transaction_id=transaction_id, resolution=resolution)
    return code(await client.call("EndTransaction", request))


async def listed(client: RawClient, topic: str, **fields: Proto) -> list[str]:
    """The ids on one page."""
    answer = await client.admin("ListTransactions", topic=topic, **fields)
    assert code(answer) == "OK", answer.status.message
    return [transaction.transaction_id for transaction in answer.transactions]


async def shown(client: RawClient, transaction_id: str) -> admin_pb2.GetTransactionResponse:
    answer = await client.admin("GetTransaction", transaction_id=transaction_id)
    assert isinstance(answer, admin_pb2.GetTransactionResponse)
    return answer


async def resolve(
    client: RawClient, transaction_id: str, resolution: "pb.TransactionResolution"
) -> admin_pb2.ResolveTransactionResponse:
    answer = await client.admin("ResolveTransaction", transaction_id=transaction_id, resolution=resolution)
    assert isinstance(answer, admin_pb2.ResolveTransactionResponse)
    return answer


async def discarded(client: RawClient, topic: str, body: bytes = b"body") -> str:
    """A transaction about which a producer was asked until nobody asks any more."""
    stream = await client.publish_to(pb.Resource(name=topic))
    transaction_id = await client.begin_transaction(topic, body)
    await client.advance(FIRST_CHECK_S)
    for _ in range(CHECKS_MAX):
        await stream.read()
        await client.advance(INTERVAL_S)
    stream.cancel()
    # It is discarded in the step that finds nobody to be asked any more.
    while (await shown(client, transaction_id)).transaction.state == admin_pb2.PENDING:
        await client.advance(1)
    return transaction_id


# --- listing


async def test_pending_transactions_are_listed_the_oldest_first(timed: RawClient, payments: str) -> None:
    ids = [await timed.begin_transaction(payments) for _ in range(4)]
    await end(timed, payments, ids[0], pb.COMMIT)
    await end(timed, payments, ids[2], pb.ROLLBACK)
    for state in (admin_pb2.TRANSACTION_STATE_UNSPECIFIED, admin_pb2.PENDING):
        assert await listed(timed, payments, state=state) == [ids[1], ids[3]]
    assert await listed(timed, payments, state=admin_pb2.DISCARDED) == []


async def test_one_topic_or_all_are_listed(timed: RawClient, payments: str, new_topic: str) -> None:
    await timed.create_topic(new_topic, kind=pb.TRANSACTION)
    mine, other = await timed.begin_transaction(payments), await timed.begin_transaction(new_topic)
    assert await listed(timed, payments) == [mine]
    assert await listed(timed, new_topic) == [other]
    assert {mine, other} <= set(await listed(timed, "", limit=1000))


async def test_the_transaction_of_one_message_is_found_page_by_page(
    timed: RawClient, payments: str, new_topic: str
) -> None:
    await timed.create_topic(new_topic, kind=pb.TRANSACTION)
    other = await timed.begin_transaction(new_topic, message_id="mine")
    ids = [await timed.begin_transaction(payments, message_id=message_id) for message_id in ("a", "b", "mine", "c")]
    assert await listed(timed, payments, message_id="mine") == [ids[2]]
    assert await listed(timed, new_topic, message_id="mine") == [other]
    assert {ids[2], other} <= set(await listed(timed, "", message_id="mine", limit=1000))
    assert await listed(timed, payments, message_id="nobody") == []
    assert await listed(timed, payments, message_id="mine", state=admin_pb2.DISCARDED) == []
    request = admin_pb2.ListTransactionsRequest(topic=payments, message_id="mine", limit=1)
    pages: list[list[str]] = []
    while not pages or request.page:
        answer = await timed.admin("ListTransactions", request)
        pages.append([each.transaction_id for each in answer.transactions])
        request.page = answer.next_page
    assert pages == [[], [], [ids[2]], []]


async def test_pages_hold_each_transaction_once(timed: RawClient, payments: str) -> None:
    ids = [await timed.begin_transaction(payments) for _ in range(7)]
    found: list[str] = []
    request = admin_pb2.ListTransactionsRequest(topic=payments, limit=3)
    while True:
        answer = await timed.admin("ListTransactions", request)
        assert code(answer) == "OK"
        assert len(answer.transactions) <= 3
        found += [transaction.transaction_id for transaction in answer.transactions]
        if not answer.next_page:
            break
        request.page = answer.next_page
    assert found == ids


async def test_a_page_has_64_transactions_unless_the_request_says_how_many(timed: RawClient, payments: str) -> None:
    sent = [message(payments, message_type=pb.TRANSACTION) for _ in range(70)]
    assert code(await timed.call("SendMessage", messages=sent)) == "OK"
    assert len(await listed(timed, payments)) == 64
    assert len(await listed(timed, payments, limit=2)) == 2
    assert len(await listed(timed, payments, limit=-5)) == 1
    assert len(await listed(timed, payments, limit=2**31 - 1)) == 70


@pytest.mark.parametrize("page", ["x", "-1", " 1", "1_0", "0x1", "f" * 17, "\u0663"])
async def test_what_was_no_next_page_is_a_bad_request(timed: RawClient, payments: str, page: str) -> None:
    assert code(await timed.admin("ListTransactions", topic=payments, page=page)) == "BAD_REQUEST"


@pytest.mark.parametrize("state", [admin_pb2.COMMITTED, admin_pb2.ROLLED_BACK, 99])
async def test_ended_transactions_are_not_listed(timed: RawClient, state: "admin_pb2.TransactionState") -> None:
    assert code(await timed.admin("ListTransactions", state=state)) == "BAD_REQUEST"


@pytest.mark.parametrize(("topic", "expected"), [("nobody-made-it", "TOPIC_NOT_FOUND"), ("a b", "ILLEGAL_TOPIC")])
async def test_the_topic_must_be_there(timed: RawClient, topic: str, expected: str) -> None:
    assert code(await timed.admin("ListTransactions", topic=topic)) == expected


# --- one transaction


async def test_a_pending_transaction_is_shown_with_its_message(
    timed: RawClient, movable_server: Embedded, payments: str
) -> None:
    before = await timed.server_ms()
    transaction_id = await timed.begin_transaction(payments, b"pay", message_id="mine", tag="t")
    answer = await shown(timed, transaction_id)
    transaction = answer.transaction
    assert (code(answer), transaction.transaction_id) == ("OK", transaction_id)
    assert (transaction.topic, transaction.message_id, transaction.sender) == (payments, "mine", timed.client_id)
    assert (transaction.state, transaction.checks) == (admin_pb2.PENDING, 0)
    assert before <= transaction.stored.ToMilliseconds() <= await timed.server_ms()
    assert transaction.next_check.ToMilliseconds() - transaction.stored.ToMilliseconds() == FIRST_CHECK_S * 1000
    assert (answer.message.topic.name, answer.message.body) == (payments, b"pay")
    properties = answer.message.system_properties
    assert (properties.message_id, properties.tag, properties.message_type) == ("mine", "t", pb.TRANSACTION)
    assert properties.store_host == movable_server.grpc


@pytest.mark.parametrize(
    ("resolution", "state"), [(pb.COMMIT, admin_pb2.COMMITTED), (pb.ROLLBACK, admin_pb2.ROLLED_BACK)]
)
async def test_an_ended_transaction_is_shown(
    timed: RawClient,
    payments: str,
    resolution: "pb.TransactionResolution",
    state: "admin_pb2.TransactionState",
) -> None:
    transaction_id = await timed.begin_transaction(payments, b"pay")
    await end(timed, payments, transaction_id, resolution)
    answer = await shown(timed, transaction_id)
    assert (answer.transaction.state, answer.message.body) == (state, b"pay")
    assert not answer.transaction.HasField("next_check")


@pytest.mark.parametrize("transaction_id", ["", "nothing", "id@broker-0@7fffffff"])
async def test_an_unknown_transaction_is_invalid(timed: RawClient, transaction_id: str) -> None:
    assert code(await shown(timed, transaction_id)) == INVALID
    assert code(await resolve(timed, transaction_id, pb.COMMIT)) == INVALID


async def test_the_right_place_with_another_message_id_is_invalid(
    timed: RawClient, timed_keys: HandleKeys, payments: str
) -> None:
    other = transaction_of_handle(await timed.begin_transaction(payments))._replace(message_id="other")
    assert code(await shown(timed, transaction_handle(str(other), payments, timed_keys))) == INVALID


# --- resolving


@pytest.mark.parametrize(
    ("resolution", "state"), [(pb.COMMIT, admin_pb2.COMMITTED), (pb.ROLLBACK, admin_pb2.ROLLED_BACK)]
)
async def test_an_operator_ends_a_pending_transaction(
    timed: RawClient,
    payments: str,
    group: str,
    resolution: "pb.TransactionResolution",
    state: "admin_pb2.TransactionState",
) -> None:
    transaction_id = await timed.begin_transaction(payments, b"pay")
    for _ in range(2):  # a repetition is fine
        answer = await resolve(timed, transaction_id, resolution)
        assert (code(answer), answer.transaction.state) == ("OK", state)
        assert answer.transaction.transaction_id == transaction_id
    assert await listed(timed, payments) == []
    committed = resolution == pb.COMMIT
    assert (await timed.receive(payments, group, poll_s=POLL_S if committed else 0)).bodies == [b"pay"] * committed
    # Its producer may say the same, and not the contrary.
    assert await end(timed, payments, transaction_id, resolution) == "OK"
    assert await end(timed, payments, transaction_id, pb.ROLLBACK if committed else pb.COMMIT) == INVALID


async def test_an_operator_does_not_undo_an_end(timed: RawClient, payments: str) -> None:
    transaction_id = await timed.begin_transaction(payments)
    await end(timed, payments, transaction_id, pb.ROLLBACK)
    assert code(await resolve(timed, transaction_id, pb.COMMIT)) == INVALID
    assert (await shown(timed, transaction_id)).transaction.state == admin_pb2.ROLLED_BACK


async def test_an_operator_must_say_which_end(timed: RawClient, payments: str) -> None:
    transaction_id = await timed.begin_transaction(payments)
    assert code(await resolve(timed, transaction_id, pb.TRANSACTION_RESOLUTION_UNSPECIFIED)) == "BAD_REQUEST"
    assert (await shown(timed, transaction_id)).transaction.state == admin_pb2.PENDING


@pytest.mark.parametrize("resolution", [pb.COMMIT, pb.ROLLBACK])
async def test_an_operator_ends_what_was_discarded_and_its_producer_does_not(
    timed: RawClient, payments: str, group: str, resolution: "pb.TransactionResolution"
) -> None:
    transaction_id = await discarded(timed, payments, b"pay")
    assert await listed(timed, payments) == []
    assert await listed(timed, payments, state=admin_pb2.DISCARDED) == [transaction_id]
    transaction = (await shown(timed, transaction_id)).transaction
    assert (transaction.state, transaction.checks) == (admin_pb2.DISCARDED, CHECKS_MAX)
    assert not transaction.HasField("next_check")
    assert await end(timed, payments, transaction_id, resolution) == INVALID
    assert code(await resolve(timed, transaction_id, resolution)) == "OK"
    committed = resolution == pb.COMMIT
    assert (await timed.receive(payments, group, poll_s=POLL_S if committed else 0)).bodies == [b"pay"] * committed


async def test_discarded_transactions_have_pages_too(timed: RawClient, payments: str) -> None:
    ids = [await discarded(timed, payments) for _ in range(2)]
    found: list[str] = []
    request = admin_pb2.ListTransactionsRequest(topic=payments, state=admin_pb2.DISCARDED, limit=1)
    while True:
        answer = await timed.admin("ListTransactions", request)
        assert code(answer) == "OK"
        found += [transaction.transaction_id for transaction in answer.transactions]
        if not answer.next_page:
            break
        request.page = answer.next_page
    assert found == ids
