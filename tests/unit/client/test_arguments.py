"""Arguments that were written wrong: a TypeError where they stand, which says what to write instead."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import ternmq
import ternmq.blocking
from ternmq import Message
from ternmq.messages.message import check_message_ids
from ternmq.pull.offset_reader import OffsetReader

ENDPOINT = "127.0.0.1:1"
SUBSCRIPTIONS = {"orders": "*"}


def listener(_: ternmq.MessageView) -> None: ...


def asked(make: Callable[..., object], *arguments: Any) -> Callable[..., object]:  # noqa: ANN401 - of any client
    return lambda **keywords: make(ENDPOINT, *arguments, **keywords)


CONSUMERS = [
    pytest.param(asked(module.SimpleConsumer, "g"), id=f"{module.__name__}.SimpleConsumer")
    for module in (ternmq, ternmq.blocking)
] + [
    pytest.param(asked(module.PullConsumer, "g"), id=f"{module.__name__}.PullConsumer")
    for module in (ternmq, ternmq.blocking)
]
CONSUMERS += [
    pytest.param(
        lambda push=module.PushConsumer, **keywords: push(ENDPOINT, "g", listener=listener, **keywords),
        id=f"{module.__name__}.PushConsumer",
    )
    for module in (ternmq, ternmq.blocking)
]
PRODUCERS = [
    pytest.param(asked(module.Producer), id=f"{module.__name__}.Producer") for module in (ternmq, ternmq.blocking)
]


@pytest.mark.parametrize("make", PRODUCERS)
def test_topics_that_are_one_string_are_not_taken_apart(make: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match=re.escape('write topics=["orders"]')):
        make(topics="orders")
    with pytest.raises(TypeError, match="list of names, which 5 is not"):
        make(topics=["orders", 5])


@pytest.mark.parametrize("make", PRODUCERS)
def test_a_producer_knows_its_arguments(make: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match="Producer has no argument 'max_attempt'; did you mean 'max_attempts'"):
        make(max_attempt=3)
    with pytest.raises(TypeError, match="did you mean 'request_timeout'"):
        make(requests_timeout=3)


@pytest.mark.parametrize("make", PRODUCERS)
def test_who_hears_of_connections_is_a_function(make: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match="on_connection is a function that gets a ConnectionEvent, which 'log' is not"):
        make(on_connection="log")
    make(on_connection=None)


@pytest.mark.parametrize("make", CONSUMERS)
def test_a_consumer_knows_its_arguments(make: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match="Consumer has no argument 'credential'; did you mean 'credentials'"):
        make(subscriptions=SUBSCRIPTIONS, credential=None)


def test_an_argument_that_resembles_none_is_answered_with_all_that_there_are() -> None:
    with pytest.raises(TypeError, match=r"no argument 'xyz'; known are .*endpoint, .*group, .*subscriptions, .*tls"):
        ternmq.SimpleConsumer(ENDPOINT, "g", SUBSCRIPTIONS, xyz=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="OffsetReader has no argument 'patiense'; did you mean 'patience'"):
        OffsetReader(ENDPOINT, patiense=1.0)  # type: ignore[call-arg]


@pytest.mark.parametrize("make", CONSUMERS)
@pytest.mark.parametrize(
    ("subscriptions", "written"),
    [
        (["a", "b"], '{"a": "*", "b": "*"}'),
        ("a", '{"a": "*"}'),
        (None, '{"topic": "*"}'),
        ({"a": None}, '{"a": "*"}'),
        ({"a": ["x", "y"]}, '{"a": "*"}'),
    ],
)
def test_subscriptions_are_topic_to_filter(make: Callable[..., object], subscriptions: object, written: str) -> None:
    with pytest.raises(
        TypeError, match=re.escape(f"write {'' if isinstance(subscriptions, dict) else 'subscriptions='}{written}")
    ):
        make(subscriptions=subscriptions)


def test_a_topic_is_a_name() -> None:
    with pytest.raises(TypeError, match="5 is no name of a topic"):
        ternmq.SimpleConsumer(ENDPOINT, "g", {5: "*"})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"body": "text"}, "bytes, not str: write body.encode()"),
        ({"body": {"a": 1}}, "bytes, not dict"),
        ({"keys": "order-17"}, 'write keys=["order-17"]'),
        ({"keys": [17]}, "list of strings, which 17 is not"),
    ],
)
def test_a_message_has_bytes_and_a_list_of_keys(fields: dict[str, object], said: str) -> None:
    with pytest.raises(TypeError, match=re.escape(said)):
        Message(**{"topic": "orders", "body": b"x", **fields})  # type: ignore[arg-type]


# Durations.

TIMEOUTS: list[tuple[str, Callable[[Any], object]]] = [
    ("delivery_timeout", lambda value: ternmq.Producer(ENDPOINT, delivery_timeout=value)),
    ("delivery_timeout", lambda value: ternmq.blocking.Producer(ENDPOINT, delivery_timeout=value)),
    ("request_timeout", lambda value: ternmq.Producer(ENDPOINT, request_timeout=value)),
    ("request_timeout", lambda value: ternmq.SimpleConsumer(ENDPOINT, "g", SUBSCRIPTIONS, request_timeout=value)),
    ("request_timeout", lambda value: ternmq.Admin(ENDPOINT, request_timeout=value)),
    ("request_timeout", lambda value: OffsetReader(ENDPOINT, request_timeout=value)),
    (
        "auto_commit_interval",
        lambda value: ternmq.PullConsumer(ENDPOINT, "g", SUBSCRIPTIONS, auto_commit_interval=value),
    ),
]
FROM_0: list[tuple[str, Callable[[Any], object]]] = [
    ("drain_timeout", lambda value: ternmq.PushConsumer(ENDPOINT, "g", SUBSCRIPTIONS, listener, drain_timeout=value)),
    ("patience", lambda value: OffsetReader(ENDPOINT, patience=value)),
]
SPANS: list[tuple[str, Callable[[Any], object]]] = [
    ("await_duration", lambda value: ternmq.SimpleConsumer(ENDPOINT, "g", SUBSCRIPTIONS, await_duration=value)),
    ("delay", ternmq.RetryLater),
    ("delay", ternmq.Suspend),
    ("recovery", lambda value: ternmq.Producer(ENDPOINT).begin_transaction(recovery=value)),
]


@pytest.mark.parametrize(("name", "make"), TIMEOUTS + FROM_0)
def test_a_timeout_is_seconds_or_a_timedelta(name: str, make: Callable[[Any], object]) -> None:
    make(2)
    make(0.5)
    make(timedelta(seconds=2))
    for wrong in ("2s", None, True):
        with pytest.raises(TypeError, match=f"{name} is seconds or a timedelta, which {wrong!r} is not"):
            make(wrong)


@pytest.mark.parametrize(("name", "make"), TIMEOUTS)
@pytest.mark.parametrize("value", [0, -1.5, timedelta(0), float("nan")])
def test_a_timeout_is_more_than_nothing(name: str, make: Callable[[Any], object], value: object) -> None:
    with pytest.raises(ValueError, match=f"{name}={re.escape(str(value))} must be more than 0 seconds"):
        make(value)


@pytest.mark.parametrize(("name", "make"), FROM_0)
def test_patience_is_not_negative(name: str, make: Callable[[Any], object]) -> None:
    make(0)
    with pytest.raises(ValueError, match=f"{name}=-1 must not be negative"):
        make(-1)


@pytest.mark.parametrize(("name", "make"), SPANS)
def test_a_duration_that_is_a_number_says_what_to_write(name: str, make: Callable[[Any], object]) -> None:
    make(timedelta(seconds=5))
    with pytest.raises(TypeError, match=re.escape(f"{name} is a timedelta: write timedelta(seconds=5)")):
        make(5)
    with pytest.raises(TypeError, match=f"{name} is a timedelta, which '5s' is not"):
        make("5s")


def test_periods_of_the_housekeeping_are_seconds() -> None:
    with pytest.raises(TypeError, match="heartbeat_s is a number of seconds, which "):
        ternmq.Timing(heartbeat_s=timedelta(seconds=10))  # type: ignore[arg-type]


# Text.

HALF = "caf\udce9"


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: Message("orders", b"x", tag=HALF), "ILLEGAL_MESSAGE_TAG"),
        (lambda: Message("orders", b"x", keys=[HALF]), "ILLEGAL_MESSAGE_KEY"),
        (lambda: Message("orders", b"x", properties={HALF: "x"}), "ILLEGAL_MESSAGE_PROPERTY_KEY"),
        (lambda: Message("orders", b"x", properties={"x": HALF}), "ILLEGAL_MESSAGE_PROPERTY_KEY"),
        (lambda: Message("orders", b"x", message_group=HALF), "ILLEGAL_MESSAGE_GROUP"),
        (lambda: ternmq.TagFilter(f"a || {HALF}"), "ILLEGAL_FILTER_EXPRESSION"),
        (lambda: ternmq.SqlFilter(f"a = '{HALF}'"), "ILLEGAL_FILTER_EXPRESSION"),
        (lambda: ternmq.SimpleConsumer(ENDPOINT, "g", {"orders": HALF}), "ILLEGAL_FILTER_EXPRESSION"),
        (lambda: check_message_ids([HALF], 1), "ILLEGAL_MESSAGE_ID"),
    ],
)
def test_a_lone_surrogate_is_refused_where_it_stands(make: Callable[[], object], code: str) -> None:
    with pytest.raises(ternmq.BadRequest, match=rf"{code}: .*caf\\udce9.* lone surrogates"):
        make()


def test_a_lone_surrogate_in_a_body_of_json_is_named() -> None:
    with pytest.raises(ValueError, match=r"the lone surrogate '\\udce9' in a text of the value is no character"):
        Message.json("orders", {"drink": HALF})


async def test_a_lone_surrogate_in_what_an_operator_asks_is_named() -> None:
    async with ternmq.Admin(ENDPOINT) as admin:
        with pytest.raises(ValueError, match="name must not hold lone surrogates"):
            await admin.create_topic(HALF)


def test_tags_and_message_groups_are_text() -> None:
    with pytest.raises(TypeError, match="tag is text, which 5 is not"):
        Message("orders", b"x", tag=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="message_group is text, which 5 is not"):
        Message("orders", b"x", message_group=5)  # type: ignore[arg-type]
