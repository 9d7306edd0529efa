"""Who is there: the registry of clients against a clock that the test turns."""

from collections.abc import Callable, Sequence

import pytest

from ternmq_common.shard.model import PullingMember
from ternmq_proxy.processors.client_commands import ClientCommand, DropLiteTopic
from ternmq_proxy.processors.client_settings import ClientSettings, NamedTopic, TopicSubscription
from ternmq_proxy.processors.client_type import ClientType
from ternmq_proxy.processors.clients import DETACHED_EXPIRY_S, ClientRegistry
from ternmq_proxy.processors.shared_settings import SharedSettings
from tests.support.hand_clock import Clock

EXPIRY_S = 120.0
SETTINGS = ClientSettings(client_type=ClientType.PUSH_CONSUMER, consumes=True, group="g")


class Stream:
    """A Telemetry stream that notes what was sent on it."""

    def __init__(self) -> None:
        self.sent: list[ClientCommand] = []

    async def push_command(self, command: ClientCommand) -> bool:
        self.sent.append(command)
        return True


@pytest.fixture
def clock() -> Clock:
    return Clock(0.0)


@pytest.fixture
def clients(clock: Clock) -> ClientRegistry:
    return ClientRegistry(clock, expiry_s=EXPIRY_S)


def test_a_client_is_forgotten_when_it_was_not_seen_for_too_long(clients: ClientRegistry, clock: Clock) -> None:
    clients.note_call("c", "g")
    clock.now_s = EXPIRY_S
    assert clients.expire_clients() == []
    clients.note_call("c")
    clock.now_s = 2 * EXPIRY_S
    assert clients.expire_clients() == []
    clock.now_s += 1
    assert [client.client_id for client in clients.expire_clients()] == ["c"]
    assert clients.find_client("c") is None
    assert [client.client_id for client in clients.group_members("g")] == []


def test_a_client_whose_stream_broke_is_forgotten_sooner(clients: ClientRegistry, clock: Clock) -> None:
    stream = Stream()
    clients.take_settings("c", SETTINGS)
    clients.attach_stream("c", stream)
    clock.now_s = 100
    clients.detach_stream("c", stream)
    clock.now_s = 100 + DETACHED_EXPIRY_S
    assert clients.expire_clients() == []
    clock.now_s += 1
    assert [client.client_id for client in clients.expire_clients()] == ["c"]


def test_a_client_that_comes_back_in_time_is_kept(clients: ClientRegistry, clock: Clock) -> None:
    stream = Stream()
    clients.attach_stream("c", stream)
    clients.detach_stream("c", stream)
    clock.now_s = DETACHED_EXPIRY_S
    clients.attach_stream("c", Stream())
    clock.now_s += DETACHED_EXPIRY_S + 1
    assert clients.expire_clients() == []


def test_a_newer_stream_outlives_the_end_of_the_older(clients: ClientRegistry, clock: Clock) -> None:
    older, newer = Stream(), Stream()
    clients.attach_stream("c", older)
    clients.attach_stream("c", newer)
    assert not clients.detach_stream("c", older)
    clock.now_s = DETACHED_EXPIRY_S + 1
    assert clients.expire_clients() == []
    assert clients.detach_stream("c", newer)


def test_a_stream_ends_once(clients: ClientRegistry) -> None:
    stream = Stream()
    clients.attach_stream("c", stream)
    assert not clients.detach_stream("c", Stream())  # one that never was the client's
    assert clients.detach_stream("c", stream)
    assert not clients.detach_stream("c", stream)


async def test_commands_go_to_the_newest_stream(clients: ClientRegistry) -> None:
    older, newer = Stream(), Stream()
    for stream in (older, newer, older):  # the older one has sent its settings again
        clients.attach_stream("c", stream)
    client, command = clients.note_call("c"), DropLiteTopic("a")
    assert await client.push_command(command)
    assert (older.sent, newer.sent) == ([], [command])
    clients.detach_stream("c", newer)
    assert await client.push_command(command)
    assert older.sent == [command]
    clients.detach_stream("c", older)
    assert not await client.push_command(command)


def publisher(*topics: str) -> ClientSettings:
    return ClientSettings(client_type=ClientType.PRODUCER, published_topics=tuple(map(NamedTopic, topics)))


def test_publishers_are_the_producers_with_a_stream(clients: ClientRegistry) -> None:
    def ids(topic: str) -> list[str]:
        return [client.client_id for client in clients.find_publishers(topic)]

    stream = Stream()
    clients.take_settings("p", publisher("t", "u"))
    assert ids("t") == []
    clients.attach_stream("p", stream)
    assert (ids("t"), ids("u"), ids("v")) == (["p"], ["p"], [])
    clients.take_settings("p", publisher("u", "v"))
    assert (ids("t"), ids("u"), ids("v")) == ([], ["p"], ["p"])
    clients.take_settings("p", SETTINGS)
    assert (ids("u"), ids("v")) == ([], [])
    clients.take_settings("p", publisher("t"))
    assert ids("t") == ["p"]
    clients.forget_client("p")
    assert ids("t") == []


def test_a_topic_is_known_as_the_settings_have_it(clients: ClientRegistry) -> None:
    topic = NamedTopic("t", "tenant")
    client = clients.take_settings("p", ClientSettings(client_type=ClientType.PRODUCER, published_topics=(topic,)))
    assert client.named_topic("t") == topic
    assert client.named_topic("u") is None
    assert clients.note_call("stranger").named_topic("t") is None


def test_members_of_a_group_are_known_by_settings_or_calls(clients: ClientRegistry) -> None:
    clients.take_settings("b", SETTINGS)
    clients.note_call("a", "g")
    clients.note_call("other", "h")
    assert [client.client_id for client in clients.group_members("g")] == ["a", "b"]


def test_a_good_bye_counts_once(clients: ClientRegistry) -> None:
    clients.take_settings("c", SETTINGS)
    assert clients.forget_client("c")
    assert not clients.forget_client("c")
    assert not clients.detach_stream("c", Stream())  # its stream ends after the good-bye
    assert clients.find_client("c") is None


def puller(group: str, *topics: str) -> ClientSettings:
    return ClientSettings(
        client_type=ClientType.PULL_CONSUMER,
        consumes=True,
        group=group,
        subscriptions=tuple(map(TopicSubscription, topics)),
    )


def test_pulling_members_are_told_when_they_are_others_and_only_then(clients: ClientRegistry, clock: Clock) -> None:
    told: list[list[PullingMember]] = []
    changes: list[tuple[list[PullingMember], list[PullingMember]]] = []

    def note(
        joined: Sequence[PullingMember], left: Sequence[PullingMember], everyone: Callable[[], Sequence[PullingMember]]
    ) -> None:
        told.append(list(everyone()))
        changes.append((list(joined), list(left)))

    clients.on_pulling(note)
    first, second = PullingMember("g", "a", ("t",)), PullingMember("h", "b")
    clients.take_settings("a", puller("g", "t"))
    assert told == [[first]]
    clients.take_settings("a", puller("g", "t"))
    clients.note_call("a", "g", ClientType.PULL_CONSUMER)
    clients.take_settings("c", SETTINGS)
    clients.note_call("d", "g")
    assert len(told) == 1
    clients.note_call("b", "h", ClientType.PULL_CONSUMER)  # a heartbeat after a restart, which tells no topics
    clients.take_settings("a", puller("g", "t", "u"))
    assert told[1:] == [[first, second], [PullingMember("g", "a", ("t", "u")), second]]
    assert changes == [([first], []), ([second], []), ([PullingMember("g", "a", ("t", "u"))], [first])]
    clients.forget_client("b")
    clients.take_settings("a", SETTINGS)
    assert told[3:] == [[PullingMember("g", "a", ("t", "u"))], []]
    clients.take_settings("a", puller("g"))
    clock.now_s = EXPIRY_S + 1
    clients.expire_clients()
    assert told[5:] == [[PullingMember("g", "a")], []]
    assert changes[-1] == ([], [PullingMember("g", "a")])


def test_members_pull_the_topics_that_they_name_or_any(clients: ClientRegistry) -> None:
    clients.take_settings("b", puller("g", "t"))
    clients.take_settings("a", puller("g"))
    clients.take_settings("c", puller("h", "t"))
    clients.take_settings("d", SETTINGS)
    assert clients.pulling_members("g", "t") == ["a", "b"]
    assert clients.pulling_members("g", "u") == ["a"]
    clients.take_settings("b", puller("h", "t"))
    assert (clients.pulling_members("g", "t"), clients.pulling_members("h", "t")) == (["a"], ["b", "c"])


def settings_of(group: str) -> ClientSettings:
    return ClientSettings(client_type=ClientType.PUSH_CONSUMER, consumes=True, group=group)


def test_clients_with_equal_settings_share_one_copy(clients: ClientRegistry) -> None:
    first, second = (clients.take_settings(name, settings_of("g")) for name in "ab")
    other = clients.take_settings("c", settings_of("h"))
    assert first.settings is second.settings
    assert first.settings == settings_of("g")
    assert other.settings == settings_of("h")


def test_settings_that_change_for_one_client_stay_as_they_are_for_the_others(clients: ClientRegistry) -> None:
    first, second = (clients.take_settings(name, settings_of("g")) for name in "ab")
    clients.take_settings("a", settings_of("h"))
    assert (first.settings, second.settings) == (settings_of("h"), settings_of("g"))


def test_a_copy_of_settings_goes_with_the_last_client_that_has_it() -> None:
    shared = SharedSettings()
    taken = [shared.share_settings(settings_of("g")) for _ in range(2)]
    others = shared.share_settings(settings_of("h"))
    assert len(shared) == 2
    shared.give_back(taken[0])
    assert shared.share_settings(settings_of("g")) is taken[1]
    shared.give_back(others)
    assert len(shared) == 1
    for _ in range(2):
        shared.give_back(taken[1])
    assert len(shared) == 0


def test_nothing_is_kept_of_clients_that_are_gone(
    clients: ClientRegistry, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = SharedSettings()
    monkeypatch.setattr(clients, "_settings", shared)
    for group in ("g", "h", "g"):
        clients.take_settings("a", settings_of(group))
        clients.take_settings("b", settings_of(group))
    assert len(shared) == 1
    clients.forget_client("a")
    clock.now_s += 2 * EXPIRY_S
    assert [client.client_id for client in clients.expire_clients()] == ["b"]
    assert len(shared) == 0
