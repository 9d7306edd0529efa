"""Where topics are: what the registry permits, who is there, and who fails."""

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.catalog.cluster import BrokerEntry, QueuePermission, RegistrySnapshot
from ternmq_common.catalog.message_type import MessageType
from ternmq_common.shard.model import Topic, TopicRoute
from ternmq_proxy.message_service.cluster.routes import TopicRoutes

if TYPE_CHECKING:
    from ternmq_proxy.message_service.cluster.broker_links.links import BrokerLinks
    from ternmq_registry.directory import RegistryDirectory

NAMES = ("a", "b", "c")
TOPIC = Topic(name="orders", type=MessageType.NORMAL, brokers=NAMES)


class Known:
    def __init__(self, *entries: BrokerEntry) -> None:
        self.snapshot = RegistrySnapshot(version=1, brokers={entry.name: entry for entry in entries})


class Reached:
    def __init__(self, names: set[str]) -> None:
        self.names = names

    def is_connected(self, name: str) -> bool:
        return name in self.names


class World:
    """Three brokers that are well, until the test says otherwise."""

    def __init__(self, *entries: BrokerEntry) -> None:
        self.now = 0.0
        self.known = Known(*(entries or [entry(name) for name in NAMES]))
        self.reached = Reached(set(NAMES))
        self.routes = TopicRoutes(
            cast("RegistryDirectory", self.known), cast("BrokerLinks", self.reached), lambda: self.now
        )

    def route(self, topic: Topic = TOPIC) -> TopicRoute:
        return self.routes.find_route(topic)

    def lose(self, *names: str) -> None:
        self.reached.names -= set(names)
        self.routes.forget_routes()


def entry(
    name: str, permission: QueuePermission = QueuePermission.READ_WRITE, *, draining: bool = False, live: bool = True
) -> BrokerEntry:
    return BrokerEntry(name=name, address="", epoch=1, permission=permission, draining=draining, live=live)


def test_all_brokers_that_are_well_take_and_give() -> None:
    assert World().route() == TopicRoute(TOPIC, NAMES, NAMES, NAMES, NAMES)


def test_a_topic_is_where_it_was_placed() -> None:
    topic = replace(TOPIC, brokers=("b", "gone"))
    assert World().route(topic) == TopicRoute(topic, ("b",), ("b",), ("b",), ("b",))


@pytest.mark.parametrize(
    ("permission", "readable", "writable"),
    [
        (QueuePermission.READ, NAMES, ()),
        (QueuePermission.WRITE, (), NAMES),
        (QueuePermission.NONE, (), ()),
    ],
)
def test_the_topics_permission_holds_on_all_brokers(
    permission: QueuePermission, readable: tuple[str, ...], writable: tuple[str, ...]
) -> None:
    route = World().route(replace(TOPIC, permission=permission))
    assert (route.readable, route.writable, route.ordered) == (readable, writable, writable)


def test_each_brokers_permission_holds_there() -> None:
    world = World(entry("a", QueuePermission.READ), entry("b", QueuePermission.WRITE), entry("c", draining=True))
    route = world.route()
    assert (route.readable, route.writable, route.ordered) == (("a", "c"), ("b",), ("b",))


def test_a_broker_without_a_lease_gets_nothing_new_but_keeps_its_message_groups() -> None:
    route = World(entry("a", live=False), entry("b"), entry("c")).route()
    assert (route.readable, route.writable, route.ordered) == (("b", "c"), ("b", "c"), NAMES)


def test_a_broker_that_can_not_be_reached_gets_nothing_new_but_keeps_its_message_groups() -> None:
    world = World()
    assert world.route().writable == NAMES
    world.lose("a")
    assert (world.route().writable, world.route().ordered) == (("b", "c"), NAMES)


def test_when_nobody_can_be_reached_those_with_a_lease_stay() -> None:
    world = World(entry("a", live=False), entry("b"), entry("c"))
    world.lose(*NAMES)
    assert world.route().writable == ("b", "c")


def test_a_broker_that_fails_gets_no_messages_for_a_while_and_then_one_that_probes() -> None:
    world = World()
    world.routes.send_failed("a")
    assert (world.route().writable, world.route().ordered) == (("b", "c"), NAMES)
    assert world.routes.aside_brokers() == ["a"]
    world.now += 0.2
    assert world.route().writable == NAMES
    world.routes.send_failed("a")
    world.now += 0.11
    assert world.route().writable == ("b", "c")  # it was aside for 0.1 s the first time
    world.now += 0.1
    world.routes.send_worked("a")
    assert world.route().writable == NAMES
    assert world.routes.aside_brokers() == []


def test_when_all_fail_all_are_tried() -> None:
    world = World()
    for name in NAMES:
        world.routes.send_failed(name)
    assert world.route().writable == NAMES


def test_a_broker_that_was_removed_is_not_remembered_as_failing() -> None:
    world = World()
    world.routes.send_failed("a")
    world.known.snapshot = RegistrySnapshot(version=2, brokers={"b": entry("b")})
    world.routes.forget_routes()
    world.routes.send_failed("b")
    world.routes.send_worked("b")
    assert world.route() is world.route()  # worked out once again


def test_a_route_is_worked_out_once_until_something_changes() -> None:
    world = World()
    route = world.route()
    assert world.route() is route
    world.routes.forget_routes()
    assert world.route() is not route
    assert world.route(replace(TOPIC, queues=2)).topic.queues == 2


@given(
    entries=st.lists(
        st.builds(
            entry, st.sampled_from(NAMES), st.sampled_from(QueuePermission), draining=st.booleans(), live=st.booleans()
        ),
        unique_by=lambda each: each.name,
        min_size=1,
    ),
    permission=st.sampled_from(QueuePermission),
    reached=st.sets(st.sampled_from(NAMES)),
    failing=st.sets(st.sampled_from(NAMES)),
)
def test_nobody_is_used_for_what_he_may_not(
    entries: list[BrokerEntry], permission: QueuePermission, reached: set[str], failing: set[str]
) -> None:
    world = World(*entries)
    world.reached.names = reached
    for name in failing:
        world.routes.send_failed(name)
    route = world.route(replace(TOPIC, permission=permission))
    known = world.known.snapshot.brokers
    assert set(route.writable) <= set(route.ordered) <= set(route.brokers) == set(known)
    assert all(known[name].can_write and known[name].live and permission.can_write for name in route.writable)
    assert all(known[name].can_read and known[name].live and permission.can_read for name in route.readable)
    able = [name for name in route.ordered if known[name].live]
    assert bool(route.writable) == bool(able)  # somebody is tried as long as there is anybody
    if well := set(able) & reached - failing:
        assert set(route.writable) == well
