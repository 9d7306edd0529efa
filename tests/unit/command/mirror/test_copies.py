"""What a copy keeps of its message, and how copies are put together into sends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_command.mirror.copies import (
    BATCH_MESSAGES,
    Copy,
    LoopUnclear,
    Ways,
    copy_message,
    split_batches,
    without_controls,
)
from ternmq_common.shard.mirror_origin import MIRROR_PROPERTY, Origin, encode_origin, parse_origin
from ternmq_common.shard.property_text import read_properties, write_properties
from ternmq_rpc.remoting.message_ids import Host
from ternmq_rpc.remoting.message_records import BatchPart, MessageRecord

WAYS = Ways(source="east", target="west")
HOST = Host(bytes((10, 0, 0, 1)), 5000)


def record(properties: dict[str, str], *, topic: str = "orders", flags: int = 0, times: int = 0) -> MessageRecord:
    return MessageRecord(
        topic, b"body", write_properties(properties), 2, 17, 5, 9, flags, 1_000, HOST, 2_000, HOST, times
    )


def copied(properties: dict[str, str], *, delays: bool = False) -> dict[str, str]:
    copy = copy_message(record(properties), "broker-a", WAYS, delays=delays)
    assert copy is not None
    return read_properties(copy.part.properties)


def test_the_users_properties_stay_and_those_of_servers_go() -> None:
    users = {"UNIQ_KEY": "ID", "TAGS": "t", "KEYS": "k", "__SHARDINGKEY": "s", "city": "Köln"}
    servers = {"DELAY": "3", "TRAN_MSG": "true", "PGROUP": "p", "REAL_TOPIC": "orders", "MSG_REGION": "r"}
    kept = copied(users | servers)
    origin = parse_origin(kept.pop(MIRROR_PROPERTY))
    assert kept == users
    assert origin == Origin(2_000, 1_000, "10.0.0.1:5000", 2, 17, "broker-a", "orders", ("east",))


def test_a_retry_names_its_topic() -> None:
    for said, expected in (({}, "orders"), ({"RETRY_TOPIC": "others"}, "others")):
        copy = copy_message(record(said, topic="%RETRY%b_orders", times=2), "a", WAYS, retried_topic="orders")
        assert copy is not None
        assert (read_properties(copy.part.properties)["RETRY_TOPIC"], copy.reconsume_times) == (expected, 2)


def test_a_topic_of_delayed_messages_gets_their_time_or_one_that_has_passed() -> None:
    assert copied({"TIMER_DELIVER_MS": "1500"}, delays=True)["TIMER_DELIVER_MS"] == "1500"
    for wrong in ("2001", "x", "-1", "9" * 30, ""):
        assert copied({"TIMER_DELIVER_MS": wrong}, delays=True)["TIMER_DELIVER_MS"] == "2000"


def test_a_message_goes_through_clusters_and_never_back() -> None:
    before = encode_origin(Origin(1, 1, "", 0, 0, "b", "orders", ("north", "south")))
    origin = parse_origin(copied({MIRROR_PROPERTY: before})[MIRROR_PROPERTY])
    assert origin is not None
    assert origin.clusters == ("east", "north", "south")
    came = encode_origin(Origin(1, 1, "", 0, 0, "b", "orders", ("north", "west")))
    assert copy_message(record({MIRROR_PROPERTY: came}), "broker-a", WAYS) is None
    with pytest.raises(LoopUnclear):
        copy_message(record({MIRROR_PROPERTY: before}), "broker-a", Ways(source="east", target=""))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1/2/h/0/5/b/t",
        "x/2/h/0/5/b/t/c",
        "1/2/h/-1/5/b/t/c",
        "1/2/h/0/5//t/c",
        "1/2/h/0/5/b/t/;",
        "1/2/h/0/99999999999999999999/b/t/c",
    ],
)
def test_what_no_mirror_wrote_is_no_origin(text: str) -> None:
    assert parse_origin(text) is None


NAMES = st.text(st.characters(blacklist_categories=["Cc", "Cs"], blacklist_characters="/;"), min_size=1, max_size=20)
NUMBERS = st.integers(0, 2**63 - 1)


@given(
    origin=st.builds(
        Origin,
        NUMBERS,
        NUMBERS,
        st.sampled_from(["", "10.0.0.1:5", "[::1]:80"]),
        NUMBERS,
        NUMBERS,
        NAMES,
        NAMES,
        st.lists(NAMES, min_size=1, max_size=8).map(tuple),
    )
)
def test_an_origin_is_read_as_it_was_written(origin: Origin) -> None:
    assert parse_origin(encode_origin(origin)) == origin


@given(text=st.text(max_size=60) | st.text("0123456789/;-ab", max_size=60))
def test_any_text_is_an_origin_or_none(text: str) -> None:
    origin = parse_origin(text)
    assert origin is None or parse_origin(encode_origin(origin)) == origin


def copy(offset: int, *, flag: int = 0, times: int = 0, size: int = 10) -> Copy:
    return Copy(offset, 1, BatchPart(0, bytes(size), ""), flag, times)


def offsets(copies: list[Copy], *, alone: bool = False) -> list[list[int]]:
    return [[each.queue_offset for each in batch] for batch in split_batches(copies, alone=alone)]


def test_a_batch_has_messages_that_follow_each_other() -> None:
    assert offsets([copy(1), copy(2), copy(4), copy(5, flag=1), copy(6), copy(7, times=1), copy(8)]) == [
        [1, 2],
        [4],
        [5],
        [6],
        [7],
        [8],
    ]
    assert offsets([copy(1), copy(2)], alone=True) == [[1], [2]]
    assert [len(each) for each in offsets([copy(number) for number in range(300)])] == [BATCH_MESSAGES, 44]
    assert offsets([copy(number, size=600_000) for number in range(4)]) == [[0, 1], [2, 3]]
    assert offsets([]) == []


def test_control_characters_become_spaces() -> None:
    made = copy(1)._replace(part=BatchPart(0, b"", write_properties({"a\tb": "c\nd"})))
    assert read_properties(without_controls(made).part.properties) == {"a b": "c d"}
