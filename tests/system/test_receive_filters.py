"""ReceiveMessage: filters by tag (`consuming.md, Tag filters`)."""

import pytest

from ternmq_common.filters.tag_hash import tag_hash
from ternmq_common.limits import TAG_FILTER_BYTES_MAX, MessageLimits
from ternmq_protos.v2 import definition_pb2 as pb
from tests.support.embedded import RawClient, message
from tests.system.conftest import SERVER_LOOP

pytestmark = SERVER_LOOP
TAGS = ["a", "A", "b", "ab", "", "c d"]
SAME_HASH = ("plumless", "buckeroo")


async def tags_received(client: RawClient, topic: str, group: str, expression: str | None) -> list[str]:
    received = await client.receive(topic, group, tags=expression)
    return [got.system_properties.tag for got in received.messages]


@pytest.mark.parametrize(
    ("expression", "passing"),
    [
        (None, TAGS),
        ("", TAGS),
        ("*", TAGS),
        (" * ", TAGS),
        ("a", ["a"]),
        (" a ", ["a"]),
        ("a||b", ["a", "b"]),
        ("b || a", ["a", "b"]),
        ("||a|| ||", ["a"]),
        ("c d", ["c d"]),
        ("a b", []),
        ("none", []),
    ],
)
async def test_whole_tags_pass_and_nothing_else(
    client: RawClient, topic: str, group: str, expression: str | None, passing: list[str]
) -> None:
    for tag in TAGS:
        await client.send(topic, b"body", tag=tag)
    assert await tags_received(client, topic, group, expression) == passing


async def test_the_longest_tag_that_can_be_sent_can_be_subscribed_to(client: RawClient, topic: str, group: str) -> None:
    longest = "ä" * (MessageLimits().properties_bytes_max // 2)
    for tag in (longest, longest[:-1] + "o"):
        await client.send(topic, b"body", tag=tag)
    assert await tags_received(client, topic, group, f"none || {longest}") == [longest]


async def test_an_expression_of_no_type_is_one_of_tags(client: RawClient, topic: str, group: str) -> None:
    await client.send(topic, b"1", tag="a")
    await client.send(topic, b"2", tag="b")
    assert (await client.receive(topic, group, filter_expression={"expression": "b"})).bodies == [b"2"]


async def test_tags_of_the_same_hash_are_told_apart(client: RawClient, topic: str, group: str) -> None:
    assert tag_hash(SAME_HASH[0]) == tag_hash(SAME_HASH[1])
    for tag in SAME_HASH:
        await client.send(topic, b"body", tag=tag)
    assert await tags_received(client, topic, group, SAME_HASH[1]) == [SAME_HASH[1]]
    # The other was passed over for good, also for a later poll with another filter.
    assert await tags_received(client, topic, group, "*") == []


async def test_what_a_filter_passes_over_the_group_does_not_get_later(
    client: RawClient, topic: str, group: str
) -> None:
    for tag in ("a", "b"):
        await client.send(topic, b"body", tag=tag)
    assert await tags_received(client, topic, group, "b") == ["b"]
    assert await tags_received(client, topic, group, "*") == []
    assert await tags_received(client, topic, f"{group}-new", "*") == ["a", "b"]


async def test_a_filter_finds_the_one_message_among_thousands(client: RawClient, topic: str, group: str) -> None:
    for _ in range(5):
        await client.send(topic, *[b"hay"] * 1000, tag="hay")
    await client.send(topic, b"needle", tag="needle")
    assert (await client.receive(topic, group, tags="needle")).bodies == [b"needle"]


@pytest.mark.parametrize("expression", ["||", " || ||", "x" * (TAG_FILTER_BYTES_MAX + 1), "a | b"])
async def test_a_tag_expression_that_no_message_can_pass_or_that_is_too_long_is_refused(
    client: RawClient, topic: str, group: str, expression: str
) -> None:
    assert (await client.receive(topic, group, tags=expression)).code == "ILLEGAL_FILTER_EXPRESSION"


@pytest.mark.parametrize("expression", ["", "a >", "a = 1 foo", "a == 1", "a LIKE 'x'", "x" * 8193])
async def test_a_condition_that_is_none_is_refused_and_the_place_named(
    client: RawClient, topic: str, group: str, expression: str
) -> None:
    fields = {"type": pb.SQL, "expression": expression}
    received = await client.receive(topic, group, filter_expression=fields)
    assert received.code == "ILLEGAL_FILTER_EXPRESSION"
    assert received.status is not None
    assert "SQL92" in received.status.message


async def test_a_condition_lets_pass_what_it_is_true_for(client: RawClient, topic: str, group: str) -> None:
    await client.call(
        "SendMessage",
        messages=[
            message(topic, b"1", tag="a", properties={"amount": "5"}),
            message(topic, b"2", tag="a", properties={"amount": "50"}),
            message(topic, b"3", tag="b", properties={"amount": "50"}),
            message(topic, b"4", tag="a"),
        ],
    )
    fields = {"type": pb.SQL, "expression": "amount > 10 AND TAGS = 'a'"}
    assert (await client.receive(topic, group, filter_expression=fields)).bodies == [b"2"]
    # What does not match is passed over for good.
    assert (await client.receive(topic, group)).code == "MESSAGE_NOT_FOUND"
