"""What members of groups subscribe to, and when they contradict each other (`consuming.md, Subscriptions`)."""

from collections.abc import Callable

import pytest

from ternmq_proxy.processors.subscriptions import Subscriptions, contradictions


def of_two() -> Subscriptions:
    """Two members of one group that filter one of two topics differently."""
    found = Subscriptions()
    found.replaced("g", "a", {"orders": "x", "payments": "*"})
    found.replaced("g", "b", {"orders": "y", "payments": "*"})
    return found


def test_a_contradiction_names_the_topic_the_filters_and_the_members() -> None:
    [sentence] = contradictions(of_two().of_group("g"))
    assert sentence.startswith("topic orders is filtered differently")
    assert "'x' by a; 'y' by b" in sentence


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.replaced("g", "b", {"orders": "x", "payments": "*"}),
        lambda found: found.replaced("g", "b", {"payments": "*"}),
        lambda found: found.used("g", "b", "orders", "x"),
        lambda found: found.forget("b"),
    ],
    ids=["they agree", "one gives the topic up", "one receives otherwise", "one leaves"],
)
def test_a_contradiction_ends(change: Callable[[Subscriptions], None]) -> None:
    found = of_two()
    change(found)
    assert contradictions(found.of_group("g")) == []
    assert found.agree("g", "orders")


def test_different_topics_and_different_groups_do_not_contradict_each_other() -> None:
    found = Subscriptions()
    found.used("g", "a", "orders", "x")
    found.used("g", "b", "payments", "y")
    found.used("neighbour", "b", "orders", "z")
    assert contradictions(found.of_group("g")) == contradictions(found.of_group("neighbour")) == []


def test_new_settings_replace_what_a_member_read_before() -> None:
    found = of_two()
    found.replaced("g", "a", {"payments": "z"})
    assert found.of("g", "a") == {"payments": "z"}
