"""Recall handles and transaction ids: what a server gave is good, and nothing else is."""

import base64
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.catalog.handle_keys import HandleKey, HandleKeys
from ternmq_common.errors import MessagingError
from ternmq_common.shard.recall_handle import RecallHandle
from ternmq_common.shard.transaction_id import TransactionId, check_handle, transaction_handle, transaction_of_handle
from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.handle_keys import FIRST, KEYS, NEXT, flipped

NAMES = st.text(st.sampled_from("abcXYZ019_-%|"), min_size=1, max_size=20)
MESSAGE_IDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)
RECALLS = st.builds(RecallHandle, topic=NAMES, broker=NAMES, due_ms=st.integers(0, 10**15 - 1), message_id=MESSAGE_IDS)
TRANSACTIONS = st.builds(TransactionId, message_id=MESSAGE_IDS, broker=NAMES, log_offset=st.integers(0, 2**63 - 1))
RECALL = RecallHandle("reminders", "broker-0", 1_790_000_000_000, "message 1")
TRANSACTION = str(TransactionId("message@1", "broker-0", 4711))
OTHERS = HandleKeys((HandleKey(1, bytes(32), 0), HandleKey(2, bytes(32), 0)))
THIRD, FOURTH = HandleKey(3, bytes(range(64, 96)), 0), HandleKey(4, bytes(range(96, 128)), 0)
FORGED = 10_000


def code_of_recall(text: str, keys: HandleKeys = KEYS) -> int:
    """The code with which the recall handle is refused, OK if it is not."""
    try:
        RecallHandle.decode_handle(text, keys)
    except MessagingError as refusal:
        return refusal.code
    return pb.OK


def code_of_transaction(text: str, topic: str = "payments", keys: HandleKeys = KEYS) -> int:
    try:
        transaction_of_handle(text)
        check_handle(text, topic, keys)
    except MessagingError as refusal:
        return refusal.code
    return pb.OK


# --- recall handles


@given(handle=RECALLS, padded=st.booleans())
def test_a_recall_handle_is_read_as_it_was_written(handle: RecallHandle, *, padded: bool) -> None:
    text = handle.encode_handle(KEYS)
    assert "=" not in text
    assert RecallHandle.decode_handle(text + "=" * (-len(text) % 4) * padded, KEYS) == handle


@pytest.mark.parametrize("message_id", ["1", "22", "333", "a b", "ü"])
def test_a_recall_handle_with_any_bit_flipped_is_refused(message_id: str) -> None:
    for forged in flipped(RECALL._replace(message_id=message_id).encode_handle(KEYS)):
        assert code_of_recall(forged) == pb.BAD_REQUEST, forged


@given(handle=RECALLS, other=RECALLS)
def test_the_tag_of_another_recall_handle_is_refused(handle: RecallHandle, other: RecallHandle) -> None:
    def data(text: str) -> bytes:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))

    tag = data(other.encode_handle(KEYS)).rpartition(b" ")[2]
    mixed = data(handle.encode_handle(KEYS)).rpartition(b" ")[0] + b" " + tag
    forged = base64.urlsafe_b64encode(mixed).decode()
    assert code_of_recall(forged) == (pb.OK if handle == other else pb.BAD_REQUEST)


@given(text=st.text(max_size=100) | st.binary(max_size=100).map(lambda drawn: base64.urlsafe_b64encode(drawn).decode()))
def test_any_other_text_is_no_recall_handle(text: str) -> None:
    assert code_of_recall(text) == pb.BAD_REQUEST


def test_a_recall_handle_without_a_tag_is_refused() -> None:
    text = base64.urlsafe_b64encode(b"v1 reminders broker-0 1790000000000 id").decode()
    with pytest.raises(MessagingError, match=r"BAD_REQUEST: .* its version is 'v1'"):
        RecallHandle.decode_handle(text, KEYS)
    assert code_of_recall(text.replace("v1", "v2")) == pb.BAD_REQUEST


def test_none_of_ten_thousand_forged_recall_handles_is_accepted() -> None:
    rng = random.Random(17)
    codes = set()
    for number in range(FORGED):
        handle = RECALL._replace(message_id=f"message {number}")
        bound = f"v2 {handle.topic} {handle.broker} {handle.due_ms} {handle.message_id}"
        guessed = base64.urlsafe_b64encode(f"{bound} 01{rng.randbytes(9).hex()}".encode()).decode()
        codes |= {code_of_recall(handle.encode_handle(OTHERS)), code_of_recall(guessed)}
    assert codes == {pb.BAD_REQUEST}


def test_a_recall_handle_is_good_until_the_second_rotation() -> None:
    text = RECALL.encode_handle(KEYS)
    assert code_of_recall(text, HandleKeys((FIRST, NEXT, THIRD))) == pb.OK
    assert code_of_recall(text, HandleKeys((NEXT, THIRD, FOURTH))) == pb.BAD_REQUEST


# --- transaction ids


@given(transaction=TRANSACTIONS, topic=NAMES)
def test_a_transactions_handle_names_it(transaction: TransactionId, topic: str) -> None:
    handle = transaction_handle(str(transaction), topic, KEYS)
    assert transaction_of_handle(handle) == transaction
    assert code_of_transaction(handle, topic) == pb.OK


def test_a_transactions_handle_with_any_bit_flipped_is_refused() -> None:
    for forged in flipped(transaction_handle(TRANSACTION, "payments", KEYS)):
        assert code_of_transaction(forged) == pb.INVALID_TRANSACTION_ID, forged


@given(transaction=TRANSACTIONS, topic=NAMES, other=NAMES)
def test_a_transactions_handle_is_good_for_its_topic_only(transaction: TransactionId, topic: str, other: str) -> None:
    handle = transaction_handle(str(transaction), topic, KEYS)
    assert code_of_transaction(handle, other) == (pb.OK if topic == other else pb.INVALID_TRANSACTION_ID)


@given(text=st.text(max_size=100) | TRANSACTIONS.map(str))
def test_any_other_text_is_no_transactions_handle(text: str) -> None:
    assert code_of_transaction(text) == pb.INVALID_TRANSACTION_ID


def test_none_of_ten_thousand_forged_transaction_ids_is_accepted() -> None:
    rng = random.Random(17)
    codes = set()
    for number in range(FORGED):
        transaction = str(TransactionId(f"message {number}", "broker-0", number))
        foreign = transaction_handle(transaction, "payments", OTHERS)
        of_another_topic = transaction_handle(transaction, "refunds", KEYS)
        guessed = f"{transaction}@01{rng.randbytes(9).hex()}"
        codes |= set(map(code_of_transaction, (transaction, foreign, of_another_topic, guessed)))
    assert codes == {pb.INVALID_TRANSACTION_ID}


def test_a_transactions_handle_is_good_until_the_second_rotation() -> None:
    handle = transaction_handle(TRANSACTION, "payments", KEYS)
    assert code_of_transaction(handle, keys=HandleKeys((FIRST, NEXT, THIRD))) == pb.OK
    assert code_of_transaction(handle, keys=HandleKeys((NEXT, THIRD, FOURTH))) == pb.INVALID_TRANSACTION_ID


def test_a_tag_of_one_kind_is_none_of_another() -> None:
    bound = b"the same bytes"
    tag = KEYS.sign_handle(b"ternmq recall", bound)
    assert KEYS.is_valid_tag(tag, b"ternmq recall", bound)
    assert not KEYS.is_valid_tag(tag, b"ternmq halves", bound)
    assert not KEYS.is_valid_tag(tag.upper() if tag != tag.upper() else f" {tag}", b"ternmq recall", bound)
