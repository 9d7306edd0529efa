"""What a producer sent is what is stored, and what is read back."""

from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.catalog.message_type import MessageType
from ternmq_common.limits import MessageLimits
from ternmq_common.shard.model import QueueRef, StoredMessage
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_proxy.operations.message_checks import effective_type
from ternmq_proxy.processors.sending.producer_message import ProducerMessage
from ternmq_proxy.processors.sending.stored_form import body_checksum, read_message, revive_letter, to_stored_form

NOW_MS = 1_700_000_000_000
TEXT = st.text(max_size=9)
TIMES = st.integers(0, 253_402_300_799_999_999_999)
MESSAGES = st.builds(
    ProducerMessage,
    topic=st.just(""),
    body=st.binary(min_size=1, max_size=40),
    message_id=TEXT,
    tag=TEXT,
    keys=st.lists(TEXT, max_size=3).map(tuple),
    properties=st.dictionaries(TEXT, TEXT, max_size=3),
    trace_context=st.none() | TEXT,
    born_ns=TIMES,
    born_host=st.text("abc", min_size=1, max_size=9),
    is_compressed=st.booleans(),
)
SPECIAL = st.builds(
    lambda message, **special: ProducerMessage(**{**fields(message), **special}),
    MESSAGES,
    is_transaction=st.just(False),
    delivery_ns=st.none() | TIMES,
    message_group=TEXT,
    priority=st.none() | st.integers(0, 9),
    lite_topic=st.none() | TEXT,
)


def fields(message: ProducerMessage) -> dict[str, object]:
    return {name: getattr(message, name) for name in message.__struct_fields__}


def properties_of(message: ProducerMessage, kind: MessageType) -> pb.SystemProperties:
    new = to_stored_form(message, kind, body_checksum(message.body), "peer:1", NOW_MS, MessageLimits())
    return pb.SystemProperties.FromString(new.system)


@given(MESSAGES | SPECIAL)
def test_what_is_stored_is_read_back(message: ProducerMessage) -> None:
    kind = effective_type(message)
    new = to_stored_form(message, kind, body_checksum(message.body), "peer:1", NOW_MS, MessageLimits())
    properties = pb.SystemProperties.FromString(new.system)
    assert read_message(pb.Message.FromString(new.rest), properties) == message
    assert int(properties.message_type) == kind
    assert properties.body_digest == pb.Digest(type=pb.SHA1, checksum=body_checksum(message.body).decode())
    assert new.keys == (message.message_id, *message.keys)


def test_the_server_says_where_and_when_a_message_was_born_if_its_producer_does_not() -> None:
    for born_ns, born_host in ((None, ""), (-1, "a\nb"), (2**70, "")):
        message = ProducerMessage(topic="t", body=b"x", message_id="id", born_ns=born_ns, born_host=born_host)
        properties = properties_of(message, MessageType.NORMAL)
        assert properties.born_host == "peer:1"
        assert properties.born_timestamp.ToMilliseconds() == NOW_MS


def test_a_half_message_keeps_how_long_nobody_asks_about_it() -> None:
    message = ProducerMessage(topic="t", body=b"x", message_id="id", is_transaction=True, recovery_ms=1500)
    properties = properties_of(message, MessageType.TRANSACTION)
    assert properties.orphaned_transaction_recovery_duration.ToMilliseconds() == 1500
    message.recovery_ms = -1
    assert not properties_of(message, MessageType.TRANSACTION).HasField("orphaned_transaction_recovery_duration")


def test_fields_that_the_server_does_not_know_are_stored() -> None:
    field = b"\xca\x3e\x03abc"  # number 1001
    sent = pb.Message(body=b"x", user_properties={"a": "b"})
    system = pb.SystemProperties(message_id="id")
    message = pb.Message.FromString(sent.SerializeToString() + field)
    values = read_message(message, pb.SystemProperties.FromString(system.SerializeToString() + field))
    new = to_stored_form(values, MessageType.NORMAL, body_checksum(b"x"), "peer:1", NOW_MS, MessageLimits())
    assert pb.Message.FromString(new.rest) == message
    assert new.system.endswith(field)


def test_a_revived_letter_does_not_say_that_it_was_dead() -> None:
    message = ProducerMessage(topic="t", body=b"x", message_id="id", tag="tag", properties={"a": "b"})
    new = to_stored_form(message, MessageType.NORMAL, body_checksum(b"x"), "peer:1", NOW_MS, MessageLimits())
    dead = pb.SystemProperties.FromString(new.system)
    dead.dead_letter_queue.topic = "orders"
    letter = revive_letter(StoredMessage(QueueRef("%DLQ%g", "b", 0), 3, 1, dead.SerializeToString(), new.rest))
    assert (letter.topic, letter.stored) == ("orders", new)
    assert letter.message.properties == {"a": "b"}
