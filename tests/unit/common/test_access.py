"""Access control's model: texts of actions and resources, and what is decided of them."""

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.access.actions import ALL_ACTIONS, Action
from ternmq_common.access.decision import Question, asked_of_cluster, asked_of_group, asked_of_topic, decide
from ternmq_common.access.resources import Resource, ResourceKind
from ternmq_common.access.users import Policy, Secret, User, parsed_ranges, problem_of_secret, problem_of_user_name

HERE = ip_address("10.1.2.3")
NAMES = st.from_regex(r"[A-Za-z0-9_\-%|]{1,20}", fullmatch=True)
RESOURCES = st.builds(
    Resource,
    st.sampled_from([ResourceKind.TOPIC, ResourceKind.GROUP, ResourceKind.CLUSTER]),
    NAMES,
    st.booleans(),
) | st.just(Resource(ResourceKind.ANY, "", True))
ACTIONS = st.sets(st.sampled_from(list(Action)), min_size=1).map(lambda some: Action(sum(one.value for one in some)))
POLICIES = st.lists(st.builds(Policy, RESOURCES, ACTIONS, st.booleans()), max_size=6).map(tuple)


def allowed(question: Question, *policies: str, is_super: bool = False, source: str | None = "10.1.2.3") -> bool:
    """Policies as `allow RESOURCE ACTIONS [RANGES]`."""
    made = []
    for text in policies:
        word, resource, actions, *ranges = text.split()
        spans = parsed_ranges(" ".join(ranges))
        made.append(Policy(Resource.parse(resource), Action.parse(actions), word == "allow", spans))
    user = User(name="alice", is_super=is_super, policies=tuple(made))
    return decide(user, question, None if source is None else ip_address(source)).is_allowed


@given(RESOURCES)
def test_a_resource_is_read_as_it_is_written(resource: Resource) -> None:
    assert Resource.parse(str(resource)) == resource


@given(ACTIONS)
def test_actions_are_read_as_they_are_written(actions: Action) -> None:
    assert Action.parse(str(actions)) == actions


@pytest.mark.parametrize(
    "text",
    ["", "Topic", "Topic:", "Queue:a", "topic a", "*:a", "Topic:a*b", "Topic:**", "Topic:a b", "Topic:a\n", "T" * 400],
)
def test_what_is_no_resource_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"resource"):
        Resource.parse(text)


def test_a_word_that_is_no_action_is_named() -> None:
    with pytest.raises(ValueError, match=r"'Publish' is no action; known are Pub, Sub"):
        Action.parse("Sub,Publish")
    assert Action.parse("all") == ALL_ACTIONS


def test_nothing_is_allowed_by_default() -> None:
    assert not allowed(asked_of_topic("orders", Action.PUB))


def test_a_name_a_prefix_and_everything() -> None:
    asked = asked_of_topic("orders-eu", Action.PUB)
    assert allowed(asked, "allow Topic:orders-eu Pub")
    assert allowed(asked, "allow Topic:orders-* Pub")
    assert allowed(asked, "allow Topic:* Pub")
    assert allowed(asked, "allow * All")
    assert not allowed(asked, "allow Topic:orders Pub")
    assert not allowed(asked, "allow Group:* Pub")
    assert not allowed(asked, "allow Topic:* Sub")


def test_one_of_several_actions_suffices() -> None:
    asked = asked_of_topic("orders", Action.PUB | Action.SUB)
    assert allowed(asked, "allow Topic:orders Sub")


def test_deny_wins_however_broad_it_is() -> None:
    asked = asked_of_topic("orders", Action.PUB)
    assert not allowed(asked, "allow Topic:orders Pub", "deny * Pub")
    assert not allowed(asked, "deny Topic:orders Pub", "allow * All")
    assert allowed(asked, "allow Topic:orders Pub", "deny * Sub")


def test_super_users_are_not_asked() -> None:
    assert allowed(asked_of_cluster("users/bob", Action(0)), is_super=True)
    assert allowed(asked_of_topic("orders", Action.PUB), "deny * All", is_super=True)


def test_what_only_super_users_may_nobody_else_may() -> None:
    assert not allowed(asked_of_cluster("users/bob", Action(0)), "allow * All")


def test_ranges_of_addresses() -> None:
    asked = asked_of_group("billing", Action.SUB)
    assert allowed(asked, "allow Group:billing Sub 10.0.0.0/8")
    assert not allowed(asked, "allow Group:billing Sub 192.168.0.0/16")
    assert not allowed(asked, "allow Group:billing Sub ::/0")
    assert allowed(asked, "allow Group:billing Sub", "deny Group:billing Sub 192.168.0.0/16")


def test_who_has_no_address_gets_nothing_of_ranges_but_what_they_deny() -> None:
    asked = asked_of_group("billing", Action.SUB)
    assert not allowed(asked, "allow Group:billing Sub 0.0.0.0/0", source=None)
    assert not allowed(asked, "allow Group:billing Sub", "deny Group:billing Sub 10.0.0.0/8", source=None)


def test_a_groups_own_topics_belong_to_the_group() -> None:
    asked = asked_of_topic("%DLQ%billing", Action.SUB)
    assert allowed(asked, "allow Group:billing Sub")
    assert not allowed(asked, "allow Topic:* Sub")


@given(POLICIES, RESOURCES.filter(lambda one: one.kind is not ResourceKind.ANY), ACTIONS)
def test_a_policy_that_denies_never_gives_a_right(
    policies: tuple[Policy, ...], resource: Resource, actions: Action
) -> None:
    question = Question(resource.kind, resource.name, actions)
    denied = Policy(resource, actions, allows=False)
    assert not decide(User(name="a", policies=(*policies, denied)), question, HERE).is_allowed
    with_less = tuple(policy for policy in policies if policy.allows)
    if decide(User(name="a", policies=policies), question, HERE).is_allowed:
        assert decide(User(name="a", policies=with_less), question, HERE).is_allowed


@pytest.mark.parametrize("name", ["", "a/b", "a,b", "a b", "a=b", "ä", "x" * 65, "a\n"])
def test_names_that_break_a_header_are_refused(name: str) -> None:
    assert problem_of_user_name(name)
    assert not problem_of_user_name("alice@example.com")


def test_a_secret_is_in_no_text() -> None:
    assert problem_of_secret("short")
    assert "tiny" not in str(problem_of_secret("tiny"))
    assert not problem_of_secret("a-long-enough-one")
    user = User(name="a", secrets=(Secret("a-long-enough-one", created_ms=1),))
    assert "enough" not in repr(user)


@pytest.mark.parametrize("text", ["10.0.0.1/8", "300.1.1.1", "host", ",".join(["::1"] * 33)])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"range"):
        parsed_ranges(text)
