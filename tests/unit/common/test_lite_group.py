"""The text form of a lite group's settings, which is what a registry keeps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.catalog.lite_group import LITE_QUOTA_MAX, LiteGroup, find_rebinding_problem, parse_lite_group
from ternmq_common.errors import MessagingError
from ternmq_protos.v2 import definition_pb2 as pb

NAMES = st.text("abcXYZ019_-%|", min_size=1, max_size=127)
GROUPS = st.builds(
    LiteGroup, NAMES, st.booleans(), st.integers(1, LITE_QUOTA_MAX), st.booleans(), st.booleans(), st.booleans()
)


@given(group=GROUPS)
def test_what_is_written_is_read_back(group: LiteGroup) -> None:
    assert parse_lite_group(str(group)) == group


def test_what_is_as_by_default_is_not_written() -> None:
    assert str(LiteGroup("chats")) == "chats"
    everything = LiteGroup("chats", True, 7, True, True, True)
    assert str(everything) == "chats,model=exclusive,quota=7,wildcard,reset=taken+unsubscribed"
    assert parse_lite_group("") is None


@pytest.mark.parametrize(
    "text",
    [
        ",wildcard",
        "chats,model=own",
        "chats,quota=0",
        "chats,quota=100001",
        "chats,quota=1234567890",
        "chats,quota=seven",
        "chats,reset=now",
        "chats,wildcard=yes",
        "chats,model",
        "chats,size=3",
    ],
)
def test_a_text_that_is_none_is_a_bad_request(text: str) -> None:
    with pytest.raises(MessagingError, match="lite group ") as refused:
        parse_lite_group(text)
    assert refused.value.code == pb.BAD_REQUEST


def test_a_group_stays_bound_as_it_was_made() -> None:
    bound = LiteGroup("chats")
    assert not find_rebinding_problem("g", bound, "chats")
    assert not find_rebinding_problem("g", None, None)
    for before, bind in ((bound, None), (bound, "games"), (bound, ""), (None, "chats"), (None, "")):
        assert "and that can't change; " in find_rebinding_problem("g", before, bind)
