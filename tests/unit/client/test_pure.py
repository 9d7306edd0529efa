"""What needs no server: hashes, ids, queue choice, back-off, splitting, addresses, errors, signatures."""

import asyncio
import copy
import gzip
import pickle
import re
import subprocess
import sys
import tracemalloc
import unicodedata
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ternmq
from ternmq import Message, MessageView, SqlFilter, TagFilter
from ternmq.connections.endpoints import Endpoints
from ternmq.connections.route import RouteQueue, choose_queues, queue_of_group
from ternmq.connections.send_request import due_ms
from ternmq.connections.siphash import hash_siphash24
from ternmq.errors import BadRequest, create_error
from ternmq.messages.filters import check_subscriptions
from ternmq.messages.message_id import MessageIdGenerator, parse_message_id
from ternmq.messages.message_view import INFLATED_BYTES_MAX
from ternmq.producing.send_batches import BATCH_MESSAGES_MAX, split_batches
from ternmq.times.backoff import CustomizedBackoff, read_backoff
from ternmq_common.pacing.backoff import ExponentialBackoff, add_jitter
from ternmq_common.signing import SignedAuthorization, authorization_header, signature_of
from ternmq_protos.pool import Duration
from ternmq_protos.v2 import definition_pb2 as pb
from tests.unit.client.scripted_server import stored_message

ENDPOINTS = [Endpoints.parse(f"10.0.0.{number}:8081") for number in range(4)]
QUEUES = st.lists(
    st.builds(
        lambda broker, queue_id: RouteQueue("t", queue_id, f"broker-{broker}", ENDPOINTS[broker], pb.MessageQueue()),
        st.integers(0, 3),
        st.integers(0, 7),
    ),
    min_size=1,
    max_size=32,
    unique=True,
)


# From the reference implementation: the hash of 00 01 .. (length - 1), bytes in little-endian order.
@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (0, "310e0edd47db6f72"),
        (1, "fd67dc93c539f874"),
        (2, "5a4fa9d909806c0d"),
        (3, "2d7efbd796666785"),
        (7, "37d1018bf50002ab"),
        (8, "6224939a79f5f593"),
        (15, "e545be4961ca29a1"),
        (63, "724506eb4c328a95"),
    ],
)
def test_siphash_agrees_with_the_reference(length: int, expected: str) -> None:
    assert hash_siphash24(bytes(range(length))).to_bytes(8, "little").hex() == expected


@given(group=st.text(min_size=1), count=st.integers(1, 64))
def test_a_message_group_has_one_queue(group: str, count: int) -> None:
    queues = [RouteQueue("t", number, "b", ENDPOINTS[0], pb.MessageQueue()) for number in range(count)]
    chosen = queue_of_group(queues, group)
    assert queue_of_group(list(queues), group) is chosen
    assert chosen in queues


def test_the_hash_of_a_message_group_is_a_signed_number() -> None:
    queues = [RouteQueue("t", number, "b", ENDPOINTS[0], pb.MessageQueue()) for number in range(7)]
    unsigned = hash_siphash24(b"group-1")
    assert unsigned >> 63 == 1  # else this proves nothing
    assert queue_of_group(queues, "group-1").queue_id == (unsigned - (1 << 64)) % 7


@given(queues=QUEUES, turn=st.integers(0, 1000), count=st.integers(1, 6), isolated=st.sets(st.sampled_from(ENDPOINTS)))
def test_attempts_go_to_healthy_and_different_brokers_first(
    queues: list[RouteQueue], turn: int, count: int, isolated: set[Endpoints]
) -> None:
    chosen = choose_queues(queues, turn=turn, isolated=isolated, count=count)
    brokers = {queue.broker for queue in queues}
    healthy = [queue for queue in queues if queue.endpoints not in isolated]
    assert len(chosen) == count
    assert len({queue.broker for queue in chosen}) == min(count, len(brokers))
    assert not healthy or chosen[0] in healthy


@given(queues=QUEUES)
def test_turns_visit_every_queue(queues: list[RouteQueue]) -> None:
    visited = [choose_queues(queues, turn=turn, isolated=(), count=1)[0] for turn in range(len(queues))]
    assert visited == queues


@given(
    mac=st.integers(0, 2**48 - 1),
    first=st.integers(0, 2**32 - 1),
    now_s=st.integers(1_609_459_200, 1_609_459_200 + 2**32 - 1),
    count=st.integers(1, 100),
)
def test_message_ids_say_where_and_when_they_were_made(mac: int, first: int, now_s: int, count: int) -> None:
    ids = MessageIdGenerator(mac=mac, first_sequence=first, now_s=lambda: now_s).next_ids(count)
    parts = [parse_message_id(message_id) for message_id in ids]
    assert len(set(ids)) == count
    for number, (message_id, part) in enumerate(zip(ids, parts, strict=True)):
        assert (len(message_id), message_id) == (34, message_id.upper())
        assert part is not None
        assert (part.mac, part.seconds) == (mac, now_s - 1_609_459_200)
        assert part.sequence == (first + number) % 2**32


@given(counts=st.lists(st.integers(1, 50), max_size=20))
def test_message_ids_never_repeat(counts: list[int]) -> None:
    ids = MessageIdGenerator()
    made = [message_id for count in counts for message_id in ids.next_ids(count)]
    assert len(set(made)) == len(made)


@given(text=st.text())
def test_any_text_may_be_a_message_id(text: str) -> None:
    assert parse_message_id(text) is None or len(bytes.fromhex(text)) == 17


@given(
    sizes=st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(1, 3000)), max_size=200),
    bytes_max=st.integers(1000, 20_000),
)
def test_batches_keep_the_order_and_the_limits(sizes: list[tuple[str, int]], bytes_max: int) -> None:
    messages = [Message(topic, b"x" * size) for topic, size in sizes]
    by_topic = split_batches(messages, bytes_max=bytes_max)
    for topic, batches in by_topic.items():
        places = [place for batch in batches for place in batch.places]
        assert places == [place for place, message in enumerate(messages) if message.topic == topic]
        for batch in batches:
            assert [messages[place] for place in batch.places] == batch.messages
            assert len(batch.messages) <= BATCH_MESSAGES_MAX
            body_bytes = sum(len(message.body) for message in batch.messages)
            assert len(batch.messages) == 1 or body_bytes <= bytes_max


@given(attempt=st.integers(-5, 100_000))
def test_delays_grow_up_to_their_limit(attempt: int) -> None:
    backoff = ExponentialBackoff(initial_s=0.01, max_s=1.0)
    assert 0.01 <= backoff.delay_s(attempt) <= backoff.delay_s(attempt + 1) <= 1.0
    customized = CustomizedBackoff((1, 5, 10))
    assert customized.delay_s(attempt) in {1, 5, 10}


@given(delay_s=st.floats(0, 1000), fraction=st.floats(0, 1))
def test_jitter_takes_half_at_most(delay_s: float, fraction: float) -> None:
    assert delay_s / 2 <= add_jitter(delay_s, fraction) <= delay_s


def test_a_back_off_of_zeros_is_not_believed() -> None:
    default = CustomizedBackoff((1,))
    zeros = pb.RetryPolicy(exponential_backoff=pb.ExponentialBackoff(multiplier=1))
    told = pb.RetryPolicy(
        exponential_backoff=pb.ExponentialBackoff(initial=Duration(seconds=5), max=Duration(seconds=60), multiplier=2)
    )
    assert read_backoff(zeros, default) is default
    assert read_backoff(pb.RetryPolicy(), default) is default
    assert read_backoff(told, default).delay_s(2) == 10


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("127.0.0.1:8081", "127.0.0.1:8081"),
        ("10.0.0.1:1;10.0.0.2:2", "10.0.0.1:1;10.0.0.2:2"),
        ("[::1]:8081", "[::1]:8081"),
        ("::1", "[::1]:8081"),
        ("localhost", "localhost:8081"),
        ("http://broker.example:80/", "broker.example:80"),
    ],
)
def test_endpoints_are_read_as_people_write_them(text: str, shown: str) -> None:
    endpoints = Endpoints.parse(text)
    assert str(endpoints) == shown
    assert Endpoints.from_proto(endpoints.to_proto()) == endpoints


@pytest.mark.parametrize(
    "text", ["", " ; ", "host:", "host:port", "host:0", "host:65536", ":1", "a:1;b:2", "::1;1.1.1.1"]
)
def test_endpoints_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ternmq.BadRequest):
        Endpoints.parse(text)


@pytest.mark.parametrize("code", [code for code in pb.Code.values() if code not in {0, pb.OK, pb.MULTIPLE_RESULTS}])
def test_every_code_has_a_family_that_agrees_about_retries(code: pb.Code) -> None:
    error = create_error(code, "text")
    assert (error.code, error.message) == (code, "text")
    assert error.retryable == (code == pb.TOO_MANY_REQUESTS or 50000 <= code < 50100 or 50400 <= code < 50500)
    assert isinstance(error, ternmq.BadRequest) <= (code < 40100 or code == pb.PRECONDITION_FAILED)


def test_a_code_that_nobody_knows_is_unsupported() -> None:
    assert isinstance(create_error(99999, "text"), ternmq.Unsupported)  # type: ignore[arg-type]
    assert str(create_error(99999, "text")) == "99999: text"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": ""}, pb.ILLEGAL_TOPIC),
        ({"topic": "no spaces"}, pb.ILLEGAL_TOPIC),
        ({"body": b""}, pb.MESSAGE_BODY_EMPTY),
        ({"tag": "a|b"}, pb.ILLEGAL_MESSAGE_TAG),
        ({"tag": " "}, pb.ILLEGAL_MESSAGE_TAG),
        ({"tag": "a\x00"}, pb.ILLEGAL_MESSAGE_TAG),
        ({"keys": ["k", " "]}, pb.ILLEGAL_MESSAGE_KEY),
        ({"properties": {"a": 1}}, pb.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"properties": {str(number): "" for number in range(129)}}, pb.MESSAGE_PROPERTIES_TOO_LARGE),
        ({"message_group": ""}, pb.ILLEGAL_MESSAGE_GROUP),
        ({"message_group": "x" * 64}, pb.ILLEGAL_MESSAGE_GROUP),
        ({"message_group": "\u4e2d" * 22}, pb.ILLEGAL_MESSAGE_GROUP),
        ({"priority": -1}, pb.BAD_REQUEST),
        ({"priority": 1, "message_group": "g"}, pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        ({"delivery_timestamp": datetime(2030, 1, 1)}, pb.ILLEGAL_DELIVERY_TIME),  # noqa: DTZ001
        ({"delay": 5}, pb.ILLEGAL_DELIVERY_TIME),
        ({"delay_level": 0}, pb.ILLEGAL_DELIVERY_TIME),
        ({"delay_level": "3"}, pb.ILLEGAL_DELIVERY_TIME),
        ({"delay": timedelta(1), "delivery_timestamp": 1}, pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        ({"delay": timedelta(1), "delay_level": 1}, pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        ({"delay_level": 1, "message_group": "g"}, pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        ({"delay": timedelta(0), "priority": 0}, pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        *(
            ({"lite_topic": name}, pb.ILLEGAL_LITE_TOPIC)
            for name in ("", " ", "a b", "a.b", "\xe4", "\ud800", "x" * 65)
        ),
        ({"lite_topic": "a", "message_group": "g"}, pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        ({"lite_topic": "a", "delivery_timestamp": 1}, pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        ({"lite_topic": "a", "priority": 0}, pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
    ],
)
def test_a_message_that_no_server_takes_is_not_made(fields: dict[str, object], code: pb.Code) -> None:
    with pytest.raises(ternmq.ClientError) as refused:
        Message(**{"topic": "orders", "body": b"x", **fields})  # type: ignore[arg-type]
    assert refused.value.code == code


def test_a_message_takes_what_servers_take() -> None:
    message = Message("%DLQ%group", bytearray(b"x"), tag="\u4e2d", keys=["a b"], delivery_timestamp=datetime.now(UTC))  # type: ignore[arg-type]
    assert (message.body, message.keys, message.message_type) == (b"x", ("a b",), pb.DELAY)


@given(
    moment=st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(3000, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
)
def test_a_delivery_time_keeps_its_milliseconds(moment: datetime) -> None:
    message = Message("t", b"x", delivery_timestamp=moment)
    assert message.delivery_timestamp_ms == (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


@given(started_ns=st.integers(0, 2**62), delay=st.timedeltas())
def test_a_delay_is_never_too_short_and_a_negative_one_is_over(started_ns: int, delay: timedelta) -> None:
    delay_ns = delay // timedelta(microseconds=1) * 1000
    due_ns = due_ms(started_ns, delay) * 1_000_000
    assert due_ns >= started_ns + delay_ns
    assert due_ns < max(started_ns + delay_ns, 0) + 1_000_000
    assert delay_ns > -1_000_000 or due_ns <= started_ns


@pytest.mark.parametrize("expression", ["a | b", "a || b | c", "|", "a |||b"])
def test_a_filter_that_no_message_can_pass_is_refused(expression: str) -> None:
    with pytest.raises(ternmq.BadRequest, match=re.escape("write a || b")):
        TagFilter(expression)


@pytest.mark.parametrize("expression", ["", " ", "||", " || "])
def test_filters_must_ask_for_something(expression: str) -> None:
    with pytest.raises(ternmq.BadRequest):
        TagFilter(expression)


def test_plain_strings_are_tag_filters() -> None:
    sql = SqlFilter("a > 1")
    assert check_subscriptions({"a": "x || y", "b": sql}) == {"a": TagFilter("x || y"), "b": sql}


def view_of(message: pb.Message) -> MessageView:
    return MessageView(message, broker="b", endpoints=ENDPOINTS[0])


@pytest.mark.parametrize("compressed", [gzip.compress(b"body" * 100, mtime=0), zlib.compress(b"body" * 100)])
def test_compressed_bodies_are_read_whatever_their_header(compressed: bytes) -> None:
    message = stored_message(1, body=compressed)
    message.system_properties.body_encoding = pb.GZIP
    view = view_of(message)
    assert (view.body, view.stored_bytes, view.intact) == (b"body" * 100, len(compressed), True)


def pickled(protocol: int) -> Callable[[MessageView], MessageView]:
    return lambda view: pickle.loads(pickle.dumps(view, protocol))


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, *map(pickled, range(pickle.HIGHEST_PROTOCOL + 1))])
def test_a_message_can_be_pickled_and_copied(again: Callable[[MessageView], MessageView]) -> None:
    view = view_of(stored_message(7, group="g", attempt=2))
    view.receipt_handle, view.delivery_attempt = "renewed", 3
    other = again(view)
    assert other is not view
    assert repr(other) == repr(view)
    for name in ("body", "broker", "endpoints", "receipt_handle", "delivery_attempt", "message_group", "properties"):
        assert getattr(other, name) == getattr(view, name)
    assert other.to_proto() == view.to_proto()


def test_a_body_that_says_gzip_and_is_not_is_corrupted() -> None:
    message = stored_message(1, body=b"plain")
    message.system_properties.body_encoding = pb.GZIP
    view = view_of(message)
    assert not view.intact
    with pytest.raises(ternmq.BadRequest, match="MESSAGE_CORRUPTED"):
        _ = view.body


def packed_zeros(size: int) -> bytes:
    """So many zeros, compressed as tightly as it goes; made in pieces, as nobody wants to hold them."""
    deflate = zlib.compressobj(9)
    piece = bytes(1 << 20)
    parts = [deflate.compress(piece) for _ in range(size >> 20)] + [deflate.compress(piece[: size & 0xFFFFF])]
    return b"".join(parts) + deflate.flush()


@pytest.mark.slow
@pytest.mark.parametrize("size", [INFLATED_BYTES_MAX + 1, 1 << 29], ids=["one-byte-too-many", "512MiB"])
def test_a_body_that_would_be_too_long_is_corrupted_and_takes_no_more_memory_than_is_allowed(size: int) -> None:
    packed = packed_zeros(size)
    message = stored_message(1, body=packed)
    message.system_properties.body_encoding = pb.GZIP
    view = view_of(message)
    tracemalloc.start()
    try:
        assert not view.intact
        with pytest.raises(ternmq.BadRequest, match=r"MESSAGE_CORRUPTED: .* has more than 67108864 bytes"):
            _ = view.body
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * INFLATED_BYTES_MAX
    assert view.to_proto().body == packed


def test_the_longest_body_that_is_allowed_is_read() -> None:
    message = stored_message(1, body=packed_zeros(INFLATED_BYTES_MAX))
    message.system_properties.body_encoding = pb.GZIP
    assert len(view_of(message).body) == INFLATED_BYTES_MAX


def test_a_body_that_ends_too_early_is_corrupted() -> None:
    message = stored_message(1, body=gzip.compress(b"body" * 100)[:-9])
    message.system_properties.body_encoding = pb.GZIP
    assert not view_of(message).intact


@pytest.mark.parametrize(
    ("kind", "checksum", "intact"),
    [
        (pb.MD5, "841a2d689ad86bd1611447453c22c6fc", True),
        (pb.MD5, "841A2D689AD86BD1611447453C22C6FC", True),
        (pb.MD5, "00000000000000000000000000000000", False),
        (pb.SHA1, "02083F4579E08A612425C0C1A17EE47ADD783B94", True),
        (pb.SHA1, "", False),
        (pb.CRC32, "whatever", True),
    ],
)
def test_digests_are_checked_where_they_mean_something(kind: pb.DigestType, checksum: str, intact: bool) -> None:
    message = stored_message(1, body=b"body")
    message.system_properties.body_digest.CopyFrom(pb.Digest(type=kind, checksum=checksum))
    assert view_of(message).intact is intact


@given(key=st.text(alphabet="abcXYZ09", min_size=1), secret=st.text(min_size=1), date=st.text(alphabet="0123TZ"))
def test_a_signature_proves_the_secret(key: str, secret: str, date: str) -> None:
    header = authorization_header(key, secret, date)
    parsed = SignedAuthorization.parse_header(header)
    assert parsed is not None
    assert parsed.access_key == key
    assert parsed.signature == signature_of(secret, date)
    assert parsed.signature != signature_of(secret + "x", date)
    assert parsed.signature != signature_of(secret, date + "1")


@pytest.mark.parametrize(
    "header", ["", "word", "word Credential", "word Credential=,Signature=AB", "word Credential=a"]
)
def test_headers_that_no_client_sends_are_refused(header: str) -> None:
    assert SignedAuthorization.parse_header(header) is None


def test_credentials_may_have_a_suffix_and_signatures_any_case() -> None:
    head, _, signature = authorization_header("key", "secret", "date").rpartition("=")
    head = head.replace("Credential=key", "Credential=key//Rocketmq")
    for each in (signature.upper(), signature.lower()):
        parsed = SignedAuthorization.parse_header(f"{head}={each}")
        assert parsed == SignedAuthorization("key", each)
        assert parsed.signature.upper() == signature_of("secret", "date")


def test_all_names_are_exported() -> None:
    assert all(hasattr(ternmq, name) for name in ternmq.__all__)
    assert not asyncio.iscoroutinefunction(Message)


@pytest.mark.slow
def test_the_import_brings_no_heavy_packages() -> None:
    code = "import sys, ternmq; print(' '.join({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"opentelemetry", "click", "sqlalchemy", "rich", "ternmq_proxy", "ternmq_broker"} & set(loaded)


@given(
    st.text(st.characters(max_codepoint=0x3000), max_size=4)
    | st.text(" \t\u00a0\u2003\u0085\x1c\u200b\u3000a", max_size=4)
)
def test_what_may_not_be_in_a_tag_or_key_is_what_is_blank_or_has_control_characters(text: str) -> None:
    expected = not text.strip() or any(unicodedata.category(each) == "Cc" for each in text)
    if expected:
        with pytest.raises(BadRequest):
            Message("orders", b"body", keys=[text])
    else:
        assert Message("orders", b"body", keys=[text]).keys == (text,)
