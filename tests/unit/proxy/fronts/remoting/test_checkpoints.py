"""Checkpoints name a popped message, and the end of its claim."""

import pytest

from ternmq_common.shard.model import RETRY_QUEUE_ID, DeliveredMessage, QueueRef, StoredMessage
from ternmq_common.shard.receipt_handle import ReceiptHandle
from ternmq_proxy.fronts.remoting.messages.checkpoints import (
    InvalidCheckpoint,
    PoppedForm,
    find_popped,
    name_retries,
    read_checkpoint,
)

GROUP, TOPIC = "readers", "orders"
END_MS = 1_795_850_060_000
INVISIBLE_MS = 60_000


def deliver(queue_id: int, offset: int, *, is_retry: bool = False) -> DeliveredMessage:
    queue = QueueRef(f"%RETRY%{GROUP}" if is_retry else TOPIC, "broker-1", queue_id)
    handle = ReceiptHandle("broker-1", RETRY_QUEUE_ID if is_retry else queue_id, offset, 77, END_MS)
    return DeliveredMessage(StoredMessage(queue, offset, 0, b"", b"", 0), handle, 1)


def test_each_message_is_found_again_by_its_checkpoint() -> None:
    deliveries = [deliver(2, 9), deliver(2, 7), deliver(0, 3), deliver(0, 5, is_retry=True)]
    form = PoppedForm(GROUP, TOPIC, INVISIBLE_MS, 0, deliveries)
    for delivery in deliveries:
        text = form.write_checkpoint(delivery)
        parts = text.split(" ")
        found = find_popped(GROUP, form.topic_of(delivery), int(parts[6]), int(parts[7]), read_checkpoint(text))
        assert found.topic == TOPIC
        told = delivery.handle
        assert found.handle == ReceiptHandle(told.broker, told.queue_id, told.queue_offset, 0, told.deadline_ms)


def test_the_header_says_what_a_client_needs_for_the_checkpoints() -> None:
    form = PoppedForm(GROUP, TOPIC, INVISIBLE_MS, 999, [deliver(2, 9), deliver(0, 5, is_retry=True), deliver(2, 7)])
    assert form.pop_ms == END_MS - INVISIBLE_MS
    assert (form.first_offsets, form.all_offsets) == ("0 2 7;1 0 5", "0 2 7,9;1 0 5")
    assert form.write_checkpoint(deliver(2, 9)) == f"7 {END_MS - INVISIBLE_MS} 60000 999 0 broker-1 2 9"
    assert form.topic_of(deliver(0, 5, is_retry=True)) == "%RETRY%readers_orders"


@pytest.mark.parametrize("joint", ["_", "+"])
def test_a_retry_is_named_by_either_form_of_its_topic(joint: str) -> None:
    checkpoint = read_checkpoint("5 1 2 0 1 broker-1 0 5")
    found = find_popped(GROUP, f"%RETRY%{GROUP}{joint}{TOPIC}", 0, 5, checkpoint)
    assert (found.topic, found.queue_id, found.end_ms) == (TOPIC, RETRY_QUEUE_ID, 3)
    other = find_popped(GROUP, name_retries("others", TOPIC), 0, 5, checkpoint)
    assert (other.topic, other.queue_id) == (name_retries("others", TOPIC), 0)


@pytest.mark.parametrize(
    "text", ["", "1 2 3", "1 x 3 0 0 b 0 0", "1 2 -3 0 0 b 0 0", "1 ٣ 3 0 0 b 0 0", f"1 {'9' * 19} 3 0 0 b 0 0"]
)
def test_what_is_no_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(InvalidCheckpoint):
        read_checkpoint(text)
