"""What members of groups subscribe to, and when they contradict each other (`consuming.md, Subscriptions`)."""

from collections.abc import Callable

import pytest

from ternmq_proxy.processors.subscriptions import GroupSubscriptions, find_contradictions


def of_two() -> GroupSubscriptions:
    """Two members of one group that filter one of two topics differently."""
    found = GroupSubscriptions()
    found.replace_filters("g", "a", {"orders": "x", "payments": "*"})
    found.replace_filters("g", "b", {"orders": "y", "payments": "*"})
    return found


def test_a_contradiction_names_the_topic_the_filters_and_the_members() -> None:
    [sentence] = find_contradictions(of_two().group_filters("g"))
    assert sentence.startswith("topic orders is filtered differently")
    assert "'x' by a; 'y' by b" in sentence


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.replace_filters("g", "b", {"orders": "x", "payments": "*"}),
        lambda found: found.replace_filters("g", "b", {"payments": "*"}),
        lambda found: found.note_filter("g", "b", "orders", "x"),
        lambda found: found.forget_client("b"),
    ],
    ids=["they agree", "one gives the topic up", "one receives otherwise", "one leaves"],
)
def test_a_contradiction_ends(change: Callable[[GroupSubscriptions], None]) -> None:
    found = of_two()
    change(found)
    assert find_contradictions(found.group_filters("g")) == []
    assert found.filters_agree("g", "orders")


def test_different_topics_and_different_groups_do_not_contradict_each_other() -> None:
    found = GroupSubscriptions()
    found.note_filter("g", "a", "orders", "x")
    found.note_filter("g", "b", "payments", "y")
    found.note_filter("neighbour", "b", "orders", "z")
    assert find_contradictions(found.group_filters("g")) == find_contradictions(found.group_filters("neighbour")) == []


def test_new_settings_replace_what_a_member_read_before() -> None:
    found = of_two()
    found.replace_filters("g", "a", {"payments": "z"})
    assert found.member_filters("g", "a") == {"payments": "z"}
