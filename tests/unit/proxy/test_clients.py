"""Who is there: the registry of clients against a clock that the test turns."""

import pytest

from ternmq_protos.v2 import definition_pb2 as pb
from ternmq_proxy.processors.clients import DETACHED_EXPIRY_S, ClientRegistry

EXPIRY_S = 120.0
SETTINGS = pb.Settings(client_type=pb.PUSH_CONSUMER, subscription={"group": {"name": "g"}})


class Clock:
    """Seconds that pass when the test says so."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def clients(clock: Clock) -> ClientRegistry:
    return ClientRegistry(clock, expiry_s=EXPIRY_S)


def test_a_client_is_forgotten_when_it_was_not_seen_for_too_long(clients: ClientRegistry, clock: Clock) -> None:
    clients.seen("c", "g")
    clock.now_s = EXPIRY_S
    assert clients.expire() == []
    clients.seen("c")
    clock.now_s = 2 * EXPIRY_S
    assert clients.expire() == []
    clock.now_s += 1
    assert [client.client_id for client in clients.expire()] == ["c"]
    assert clients.find("c") is None
    assert [client.client_id for client in clients.members("g")] == []


def test_a_client_whose_stream_broke_is_forgotten_sooner(clients: ClientRegistry, clock: Clock) -> None:
    clients.configured("c", SETTINGS)
    clients.attach("c")
    clock.now_s = 100
    clients.detach("c")
    clock.now_s = 100 + DETACHED_EXPIRY_S
    assert clients.expire() == []
    clock.now_s += 1
    assert [client.client_id for client in clients.expire()] == ["c"]


def test_a_client_that_comes_back_in_time_is_kept(clients: ClientRegistry, clock: Clock) -> None:
    clients.attach("c")
    clients.detach("c")
    clock.now_s = DETACHED_EXPIRY_S
    clients.attach("c")
    clock.now_s += DETACHED_EXPIRY_S + 1
    assert clients.expire() == []


def test_a_newer_stream_outlives_the_end_of_the_older(clients: ClientRegistry, clock: Clock) -> None:
    clients.attach("c")
    clients.attach("c")
    clients.detach("c")
    clock.now_s = DETACHED_EXPIRY_S + 1
    assert clients.expire() == []


def test_members_of_a_group_are_known_by_settings_or_calls(clients: ClientRegistry) -> None:
    clients.configured("b", SETTINGS)
    clients.seen("a", "g")
    clients.seen("other", "h")
    assert [client.client_id for client in clients.members("g")] == ["a", "b"]


def test_a_good_bye_counts_once(clients: ClientRegistry) -> None:
    clients.configured("c", SETTINGS)
    assert clients.forget("c")
    assert not clients.forget("c")
    clients.detach("c")  # its stream ends after the good-bye
    assert clients.find("c") is None
