"""Names of topics and groups (`overview.md, Names`)."""

import string
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.errors import MessagingError
from ternmq_common.names import SYSTEM_TOPICS, check_group_name, check_topic_name
from ternmq_protos.v2 import definition_pb2 as pb

LEGAL = string.ascii_letters + string.digits + "_-%|"
KINDS = pytest.mark.parametrize(
    ("check", "longest", "code"),
    [(check_topic_name, 127, pb.ILLEGAL_TOPIC), (check_group_name, 120, pb.ILLEGAL_CONSUMER_GROUP)],
    ids=["topic", "group"],
)
Check = Callable[[str], str]


def is_refused(check: Check, name: str, code: "pb.Code") -> bool:
    """Whether that name is refused, with that code and no other."""
    try:
        return check(name) != name
    except MessagingError as refusal:
        return refusal.code == code


@KINDS
@given(name=st.text(st.sampled_from(LEGAL), min_size=1, max_size=140))
def test_legal_characters_make_a_name_up_to_its_length(check: Check, longest: int, code: "pb.Code", name: str) -> None:
    reserved = name in SYSTEM_TOPICS or name.startswith(("rmq_sys_", "CID_RMQ_SYS_"))
    if not reserved:
        assert is_refused(check, name, code) == (len(name) > longest)


@KINDS
@given(name=st.text(max_size=10), character=st.characters(exclude_characters=LEGAL), place=st.integers(0, 10))
def test_any_other_character_makes_none(
    check: Check, longest: int, code: "pb.Code", name: str, character: str, place: int
) -> None:
    assert is_refused(check, name[:place] + character + name[place:], code)


@KINDS
def test_a_name_has_a_character_at_least(check: Check, longest: int, code: "pb.Code") -> None:
    assert is_refused(check, "", code)
    assert not is_refused(check, "x", code)
    assert not is_refused(check, "x" * longest, code)


@pytest.mark.parametrize("name", sorted(SYSTEM_TOPICS | {"rmq_sys_", "rmq_sys_x"}))
def test_topics_of_the_broker_are_not_for_clients(name: str) -> None:
    assert is_refused(check_topic_name, name, pb.ILLEGAL_TOPIC)
    assert not is_refused(check_group_name, name, pb.ILLEGAL_CONSUMER_GROUP)


def test_groups_of_the_broker_are_not_for_clients() -> None:
    assert is_refused(check_group_name, "CID_RMQ_SYS_x", pb.ILLEGAL_CONSUMER_GROUP)
    assert not is_refused(check_topic_name, "CID_RMQ_SYS_x", pb.ILLEGAL_TOPIC)
