"""Arguments that were written wrong: a TypeError where they stand, which says what to write instead."""

import re
from collections.abc import Callable
from typing import Any

import pytest

import ternmq
import ternmq.blocking
from ternmq import Message
from ternmq.offset_reader import OffsetReader

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
