"""Tag filters against what a reader of their rules would write down (`consuming.md, Tag filters`)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.errors import MessagingError
from ternmq_common.filters.tag_filter import TagFilter, find_tag_problem
from ternmq_common.filters.tag_hash import tag_hash
from ternmq_common.limits import TAG_FILTER_BYTES_MAX, TAGS_MAX
from ternmq_protos.v2 import definition_pb2 as pb

TAGS = st.text(st.characters(codec="utf-8", exclude_characters="|"), min_size=1, max_size=12).filter(
    lambda tag: tag == tag.strip() and tag != "*" and find_tag_problem(tag) is None
)
BLANKS = st.sampled_from(["", " ", "\t"])


def passes(tags: TagFilter, tag: str) -> bool:
    return tags.passes_message(pb.SystemProperties(tag=tag).SerializeToString(), b"")


@given(wanted=st.lists(TAGS, min_size=1, max_size=5), others=st.lists(TAGS, max_size=5), blank=BLANKS)
def test_exactly_the_tags_that_are_named_pass(wanted: list[str], others: list[str], blank: str) -> None:
    tags = TagFilter.parse_expression(f"{blank}||{blank}".join([*wanted, blank]))
    for tag in (*wanted, *others, ""):
        assert passes(tags, tag) == (tag in wanted)
        # The hash may let more pass, never less.
        assert tags.may_pass(tag_hash(tag)) or not passes(tags, tag)


@given(tag=st.just("") | TAGS, blank=BLANKS)
@pytest.mark.parametrize("expression", ["", "*"])
def test_everything_passes_a_filter_for_all(expression: str, tag: str, blank: str) -> None:
    tags = TagFilter.parse_expression(blank + expression + blank)
    assert passes(tags, tag)
    assert tags.may_pass(tag_hash(tag))


@given(tag=TAGS)
def test_no_tag_has_the_hash_of_none(tag: str) -> None:
    assert tag_hash("") == 0
    assert 0 < tag_hash(tag) < 2**32


@given(pieces=st.lists(BLANKS, min_size=2, max_size=5))
def test_an_expression_that_names_no_tag_is_refused(pieces: list[str]) -> None:
    with pytest.raises(MessagingError) as refusal:
        TagFilter.parse_expression("||".join(pieces))
    assert refusal.value.code == pb.ILLEGAL_FILTER_EXPRESSION


@pytest.mark.parametrize(
    ("expression", "allowed"), [("x" * TAG_FILTER_BYTES_MAX, True), ("ä" * (TAG_FILTER_BYTES_MAX // 2) + "x", False)]
)
def test_an_expression_has_a_limit_in_bytes(expression: str, allowed: bool) -> None:
    if allowed:
        assert TagFilter.parse_expression(expression).may_pass(tag_hash(expression))
        return
    with pytest.raises(MessagingError) as refusal:
        TagFilter.parse_expression(expression)
    assert refusal.value.code == pb.ILLEGAL_FILTER_EXPRESSION


def test_an_expression_has_a_limit_in_tags() -> None:
    tags = [str(number) for number in range(TAGS_MAX)]
    taken = TagFilter.parse_expression("||".join(tags))
    assert taken.tags == frozenset(tags)
    with pytest.raises(MessagingError, match=f"it names {TAGS_MAX + 1} tags; {TAGS_MAX} are allowed") as refusal:
        TagFilter.parse_expression("||".join([*tags, "one more"]))
    assert refusal.value.code == pb.ILLEGAL_FILTER_EXPRESSION


@pytest.mark.parametrize("expression", ["a | b", "a || b | c", "|", "a |||b", "a || b\nc", "\x00"])
def test_an_expression_that_no_message_can_pass_is_refused(expression: str) -> None:
    with pytest.raises(MessagingError, match="no message can have it") as refusal:
        TagFilter.parse_expression(expression)
    assert refusal.value.code == pb.ILLEGAL_FILTER_EXPRESSION
    assert ("write a || b" in str(refusal.value)) == ("|" in expression.replace("||", ""))
