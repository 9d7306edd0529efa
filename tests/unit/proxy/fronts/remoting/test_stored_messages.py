"""Messages pass through the stored form: from remoting to remoting clients, and between these and gRPC clients."""

from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.catalog.delay_levels import DEFAULT_DELAY_LEVELS, delay_of_level, parse_delay_levels
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.limits import MessageLimits
from ternmq_common.shard.model import QueueRef, StoredMessage
from ternmq_common.shard.property_text import read_properties, write_properties
from ternmq_common.shard.transaction_id import TransactionId
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_proxy.fronts.grpc.delivered_form import delivered_form
from ternmq_proxy.fronts.remoting.messages import property_names as names
from ternmq_proxy.fronts.remoting.messages.delivered_messages import RecordMaker, read_half
from ternmq_proxy.fronts.remoting.messages.places import find_place, number_of_place
from ternmq_proxy.fronts.remoting.messages.sent_messages import SentHeader, read_sent_message
from ternmq_proxy.operations.message_checks import check_message, effective_type
from ternmq_proxy.processors.sending.producer_message import ProducerMessage
from ternmq_proxy.processors.sending.stored_form import body_checksum, read_message, to_stored_form
from ternmq_rpc.remoting.message_ids import Host, parse_host
from ternmq_rpc.remoting.message_records import MessageRecord, decode_records

NOW_MS = 1_700_000_000_000
LEVELS = parse_delay_levels(DEFAULT_DELAY_LEVELS)
STORE_HOST = Host(bytes((10, 0, 0, 1)), 9876)
QUEUE = QueueRef("topic", "broker-0", 3)
MAKER = RecordMaker(STORE_HOST, "DefaultCluster")
BY_SERVER = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster"}
INT32 = st.integers(-(2**31), 2**31 - 1)
WORD = st.text(st.characters(exclude_categories=["Cs", "C", "Z"]), min_size=1, max_size=8)
TEXT = st.text(st.characters(exclude_categories=["Cs", "C", "Zl", "Zp"]), min_size=1, max_size=12).filter(str.strip)
TAG = WORD.filter(lambda tag: "|" not in tag)
OWN = st.dictionaries(WORD.filter(lambda name: name not in names.RESERVED), TEXT, max_size=3).map(
    lambda pairs: {name: value for name, value in pairs.items() if len(name + value) >= 2}
)
KEPT = st.fixed_dictionaries(
    {},
    optional={
        "BUYER_ID": WORD,
        "INSTANCE_ID": WORD,
        "CORRELATION_ID": WORD,
        "REPLY_TO_CLIENT": TEXT,
        "TTL": st.just("3000"),
        "MSG_TYPE": st.just("reply"),
        "__transactionId__": WORD,
        "__SHARDINGKEY": TEXT,
        "TRACE_CONTEXT": TEXT,
    },
)
KEYS = st.lists(WORD, max_size=3, unique=True)
TIMES_MS = st.integers(0, 253_402_300_799_999)
WAITS = st.sampled_from(
    [
        {},
        {"DELAY": "0"},
        {"DELAY": "3"},
        {"DELAY": "99"},
        {"TIMER_DELAY_SEC": "7"},
        {"TIMER_DELAY_MS": "7"},
        {"TIMER_DELIVER_MS": str(NOW_MS + 5)},
        {"DELAY": "1", "TIMER_DELAY_SEC": "7"},
        {"TRAN_MSG": "true", "PGROUP": "PG"},
        {"TRAN_MSG": "true", "PGROUP": "PG", "CHECK_IMMUNITY_TIME_IN_SECONDS": "30", "DELAY": "3"},
    ]
)


def store(message: ProducerMessage) -> StoredMessage:
    """What sending and storing make of a message in a mixed topic."""
    if message.is_transaction or message.delivery_ns is not None:
        message.message_group = ""
    if message.is_transaction:
        message.delivery_ns = None
    kind = check_message(message, MessageLimits(), NOW_MS)
    new = to_stored_form(message, kind, body_checksum(message.body), "10.0.0.9:1", NOW_MS, MessageLimits())
    return StoredMessage(QUEUE, 5, NOW_MS + 1, new.system, new.rest, 77)


def pulled(stored: StoredMessage) -> tuple[MessageRecord, dict[str, str]]:
    """The record that a remoting client decodes, and its properties but for those of the server."""
    [record] = decode_records(MAKER.encode_message(stored))
    pairs = read_properties(record.properties)
    assert pairs.items() >= BY_SERVER.items()
    return record, {name: value for name, value in pairs.items() if name not in BY_SERVER}


@given(
    body=st.binary(min_size=1, max_size=50),
    flag=INT32,
    system_flag=st.sampled_from([0, 2, 4, 16, 2 | 64]),
    born_ms=TIMES_MS,
    tag=st.none() | TAG,
    keys=KEYS,
    own=OWN,
    kept=KEPT,
    waits=WAITS,
    wait=st.sampled_from([{}, {"WAIT": "true"}]),
    reconsumed=st.integers(0, 16),
)
def test_a_remoting_consumer_reads_what_a_remoting_producer_sent(
    body: bytes,
    flag: int,
    system_flag: int,
    born_ms: int,
    tag: str | None,
    keys: list[str],
    own: dict[str, str],
    kept: dict[str, str],
    waits: dict[str, str],
    wait: dict[str, str],
    reconsumed: int,
) -> None:
    sent = {**own, **kept, **waits, "UNIQ_KEY": "AB12"}
    if tag is not None:
        sent["TAGS"] = tag
    if keys:
        sent["KEYS"] = " ".join(keys)
    header = SentHeader(
        "topic", flag, system_flag, born_ms, "10.0.0.2:5000", write_properties({**sent, **wait}), reconsumed
    )
    message = read_sent_message(header, body, LEVELS, NOW_MS)
    kind = effective_type(message)
    stored = store(message)
    record, pairs = pulled(stored)
    if kind in (MessageType.DELAY, MessageType.TRANSACTION):
        sent |= {"REAL_TOPIC": "topic", "REAL_QID": "3"}
    assert pairs == sent
    committed = 8 if kind == MessageType.TRANSACTION else 0
    kept_flag = system_flag & (2 | 64) | committed
    assert record == MessageRecord(
        "topic",
        body,
        record.properties,
        3,
        5,
        number_of_place("broker-0", 77),
        flag,
        kept_flag,
        born_ms,
        parse_host("10.0.0.2:5000"),
        NOW_MS + 1,
        STORE_HOST,
        reconsumed,
        0,
    )
    seen = delivered_form(stored, topic="topic", store_host="h:1")
    assert dict(seen.user_properties) == own
    assert (seen.body, list(seen.system_properties.keys)) == (body, keys)
    assert (seen.system_properties.tag, seen.system_properties.message_id) == (tag or "", "AB12")
    assert seen.system_properties.born_timestamp.ToMilliseconds() == born_ms
    assert seen.system_properties.trace_context == kept.get("TRACE_CONTEXT", "")
    group = "" if kind in (MessageType.DELAY, MessageType.TRANSACTION) else kept.get("__SHARDINGKEY", "")
    assert seen.system_properties.message_group == group
    assert int(seen.system_properties.message_type) == kind


@given(
    body=st.binary(min_size=1, max_size=50),
    tag=st.none() | TAG,
    keys=KEYS,
    own=OWN,
    born_ms=TIMES_MS,
    trace_context=st.none() | TEXT,
    group=st.none() | TEXT,
    due_ms=st.none() | st.integers(NOW_MS, NOW_MS + 10_000),
    is_transaction=st.booleans(),
)
def test_a_remoting_consumer_reads_what_a_grpc_producer_sent(
    body: bytes,
    tag: str | None,
    keys: list[str],
    own: dict[str, str],
    born_ms: int,
    trace_context: str | None,
    group: str | None,
    due_ms: int | None,
    is_transaction: bool,
) -> None:
    system = pb.SystemProperties(
        keys=keys, tag=tag, message_id="01AB", born_host="somewhere", trace_context=trace_context, message_group=group
    )
    system.born_timestamp.FromMilliseconds(born_ms)
    if due_ms is not None:
        system.delivery_timestamp.FromMilliseconds(due_ms)
    if is_transaction:
        system.message_type = pb.TRANSACTION
    message = read_message(pb.Message(body=body, user_properties=own), system)
    stored = store(message)
    kind = effective_type(message)
    record, pairs = pulled(stored)
    expected = {**own, "UNIQ_KEY": "01AB"}
    if tag is not None:
        expected["TAGS"] = tag
    if keys:
        expected["KEYS"] = " ".join(keys)
    if trace_context is not None:
        expected["TRACE_CONTEXT"] = trace_context
    if kind == MessageType.FIFO:
        expected["__SHARDINGKEY"] = group or ""
    if kind in (MessageType.DELAY, MessageType.TRANSACTION):
        expected |= {"REAL_TOPIC": "topic", "REAL_QID": "3"}
    if kind == MessageType.DELAY:
        expected["TIMER_DELIVER_MS"] = str(due_ms)
    if kind == MessageType.TRANSACTION:
        expected["TRAN_MSG"] = "true"
    assert pairs == expected
    assert (record.topic, record.body, record.born_ms, record.flag) == ("topic", body, born_ms, 0)
    assert record.system_flag == (8 if kind == MessageType.TRANSACTION else 0)
    assert read_half(stored).producer_group == ""  # so a remoting producer is not asked about it


@given(level=st.integers(-3, 30))
def test_a_delay_level_is_the_delivery_time_that_a_grpc_consumer_sees(level: int) -> None:
    header = SentHeader("topic", 0, 0, NOW_MS, "10.0.0.2:5000", f"UNIQ_KEY\x01AB12\x02DELAY\x01{level}")
    message = read_sent_message(header, b"x", LEVELS, NOW_MS)
    seen = delivered_form(store(message), topic="topic", store_host="h:1").system_properties
    if level <= 0:
        assert not seen.HasField("delivery_timestamp")
    else:
        assert seen.delivery_timestamp.ToMilliseconds() == NOW_MS + delay_of_level(LEVELS, level)


def test_the_group_of_a_queue_is_no_sharding_key_of_the_producer() -> None:
    for group, shown in ((f"queue-{QUEUE.queue_id}", None), ("queue-x", "queue-x")):
        message = ProducerMessage(topic="topic", body=b"x", message_id="AB12", message_group=group)
        _, pairs = pulled(store(message))
        assert pairs.get("__SHARDINGKEY") == shown


@given(log_offset=st.integers(0, 2**48 - 1))
def test_a_half_message_is_shown_to_its_producer_as_the_send_named_it(log_offset: int) -> None:
    pairs = {"UNIQ_KEY": "AB12", "TRAN_MSG": "true", "PGROUP": "PG", "CHECK_IMMUNITY_TIME_IN_SECONDS": "9"}
    header = SentHeader("topic", 0, 4, NOW_MS, "10.0.0.2:5000", write_properties(pairs))
    stored = store(read_sent_message(header, b"x", LEVELS, NOW_MS))
    assert read_half(stored) == ("PG", NOW_MS, 9)
    [record] = decode_records(MAKER.encode_half(stored, TransactionId("AB12", "broker-0", log_offset)))
    assert (record.topic, record.queue_id, record.system_flag) == ("topic", 3, 0)
    assert record.queue_offset == log_offset
    assert find_place(record.log_offset, ["broker-1", "broker-0"]) == [("broker-0", log_offset)]


def test_a_delayed_retry_is_no_half_message_whatever_it_was_before() -> None:
    text = write_properties({"UNIQ_KEY": "AB12", "TRAN_MSG": "true", "PGROUP": "PG", "DELAY": "3"})
    for times, is_half in ((0, True), (1, False)):
        header = SentHeader("topic", 0, 0, NOW_MS, "10.0.0.2:5000", text, times)
        assert read_sent_message(header, b"x", LEVELS, NOW_MS).is_transaction == is_half
