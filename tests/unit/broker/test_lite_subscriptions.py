"""Subscriptions of lite topics against a plain model: who subscribes what, and that nothing ready is passed over."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ternmq_broker.delivery.due_times import DueTimes
from ternmq_broker.delivery.lite_subscriptions import LiteClientKey, LiteSubscriptions
from ternmq_common.catalog.lite_group import LiteGroup
from ternmq_common.errors import MessagingError
from ternmq_common.limits import LITE_QUOTA_SLACK, LITE_SUBSCRIPTIONS_MAX
from ternmq_common.names import lite_queue_topic
from ternmq_common.shard.model import LiteAction
from ternmq_protos.v2 import definition_pb2 as pb

PARENT = "chats"
TOPICS = [lite_queue_topic(PARENT, name) for name in "abcd"]
CLIENTS = ["x", "y", "z"]
RULES = {
    "shared": LiteGroup(PARENT),
    "exclusive": LiteGroup(PARENT, exclusive=True),
    "wildcard": LiteGroup(PARENT, wildcard=True),
}
groups = st.sampled_from(sorted(RULES))
clients = st.sampled_from(CLIENTS)
some_topics = st.lists(st.sampled_from(TOPICS), max_size=4)


class SubscriptionMachine(RuleBasedStateMachine):
    """`known` has each client's topics by group; `ready` what came and nobody has looked for since, by group."""

    @initialize()
    def start(self) -> None:
        self.waiting: set[tuple[str, str]] = set()
        self.subscriptions = LiteSubscriptions(lambda group, _topic, client: (group, client) in self.waiting)
        self.known: dict[str, dict[str, set[str]]] = {group: {} for group in RULES}
        self.said_s: dict[tuple[str, str], float] = {}
        self.ready: dict[str, set[str]] = {group: set() for group in RULES}
        self.now_s = 0.0

    def subscribers(self, group: str, topic: str) -> set[str]:
        is_wildcard = RULES[group].wildcard
        return {client for client, topics in self.known[group].items() if is_wildcard or topic in topics}

    def forget_what_nobody_wants(self, group: str) -> None:
        self.ready[group] = {topic for topic in self.ready[group] if self.subscribers(group, topic)}

    @rule(group=groups, client=clients, topics=some_topics, whole=st.booleans())
    def add(self, group: str, client: str, topics: list[str], *, whole: bool) -> None:
        self.now_s += 1
        action = LiteAction.COMPLETE_ADD if whole else LiteAction.PARTIAL_ADD
        changes = self.subscriptions.sync_client(group, RULES[group], client, action, topics, self.now_s)
        self.said_s[group, client] = self.now_s
        mine = self.known[group].setdefault(client, set())
        if RULES[group].wildcard:
            assert changes == ([], [], [])
            return
        removed = mine - set(topics) if whole else set()
        added = set(topics) - mine
        taken: set[tuple[str, str]] = set()
        others = {topic: self.subscribers(group, topic) - {client} for topic in added}
        if RULES[group].exclusive and whole:
            taken = {(client, topic) for topic in added if others[topic]}
            added -= {topic for _, topic in taken}
        elif RULES[group].exclusive:
            taken = {(other, topic) for topic in added for other in others[topic]}
            for other, topic in taken:
                self.known[group][other].discard(topic)
        mine -= removed
        mine |= added
        assert (set(changes.added), set(changes.removed), set(changes.taken)) == (added, removed, taken)
        self.forget_what_nobody_wants(group)

    @rule(group=groups, client=clients, topics=some_topics)
    def remove(self, group: str, client: str, topics: list[str]) -> None:
        self.now_s += 1
        changes = self.subscriptions.sync_client(
            group, RULES[group], client, LiteAction.PARTIAL_REMOVE, topics, self.now_s
        )
        mine = self.known[group].get(client)
        if mine is not None:
            self.said_s[group, client] = self.now_s
            assert set(changes.removed) == mine & set(topics)
            mine -= set(topics)
        self.forget_what_nobody_wants(group)

    @rule(group=groups, client=clients)
    def leave(self, group: str, client: str) -> None:
        self.subscriptions.sync_client(group, RULES[group], client, LiteAction.COMPLETE_REMOVE, [], self.now_s)
        self.known[group].pop(client, None)
        self.forget_what_nobody_wants(group)

    @rule(age=st.integers(0, 10))
    def silence(self, age: int) -> None:
        before_s = self.now_s - age
        gone = [
            (group, client) for group in RULES for client in self.known[group] if self.said_s[group, client] < before_s
        ]
        assert self.subscriptions.expire_clients(before_s) == len(gone)
        for group, client in gone:
            del self.known[group][client]
            self.forget_what_nobody_wants(group)

    @rule(group=groups, client=clients)
    def wait(self, group: str, client: str) -> None:
        self.waiting.add((group, client))

    @rule(topic=st.sampled_from(TOPICS))
    def something_came(self, topic: str) -> None:
        named = self.subscriptions.groups_of(topic)
        assert set(named) == {group for group in RULES if self.subscribers(group, topic)}
        for group in named:
            woken = self.subscriptions.mark_ready(group, topic)
            self.ready[group].add(topic)
            could_be = {client for client in self.subscribers(group, topic) if (group, client) in self.waiting}
            assert (woken is None) == (not could_be)
            if woken is not None:
                assert woken == LiteClientKey(group, PARENT, woken.client_id)
                assert woken.client_id in could_be
                self.waiting.discard((group, woken.client_id))

    @rule(group=groups, client=clients, limit=st.integers(0, 4))
    def poll(self, group: str, client: str, limit: int) -> None:
        wanted = {topic for topic in self.ready[group] if client in self.subscribers(group, topic)}
        taken = [topic for topic, _ in zip(self.subscriptions.take_ready(group, client), range(limit), strict=False)]
        assert len(set(taken)) == len(taken)
        assert set(taken) <= wanted
        assert len(taken) in (min(limit, len(wanted)), limit)
        # One that was given and not looked at, as the poll was full then, is for the caller to mark again.
        for topic in wanted - set(taken):
            self.subscriptions.mark_ready(group, topic)
        self.ready[group] -= set(taken)

    @rule(topic=st.sampled_from(TOPICS))
    def drop(self, topic: str) -> None:
        dropped = self.subscriptions.drop_topic(topic)
        assert set(dropped) == {
            LiteClientKey(group, PARENT, client)
            for group in RULES
            if not RULES[group].wildcard
            for client in self.subscribers(group, topic)
        }
        for group in RULES:
            self.ready[group].discard(topic)
            for topics in self.known[group].values():
                topics.discard(topic)

    @invariant()
    def who_subscribes_is_known(self) -> None:
        for group in RULES:
            assert self.subscriptions.clients_of(group) == sorted(self.known[group])
            for topic in TOPICS:
                expected = sorted(self.subscribers(group, topic))
                assert self.subscriptions.clients_of(group, topic) == expected
        count = sum(
            1 if RULES[group].wildcard else len(topics) for group in RULES for topics in self.known[group].values()
        )
        assert self.subscriptions.count == count

    @invariant()
    def what_is_ready_is_offered_to_who_waits(self) -> None:
        offered = self.subscriptions.clients_to_wake(10)
        for group in RULES:
            could_be = {
                client
                for topic in self.ready[group]
                for client in self.subscribers(group, topic)
                if (group, client) in self.waiting
            }
            assert {each.client_id for each in offered if each.group == group} <= could_be
            assert bool(could_be) == any(each.group == group for each in offered)


TestSubscriptionMachine = SubscriptionMachine.TestCase


def nobody(_group: str, _topic: str, _client: str) -> bool:
    return False


def test_a_broker_has_only_so_many_subscriptions() -> None:
    subscriptions = LiteSubscriptions(nobody)
    rules = LiteGroup(PARENT, quota=LITE_SUBSCRIPTIONS_MAX)
    topics = [lite_queue_topic(PARENT, str(number)) for number in range(LITE_SUBSCRIPTIONS_MAX)]
    subscriptions.sync_client("g", rules, "x", LiteAction.COMPLETE_ADD, topics, 0.0)
    with pytest.raises(MessagingError) as refused:
        subscriptions.sync_client("g", rules, "y", LiteAction.PARTIAL_ADD, topics[:1], 0.0)
    assert refused.value.code == pb.LITE_SUBSCRIPTION_QUOTA_EXCEEDED
    assert subscriptions.count == LITE_SUBSCRIPTIONS_MAX
    assert subscriptions.clients_of("g") == ["x"]


def test_a_client_has_its_quota_and_some_more() -> None:
    subscriptions = LiteSubscriptions(nobody)
    rules = LiteGroup(PARENT, quota=1)
    topics = [lite_queue_topic(PARENT, str(number)) for number in range(2 + LITE_QUOTA_SLACK)]
    subscriptions.sync_client("g", rules, "x", LiteAction.PARTIAL_ADD, topics[1:], 0.0)
    with pytest.raises(MessagingError) as refused:
        subscriptions.sync_client("g", rules, "x", LiteAction.PARTIAL_ADD, topics[:1], 0.0)
    assert refused.value.code == pb.LITE_SUBSCRIPTION_QUOTA_EXCEEDED
    subscriptions.sync_client("g", rules, "x", LiteAction.COMPLETE_ADD, topics[:-1], 0.0)


def test_a_group_that_was_made_anew_has_no_clients() -> None:
    subscriptions = LiteSubscriptions(nobody)
    subscriptions.sync_client("g", LiteGroup(PARENT), "x", LiteAction.COMPLETE_ADD, TOPICS, 0.0)
    subscriptions.sync_client("g", LiteGroup("others"), "y", LiteAction.COMPLETE_ADD, [], 0.0)
    assert subscriptions.clients_of("g") == ["y"]
    assert subscriptions.count == 0


def test_what_is_ready_is_still_so_for_the_client_that_takes_an_exclusive_lite_topic() -> None:
    subscriptions = LiteSubscriptions(nobody)
    rules = LiteGroup(PARENT, exclusive=True)
    subscriptions.sync_client("g", rules, "x", LiteAction.PARTIAL_ADD, TOPICS[:1], 0.0)
    subscriptions.mark_ready("g", TOPICS[0])
    subscriptions.sync_client("g", rules, "y", LiteAction.PARTIAL_ADD, TOPICS[:1], 0.0)
    assert list(subscriptions.take_ready("g", "y")) == TOPICS[:1]
    assert subscriptions.count == 1


def test_deadlines_are_told_once_and_in_order() -> None:
    deadlines = DueTimes()
    for due_ms, topic in ((30, "c"), (10, "a"), (20, "b"), (40, "a"), (5, "b")):
        deadlines.plan_due(("g", topic), due_ms)
    assert deadlines.first_ms == 5
    assert deadlines.take_due(4) == []
    assert deadlines.take_due(10) == [("g", "b"), ("g", "a")]
    assert deadlines.first_ms == 30
    deadlines.plan_due(("g", "b"), 25)
    assert deadlines.take_due(100) == [("g", "b"), ("g", "c")]
    assert deadlines.first_ms is None
