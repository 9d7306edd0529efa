"""SendMessage: what a message may be, at each limit and one step beyond (`sending.md, Limits`)."""

import re
import time
from typing import TYPE_CHECKING

import pytest

from ternmq_common.limits import HOUR_MS
from ternmq_protos.pool import Duration, Timestamp
from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.embedded import Proto, RawClient, code, message
from tests.system.conftest import SERVER_LOOP

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = SERVER_LOOP
BODY_MAX = 4194304
# A table of names is read more easily without 54 pairs of quotes.
RESERVED = """
    TRACE_ON MSG_REGION KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET
    BUYER_ID ORIGIN_GROUP ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME UNIQ_KEY
    MAX_RECONSUME_TIMES CONSUME_START_TIME POP_CK POP_CK_OFFSET 1ST_POP_TIME TRAN_PREPARED_QUEUE_OFFSET DUP_INFO
    EXTEND_UNIQ_INFO INSTANCE_ID CORRELATION_ID REPLY_TO_CLIENT TTL ARRIVE_TIME PUSH_REPLY_TIME CLUSTER MSG_TYPE
    INNER_MULTI_QUEUE_OFFSET TIMER_DELAY_MS TIMER_DELAY_SEC TIMER_DELIVER_MS TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS
    TIMER_ROLL_TIMES TIMER_OUT_MS TIMER_DEL_UNIQKEY TIMER_DELAY_LEVEL __BORNHOST BORN_TIMESTAMP DLQ_ORIGIN_TOPIC
    DLQ_ORIGIN_MESSAGE_ID __CRC32# _SYS_MSG_PRIORITY_ __LITE_TOPIC
""".split()  # noqa: SIM905
assert len(RESERVED) == 54
NOT_RESERVED = ["__SHARDINGKEY", "CHECK_IMMUNITY_TIME_IN_SECONDS", "TRACE_CONTEXT", "keys", "Tags", "", "ä", "a b"]
CONTROL = ["\x00", "\x01", "\x02", "\t", "\n", "\x1f", "\x7f", "\x80", "\x9f"]
BLANK = [" ", "  ", "\u2003"]


async def outcome(client: RawClient, sent: pb.Message) -> str:
    return code(await client.call("SendMessage", messages=[sent]))


async def outcome_of_type(client: RawClient, name: str, kind: "pb.MessageType", **system: Proto) -> str:
    """The outcome on a topic of that type."""
    await client.create_topic(name, kind=kind)
    return await outcome(client, message(name, **system))


def hours_ahead(hours: float) -> Timestamp:
    stamp = Timestamp()
    stamp.FromMilliseconds(time.time_ns() // 1_000_000 + int(hours * HOUR_MS))
    return stamp


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, "MESSAGE_BODY_EMPTY"), (1, "OK"), (BODY_MAX, "OK"), (BODY_MAX + 1, "MESSAGE_BODY_TOO_LARGE")],
)
async def test_body(client: RawClient, topic: str, size: int, expected: str) -> None:
    assert await outcome(client, message(topic, bytes(size))) == expected


@pytest.mark.parametrize(("count", "expected"), [(128, "OK"), (129, "MESSAGE_PROPERTIES_TOO_LARGE")])
async def test_number_of_properties(client: RawClient, topic: str, count: int, expected: str) -> None:
    properties = {f"k{number}": "v" for number in range(count)}
    assert await outcome(client, message(topic, properties=properties)) == expected


@pytest.mark.parametrize(("extra", "expected"), [("", "OK"), ("x", "MESSAGE_PROPERTIES_TOO_LARGE")])
@pytest.mark.parametrize("place", ["key", "value", "tag", "keys"])
async def test_properties_tag_and_keys_count_together_in_bytes(
    client: RawClient, topic: str, place: str, extra: str, expected: str
) -> None:
    texts = {"key": "k", "value": "v" * 16000, "tag": "t", "keys": "ä"}
    left = 16384 - sum(len(text.encode()) for text in texts.values())
    texts[place] += "x" * left + extra
    sent = message(topic, properties={texts["key"]: texts["value"]}, tag=texts["tag"], keys=[texts["keys"]])
    assert await outcome(client, sent) == expected


async def test_everything_but_the_body_has_a_limit_too(client: RawClient, topic: str) -> None:
    assert await outcome(client, message(topic, trace_context="x" * 32000)) == "OK"
    assert await outcome(client, message(topic, trace_context="x" * 32768)) == "MESSAGE_PROPERTIES_TOO_LARGE"
    assert await outcome(client, message(topic, message_id="x" * 32768)) == "MESSAGE_PROPERTIES_TOO_LARGE"


@pytest.mark.parametrize("key", RESERVED)
async def test_a_reserved_property_key_is_refused(client: RawClient, topic: str, key: str) -> None:
    assert await outcome(client, message(topic, properties={"a": "b", key: "v"})) == "ILLEGAL_MESSAGE_PROPERTY_KEY"


@pytest.mark.parametrize("key", NOT_RESERVED)
async def test_any_other_property_key_is_taken(client: RawClient, topic: str, key: str) -> None:
    assert await outcome(client, message(topic, properties={key: ""})) == "OK"


@pytest.mark.parametrize("character", CONTROL)
async def test_a_control_character_is_refused_wherever_it_stands(client: RawClient, topic: str, character: str) -> None:
    text = f"a{character}b"
    assert await outcome(client, message(topic, properties={text: "v"})) == "ILLEGAL_MESSAGE_PROPERTY_KEY"
    assert await outcome(client, message(topic, properties={"k": text})) == "ILLEGAL_MESSAGE_PROPERTY_KEY"
    assert await outcome(client, message(topic, tag=text)) == "ILLEGAL_MESSAGE_TAG"
    assert await outcome(client, message(topic, keys=["good", text])) == "ILLEGAL_MESSAGE_KEY"
    assert await outcome(client, message(topic, message_group=text)) == "ILLEGAL_MESSAGE_GROUP"


@pytest.mark.parametrize("blank", BLANK)
async def test_white_space_alone_is_no_name(client: RawClient, topic: str, blank: str) -> None:
    assert await outcome(client, message(topic, tag=blank)) == "ILLEGAL_MESSAGE_TAG"
    assert await outcome(client, message(topic, keys=["good", blank])) == "ILLEGAL_MESSAGE_KEY"
    assert await outcome(client, message(topic, message_group=blank)) == "ILLEGAL_MESSAGE_GROUP"
    assert await outcome(client, message(topic, message_id=blank)) == "ILLEGAL_MESSAGE_ID"
    assert await outcome(client, message(topic, lite_topic=blank)) == "ILLEGAL_LITE_TOPIC"


async def test_an_empty_text_is_none_except_for_the_id_and_the_lite_topic(client: RawClient, topic: str) -> None:
    assert await outcome(client, message(topic, tag="", message_group="", properties={"": ""})) == "OK"
    assert await outcome(client, message(topic, message_id="")) == "ILLEGAL_MESSAGE_ID"
    assert await outcome(client, message(topic, lite_topic="")) == "ILLEGAL_LITE_TOPIC"
    assert await outcome(client, message(topic, keys=[""])) == "ILLEGAL_MESSAGE_KEY"


async def test_a_tag_holds_no_bar(client: RawClient, topic: str) -> None:
    assert await outcome(client, message(topic, tag="a|b")) == "ILLEGAL_MESSAGE_TAG"


@pytest.mark.parametrize("identity", ["x", "x" * 500, "01" * 17, "ä ö"])
async def test_a_message_id_of_any_form_is_taken(client: RawClient, topic: str, identity: str) -> None:
    assert await outcome(client, message(topic, message_id=identity)) == "OK"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("x" * 63, "OK"), ("x" * 64, "ILLEGAL_MESSAGE_GROUP"), ("ä" * 32, "ILLEGAL_MESSAGE_GROUP")],
)
async def test_message_group(client: RawClient, new_topic: str, name: str, expected: str) -> None:
    assert await outcome_of_type(client, new_topic, pb.FIFO, message_group=name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [("x" * 64, "OK"), ("a_B-9", "OK"), ("x" * 65, "ILLEGAL_LITE_TOPIC")]
    + [(name, "ILLEGAL_LITE_TOPIC") for name in ("a%b", "a b", "a|b", "ä", "a.b")],
)
async def test_lite_topic(client: RawClient, new_topic: str, name: str, expected: str) -> None:
    assert await outcome_of_type(client, new_topic, pb.LITE, lite_topic=name) == expected


@pytest.mark.parametrize(("priority", "expected"), [(0, "OK"), (2**31 - 1, "OK")])
async def test_priority(client: RawClient, new_topic: str, priority: int, expected: str) -> None:
    assert await outcome_of_type(client, new_topic, pb.PRIORITY, priority=priority) == expected


async def test_a_negative_priority_is_a_bad_request(client: RawClient, topic: str) -> None:
    assert await outcome(client, message(topic, priority=-1)) == "BAD_REQUEST"


@pytest.mark.parametrize(("seconds", "expected"), [(0, "OK"), (3600, "OK"), (3601, "BAD_REQUEST")])
async def test_recovery_duration_of_a_transaction(
    client: RawClient, new_topic: str, seconds: int, expected: str
) -> None:
    fields = {"message_type": pb.TRANSACTION, "orphaned_transaction_recovery_duration": Duration(seconds=seconds)}
    assert await outcome_of_type(client, new_topic, pb.TRANSACTION, **fields) == expected


async def test_a_recovery_duration_means_nothing_to_other_messages(client: RawClient, topic: str) -> None:
    sent = message(topic, orphaned_transaction_recovery_duration=Duration(seconds=99999))
    assert await outcome(client, sent) == "OK"


@pytest.mark.parametrize(
    ("due", "expected"),
    [
        (hours_ahead(-24), "OK"),
        (hours_ahead(23.9), "OK"),
        (hours_ahead(25), "ILLEGAL_DELIVERY_TIME"),
        (Timestamp(seconds=2**62), "ILLEGAL_DELIVERY_TIME"),
        (Timestamp(seconds=-(2**62)), "OK"),
    ],
    ids=["past", "within", "beyond", "no calendar has it", "before all calendars"],
)
async def test_delivery_time(client: RawClient, new_topic: str, due: Timestamp, expected: str) -> None:
    assert await outcome_of_type(client, new_topic, pb.DELAY, delivery_timestamp=due) == expected


async def test_a_delivery_time_that_is_too_far_is_told_the_limit_and_the_setting(
    client: RawClient, new_topic: str
) -> None:
    await client.create_topic(new_topic, kind=pb.DELAY)
    sent = message(new_topic, delivery_timestamp=hours_ahead(24 * 40))
    answer = await client.call("SendMessage", messages=[sent])
    assert re.fullmatch(
        r"the delivery time is (39d23h59m\d+s|40d) ahead; "
        r"this server allows 1d, which its setting delay_max_ms raises, up to 365d",
        answer.status.message,
    )


async def test_the_first_rule_that_is_broken_decides(client: RawClient, topic: str) -> None:
    """A message breaks every rule, and is repaired in the order of `sending.md, Checks`."""
    sent = message(
        "a b",
        b"",
        properties={**{f"k{number}": "v" for number in range(129)}, "KEYS": "v"},
        tag="a|b",
        keys=["\n", "k" * 16384],
        message_id="",
        message_type=pb.TRANSACTION,
        orphaned_transaction_recovery_duration=Duration(seconds=3601),
        delivery_timestamp=hours_ahead(100),
        priority=-1,
        message_group=" ",
        lite_topic=" ",
    )
    properties = sent.system_properties
    repairs: list[tuple[str, Callable[[], object]]] = [
        ("ILLEGAL_TOPIC", lambda: sent.topic.CopyFrom(pb.Resource(name=topic))),
        ("MESSAGE_BODY_EMPTY", lambda: setattr(sent, "body", b"body")),
        ("MESSAGE_PROPERTIES_TOO_LARGE", lambda: [sent.user_properties.pop(f"k{number}") for number in range(2)]),
        ("ILLEGAL_MESSAGE_PROPERTY_KEY", lambda: sent.user_properties.pop("KEYS")),
        ("ILLEGAL_MESSAGE_TAG", lambda: setattr(properties, "tag", "tag")),
        ("ILLEGAL_MESSAGE_KEY", lambda: properties.keys.pop(0)),
        ("MESSAGE_PROPERTIES_TOO_LARGE", lambda: properties.ClearField("keys")),
        ("ILLEGAL_MESSAGE_ID", lambda: setattr(properties, "message_id", "id")),
        ("BAD_REQUEST", lambda: properties.ClearField("orphaned_transaction_recovery_duration")),
        ("ILLEGAL_DELIVERY_TIME", lambda: properties.ClearField("delivery_timestamp")),
        ("BAD_REQUEST", lambda: properties.ClearField("priority")),
        ("ILLEGAL_MESSAGE_GROUP", lambda: properties.ClearField("message_group")),
        ("ILLEGAL_LITE_TOPIC", lambda: properties.ClearField("lite_topic")),
        ("MESSAGE_PROPERTY_CONFLICT_WITH_TYPE", lambda: properties.ClearField("message_type")),
    ]
    for expected, repair in repairs:
        assert await outcome(client, sent) == expected
        repair()
    assert await outcome(client, sent) == "OK"
