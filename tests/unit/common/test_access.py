"""Access control's model: texts of actions and resources, and what is decided of them."""

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.access.actions import ALL_ACTIONS, AccessAction
from ternmq_common.access.decision import (
    AccessRequest,
    decide_access,
    request_for_cluster,
    request_for_group,
    request_for_topic,
)
from ternmq_common.access.resources import AccessResource, ResourceKind
from ternmq_common.access.users import (
    AccessPolicy,
    AccessUser,
    UserSecret,
    find_secret_problem,
    find_user_name_problem,
    parse_ranges,
)

HERE = ip_address("10.1.2.3")
NAMES = st.from_regex(r"[A-Za-z0-9_\-%|]{1,20}", fullmatch=True)
RESOURCES = st.builds(
    AccessResource,
    st.sampled_from([ResourceKind.TOPIC, ResourceKind.GROUP, ResourceKind.CLUSTER]),
    NAMES,
    st.booleans(),
) | st.just(AccessResource(ResourceKind.ANY, "", True))
ACTIONS = st.sets(st.sampled_from(list(AccessAction)), min_size=1).map(
    lambda some: AccessAction(sum(one.value for one in some))
)
POLICIES = st.lists(st.builds(AccessPolicy, RESOURCES, ACTIONS, st.booleans()), max_size=6).map(tuple)


def allowed(question: AccessRequest, *policies: str, is_super: bool = False, source: str | None = "10.1.2.3") -> bool:
    """Policies as `allow RESOURCE ACTIONS [RANGES]`."""
    made = []
    for text in policies:
        word, resource, actions, *ranges = text.split()
        spans = parse_ranges(" ".join(ranges))
        made.append(
            AccessPolicy(
                AccessResource.parse_resource(resource), AccessAction.parse_actions(actions), word == "allow", spans
            )
        )
    user = AccessUser(name="alice", is_super=is_super, policies=tuple(made))
    return decide_access(user, question, None if source is None else ip_address(source)).is_allowed


@given(RESOURCES)
def test_a_resource_is_read_as_it_is_written(resource: AccessResource) -> None:
    assert AccessResource.parse_resource(str(resource)) == resource


@given(ACTIONS)
def test_actions_are_read_as_they_are_written(actions: AccessAction) -> None:
    assert AccessAction.parse_actions(str(actions)) == actions


@pytest.mark.parametrize(
    "text",
    ["", "Topic", "Topic:", "Queue:a", "topic a", "*:a", "Topic:a*b", "Topic:**", "Topic:a b", "Topic:a\n", "T" * 400],
)
def test_what_is_no_resource_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"resource"):
        AccessResource.parse_resource(text)


def test_a_word_that_is_no_action_is_named() -> None:
    with pytest.raises(ValueError, match=r"'Publish' is no action; known are Pub, Sub"):
        AccessAction.parse_actions("Sub,Publish")
    assert AccessAction.parse_actions("all") == ALL_ACTIONS


def test_nothing_is_allowed_by_default() -> None:
    assert not allowed(request_for_topic("orders", AccessAction.PUB))


def test_a_name_a_prefix_and_everything() -> None:
    asked = request_for_topic("orders-eu", AccessAction.PUB)
    assert allowed(asked, "allow Topic:orders-eu Pub")
    assert allowed(asked, "allow Topic:orders-* Pub")
    assert allowed(asked, "allow Topic:* Pub")
    assert allowed(asked, "allow * All")
    assert not allowed(asked, "allow Topic:orders Pub")
    assert not allowed(asked, "allow Group:* Pub")
    assert not allowed(asked, "allow Topic:* Sub")


def test_one_of_several_actions_suffices() -> None:
    asked = request_for_topic("orders", AccessAction.PUB | AccessAction.SUB)
    assert allowed(asked, "allow Topic:orders Sub")


def test_deny_wins_however_broad_it_is() -> None:
    asked = request_for_topic("orders", AccessAction.PUB)
    assert not allowed(asked, "allow Topic:orders Pub", "deny * Pub")
    assert not allowed(asked, "deny Topic:orders Pub", "allow * All")
    assert allowed(asked, "allow Topic:orders Pub", "deny * Sub")


def test_super_users_are_not_asked() -> None:
    assert allowed(request_for_cluster("users/bob", AccessAction(0)), is_super=True)
    assert allowed(request_for_topic("orders", AccessAction.PUB), "deny * All", is_super=True)


def test_what_only_super_users_may_nobody_else_may() -> None:
    assert not allowed(request_for_cluster("users/bob", AccessAction(0)), "allow * All")


def test_ranges_of_addresses() -> None:
    asked = request_for_group("billing", AccessAction.SUB)
    assert allowed(asked, "allow Group:billing Sub 10.0.0.0/8")
    assert not allowed(asked, "allow Group:billing Sub 192.168.0.0/16")
    assert not allowed(asked, "allow Group:billing Sub ::/0")
    assert allowed(asked, "allow Group:billing Sub", "deny Group:billing Sub 192.168.0.0/16")


def test_who_has_no_address_gets_nothing_of_ranges_but_what_they_deny() -> None:
    asked = request_for_group("billing", AccessAction.SUB)
    assert not allowed(asked, "allow Group:billing Sub 0.0.0.0/0", source=None)
    assert not allowed(asked, "allow Group:billing Sub", "deny Group:billing Sub 10.0.0.0/8", source=None)


def test_a_groups_own_topics_belong_to_the_group() -> None:
    asked = request_for_topic("%DLQ%billing", AccessAction.SUB)
    assert allowed(asked, "allow Group:billing Sub")
    assert not allowed(asked, "allow Topic:* Sub")


@given(POLICIES, RESOURCES.filter(lambda one: one.kind is not ResourceKind.ANY), ACTIONS)
def test_a_policy_that_denies_never_gives_a_right(
    policies: tuple[AccessPolicy, ...], resource: AccessResource, actions: AccessAction
) -> None:
    question = AccessRequest(resource.kind, resource.name, actions)
    denied = AccessPolicy(resource, actions, allows=False)
    assert not decide_access(AccessUser(name="a", policies=(*policies, denied)), question, HERE).is_allowed
    with_less = tuple(policy for policy in policies if policy.allows)
    if decide_access(AccessUser(name="a", policies=policies), question, HERE).is_allowed:
        assert decide_access(AccessUser(name="a", policies=with_less), question, HERE).is_allowed


@pytest.mark.parametrize("name", ["", "a/b", "a,b", "a b", "a=b", "ä", "x" * 65, "a\n"])
def test_names_that_break_a_header_are_refused(name: str) -> None:
    assert find_user_name_problem(name)
    assert not find_user_name_problem("alice@example.com")


def test_a_secret_is_in_no_text() -> None:
    assert find_secret_problem("short")
    assert "tiny" not in str(find_secret_problem("tiny"))
    assert not find_secret_problem("a-long-enough-one")
    user = AccessUser(name="a", secrets=(UserSecret("a-long-enough-one", created_ms=1),))
    assert "enough" not in repr(user)


@pytest.mark.parametrize("text", ["10.0.0.1/8", "300.1.1.1", "host", ",".join(["::1"] * 33)])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"range"):
        parse_ranges(text)
