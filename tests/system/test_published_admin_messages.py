"""QueryMessage and AdminSendMessage of the published admin service (`admin.md, The published service`)."""

from typing import Any

import pytest

from ternmq_protos.admin_v1 import admin_pb2
from ternmq_protos.v2 import admin_pb2 as published
from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_proxy.operations.admin.messages import message_pages
from tests.support.embedded import Embedded, RawClient, code, moment
from tests.support.lite import make_lite_topic
from tests.system.conftest import SERVER_LOOP
from tests.system.test_published_admin import refused, told

pytestmark = SERVER_LOOP


async def found(client: RawClient, topic: str, **fields: Any) -> published.ListMessageResponse:  # noqa: ANN401
    answer = await told(client, "QueryMessage", topic={"name": topic}, **fields)
    assert isinstance(answer, published.ListMessageResponse)
    return answer


def bodies(answer: published.ListMessageResponse) -> list[bytes]:
    return [message.body for message in answer.messages]


async def pages(client: RawClient, topic: str, **fields: Any) -> list[list[bytes]]:  # noqa: ANN401
    """The bodies of all pages, one after the other by their scroll ids."""
    answer = await found(client, topic, **fields)
    shown = [bodies(answer)]
    while answer.scroll_id:
        answer = await found(client, topic, **fields, scroll_id=answer.scroll_id)
        shown.append(bodies(answer))
    return shown


# --- by id and key


async def test_a_message_is_found_by_its_id_with_all_that_it_has(client: RawClient, topic: str) -> None:
    sent = await client.send(topic, b"wanted", tag="greeting", keys=["k"])
    await client.send(topic, b"other")
    answer = await found(client, topic, message_id=sent.entries[0].message_id)
    (message,) = answer.messages
    assert (message.body, message.topic.name) == (b"wanted", topic)
    properties = message.system_properties
    assert (properties.tag, list(properties.keys), properties.queue_offset) == ("greeting", ["k"], 0)
    assert answer.scroll_id == ""


async def test_a_key_is_not_an_id(client: RawClient, topic: str) -> None:
    sent = await client.send(topic, b"with the id")
    message_id = sent.entries[0].message_id
    await client.send(topic, b"with the key", keys=[message_id])
    assert bodies(await found(client, topic, message_id=message_id)) == [b"with the id"]
    assert bodies(await found(client, topic, message_key=message_id)) == [b"with the key"]


async def test_what_a_key_finds_comes_newest_first_page_by_page(client: RawClient, topic: str) -> None:
    for number in range(5):
        await client.send(topic, b"%d" % number, keys=["k"])
    assert await pages(client, topic, message_key="k", max_message_nums=2) == [[b"4", b"3"], [b"2", b"1"], [b"0"]]
    assert bodies(await found(client, topic, message_key="k", page_num=2, page_size=2)) == [b"2", b"1"]
    assert bodies(await found(client, topic, message_key="k", page_num=9, page_size=2)) == []
    assert bodies(await found(client, topic, message_key="nobody")) == []


async def test_what_a_key_finds_is_of_the_time_and_the_queue_that_were_asked_for(timed: RawClient) -> None:
    topic = await timed.create_topic(f"times-{timed.client_id}", queues=2)
    await timed.send(topic, b"old", keys=["k"])
    middle_ms = await timed.advance(10)
    await timed.advance(10)
    await timed.send(topic, b"new", keys=["k"])
    assert bodies(await found(timed, topic, message_key="k", end_timestamp=moment(middle_ms))) == [b"old"]
    assert bodies(await found(timed, topic, message_key="k", begin_timestamp=moment(middle_ms))) == [b"new"]
    by_queue = [bodies(await found(timed, topic, message_key="k", queue_id=number)) for number in (0, 1)]
    assert sorted(by_queue) == [[b"new"], [b"old"]]


# --- of a time


async def test_without_a_key_all_messages_come_queue_by_queue(client: RawClient, new_topic: str) -> None:
    await client.create_topic(new_topic, queues=3)
    for number in range(6):
        await client.send(new_topic, b"%d" % number)
    (everything,) = await pages(client, new_topic)
    assert sorted(everything) == [b"%d" % number for number in range(6)]
    by_queue = [bodies(await found(client, new_topic, queue_id=queue_id)) for queue_id in range(3)]
    assert [body for queue in by_queue for body in queue] == everything
    assert all(len(queue) == 2 for queue in by_queue)
    shown = await pages(client, new_topic, page_size=4)
    assert shown == [everything[:4], everything[4:]]
    assert bodies(await found(client, new_topic, page_num=2, page_size=4)) == everything[4:]


async def test_the_messages_of_a_time_are_those_that_were_stored_in_it(timed: RawClient) -> None:
    topic = await timed.create_topic(f"span-{timed.client_id}")
    moments = []
    for body in (b"first", b"second", b"third"):
        moments.append(await timed.advance(10))
        await timed.advance(10)
        await timed.send(topic, body)
    begin, end = moment(moments[1]), moment(moments[2])
    assert bodies(await found(timed, topic, begin_timestamp=begin, end_timestamp=end)) == [b"second"]
    assert bodies(await found(timed, topic, begin_timestamp=begin)) == [b"second", b"third"]
    assert bodies(await found(timed, topic, end_timestamp=end)) == [b"first", b"second"]
    assert bodies(await found(timed, topic, begin_timestamp=end, end_timestamp=begin)) == []


@pytest.mark.parametrize("by", [{}, {"message_key": "k"}])
async def test_a_time_has_both_of_its_ends(client: RawClient, topic: str, by: dict[str, str]) -> None:
    await client.send(topic, b"one", keys=["k"])
    (message,) = (await found(client, topic)).messages
    stored_ms = message.system_properties.store_timestamp.ToMilliseconds()
    for begin_ms, end_ms, expected in (
        (stored_ms, stored_ms, [b"one"]),
        (stored_ms + 1, stored_ms + 1, []),
        (stored_ms - 1, stored_ms - 1, []),
    ):
        span = {"begin_timestamp": moment(begin_ms), "end_timestamp": moment(end_ms)}
        assert bodies(await found(client, topic, **span, **by)) == expected


@pytest.mark.parametrize("seconds", [2**63 - 1, -(2**63)])
async def test_any_two_numbers_are_a_time(client: RawClient, topic: str, seconds: int) -> None:
    await client.send(topic, b"one")
    everything = [b"one"] if seconds < 0 else []
    assert bodies(await found(client, topic, begin_timestamp={"seconds": seconds})) == everything
    assert bodies(await found(client, topic, end_timestamp={"seconds": seconds})) == ([] if seconds < 0 else [b"one"])


async def test_a_subscription_is_an_expression_of_tags(client: RawClient, topic: str) -> None:
    for tag in ("a", "b", "c"):
        await client.send(topic, tag.encode(), tag=tag)
    assert bodies(await found(client, topic, subscription="a || c")) == [b"a", b"c"]
    assert await pages(client, topic, subscription="a || c", page_size=1) == [[b"a"], [b"c"]]
    assert await refused(client, "QueryMessage", topic={"name": topic}, subscription="||") == (
        "ILLEGAL_FILTER_EXPRESSION"
    )


async def test_dead_letters_are_found_as_others(client: RawClient, topic: str, group: str) -> None:
    await client.create_group(group)
    assert bodies(await found(client, f"%DLQ%{group}")) == []


# --- bounds


async def test_a_page_has_no_more_messages_than_it_may(client: RawClient, topic: str) -> None:
    many = [b"%d" % number for number in range(message_pages.PAGE_MAX + 1)]
    await client.send(topic, *many, keys=["k"])
    assert await pages(client, topic, page_size=10_000) == [many[:-1], many[-1:]]
    assert await pages(client, topic, max_message_nums=10_000) == [many[:-1], many[-1:]]


async def test_a_page_has_no_more_bytes_than_it_may_but_one_message_always(client: RawClient, topic: str) -> None:
    large = [bytes([letter]) * (message_pages.PAGE_BYTES_MAX // 2 + 1) for letter in b"ab"]
    longest = b"x" * (4 << 20)
    for body in (*large, longest):
        await client.send(topic, body, keys=["k"])
    assert [list(map(len, page)) for page in await pages(client, topic)] == [[len(body)] for body in (*large, longest)]
    by_key = await pages(client, topic, message_key="k")
    assert [list(map(len, page)) for page in by_key] == [[len(body)] for body in (longest, *large)]


async def test_a_walk_that_has_gone_far_enough_says_where_to_go_on(brief: RawClient, new_topic: str) -> None:
    await brief.create_topic(new_topic, queues=8)
    for number in range(8):
        await brief.send(new_topic, b"%d" % number)
    shown = await pages(brief, new_topic)
    assert len(shown) > 1
    assert sorted(body for page in shown for body in page) == [b"%d" % number for number in range(8)]
    far = {"page_num": 9, "page_size": 1}
    assert await refused(brief, "QueryMessage", topic={"name": new_topic}, **far) == "BAD_REQUEST"


@pytest.mark.parametrize(
    "fields",
    [
        {"page_num": 0},
        {"page_num": -1},
        {"page_num": 1_000_000},
        {"page_num": 2**31 - 1, "page_size": 2**31 - 1},
        {"page_size": -1},
        {"max_message_nums": -5},
        {"page_num": 1, "scroll_id": "x"},
        {"scroll_id": "x"},
        {"scroll_id": "//"},
        {"scroll_id": "nobody/0/0"},
        {"scroll_id": "\u0663"},
        {"message_key": "k", "scroll_id": "-1"},
        {"message_key": "k", "scroll_id": "9" * 40},
        {"message_key": ""},
        {"message_id": ""},
        {"broker_name": "nobody"},
        {"queue_id": 1},
        {"queue_id": -1},
    ],
)
async def test_what_can_not_be_asked_for_is_refused(client: RawClient, topic: str, fields: dict[str, Any]) -> None:
    assert await refused(client, "QueryMessage", topic={"name": topic}, **fields) == "BAD_REQUEST"


async def test_a_scroll_id_that_names_no_offset_of_a_queue_is_refused(
    client: RawClient, server: Embedded, topic: str
) -> None:
    await client.send(topic, b"one")
    broker = server.settings.broker_name
    for text in ("", "-1", "1e3", "9" * 30, " 1"):
        scroll = f"{broker}/0/{text}"
        assert await refused(client, "QueryMessage", topic={"name": topic}, scroll_id=scroll) == "BAD_REQUEST"
    assert bodies(await found(client, topic, scroll_id=f"{broker}/0/{2**62}")) == []


async def test_messages_of_a_lite_topic_are_found_in_order(client: RawClient, topic: str) -> None:
    lite = await make_lite_topic(client)
    await client.send(lite, b"1", b"2", lite_topic="a")
    await client.send(lite, b"3", lite_topic="b")
    page = await found(client, lite, lite_topic="a")
    assert bodies(page) == [b"1", b"2"]
    assert {each.topic.name for each in page.messages} == {lite}
    assert bodies(await found(client, lite, lite_topic="c")) == []
    assert await refused(client, "QueryMessage", topic={"name": lite}, lite_topic="a b") == "ILLEGAL_LITE_TOPIC"
    assert await refused(client, "QueryMessage", topic={"name": topic}, lite_topic="l") == "BAD_REQUEST"


# --- sending


async def test_a_message_is_sent_as_a_producer_would(client: RawClient, topic: str, group: str) -> None:
    answer = await told(
        client,
        "AdminSendMessage",
        topic={"name": topic},
        tag="greeting",
        key="k",
        body=b"hello",
        user_properties={"colour": "red"},
        system_properties={"keys": ["other"]},
        ext_info={"ignored": "yes"},
    )
    await client.create_group(group)
    (message,) = (await client.receive(topic, group)).messages
    properties = message.system_properties
    assert (message.body, dict(message.user_properties)) == (b"hello", {"colour": "red"})
    assert (properties.tag, list(properties.keys)) == ("greeting", ["other", "k"])
    assert properties.message_id == answer.message_id != ""
    assert properties.born_host.startswith("127.0.0.1:")


async def test_a_message_keeps_the_id_that_it_was_given(client: RawClient, topic: str) -> None:
    answer = await told(
        client, "AdminSendMessage", topic={"name": topic}, body=b"x", system_properties={"message_id": "mine"}
    )
    assert answer.message_id == "mine"
    assert bodies(await found(client, topic, message_id="mine")) == [b"x"]


async def test_each_message_gets_an_id_of_its_own(client: RawClient, topic: str) -> None:
    ids = {(await told(client, "AdminSendMessage", topic={"name": topic}, body=b"x")).message_id for _ in range(3)}
    assert len(ids) == 3


async def test_a_message_of_a_message_group_goes_to_a_fifo_topic(client: RawClient, new_topic: str) -> None:
    await client.create_topic(new_topic, kind=pb.FIFO)
    fields = {"topic": {"name": new_topic}, "body": b"x"}
    await told(client, "AdminSendMessage", **fields, system_properties={"message_group": "g"})
    assert await refused(client, "AdminSendMessage", **fields) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"


@pytest.mark.parametrize("resolution", [pb.COMMIT, pb.ROLLBACK])
@pytest.mark.parametrize("kind", ["transaction", "mixed"])
async def test_a_half_message_is_sent_and_its_transaction_found_and_ended(
    client: RawClient, new_topic: str, group: str, kind: str, resolution: "pb.TransactionResolution"
) -> None:
    if kind == "mixed":
        await client.admin("CreateTopic", topic={"name": new_topic, "mixed": True})
    else:
        await client.create_topic(new_topic, kind=pb.TRANSACTION)
    await client.create_group(group)
    fields = {"topic": {"name": new_topic}, "system_properties": {"message_type": pb.TRANSACTION}}
    ids = [(await told(client, "AdminSendMessage", **fields, body=body)).message_id for body in (b"other", b"paid")]
    assert (await client.receive(new_topic, group)).bodies == []
    (transaction,) = (await client.admin("ListTransactions", topic=new_topic, message_id=ids[1])).transactions
    assert transaction.message_id == ids[1]
    ending = admin_pb2.ResolveTransactionRequest(transaction_id=transaction.transaction_id, resolution=resolution)
    assert code(await client.admin("ResolveTransaction", ending)) == "OK"
    committed = [b"paid"] if resolution == pb.COMMIT else []
    assert (await client.receive(new_topic, group)).bodies == committed
    assert bodies(await found(client, new_topic, message_id=ids[1])) == committed


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "MESSAGE_BODY_EMPTY"),
        ({"body": b"x" * ((4 << 20) + 1)}, "MESSAGE_BODY_TOO_LARGE"),
        ({"body": b"x", "tag": "a|b"}, "ILLEGAL_MESSAGE_TAG"),
        ({"body": b"x", "key": " "}, "ILLEGAL_MESSAGE_KEY"),
        ({"body": b"x", "tag": "a", "system_properties": {"tag": "b"}}, "BAD_REQUEST"),
        ({"body": b"x", "user_properties": {"KEYS": "k"}}, "ILLEGAL_MESSAGE_PROPERTY_KEY"),
        (
            {"body": b"x", "user_properties": {f"p{number}": "v" for number in range(129)}},
            "MESSAGE_PROPERTIES_TOO_LARGE",
        ),
        ({"body": b"x", "system_properties": {"message_id": "a\nb"}}, "ILLEGAL_MESSAGE_ID"),
        (
            {"body": b"x", "system_properties": {"message_type": pb.TRANSACTION}},
            "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE",
        ),
    ],
)
async def test_what_no_producer_could_send_is_refused(
    client: RawClient, topic: str, fields: dict[str, Any], expected: str
) -> None:
    assert await refused(client, "AdminSendMessage", topic={"name": topic}, **fields) == expected
    assert bodies(await found(client, topic)) == []


async def test_topics_of_groups_are_written_by_brokers_alone(client: RawClient, group: str) -> None:
    await client.create_group(group)
    derived = {"name": f"%DLQ%{group}"}
    assert await refused(client, "AdminSendMessage", topic=derived, body=b"x") == "ILLEGAL_TOPIC"


async def test_a_topic_is_made_by_its_first_message_as_by_a_producers(
    client: RawClient, strict: RawClient, new_topic: str
) -> None:
    fields = {"topic": {"name": new_topic}, "body": b"x"}
    assert code(await told(client, "AdminSendMessage", **fields)) == "OK"
    assert await refused(strict, "AdminSendMessage", **fields) == "TOPIC_NOT_FOUND"
