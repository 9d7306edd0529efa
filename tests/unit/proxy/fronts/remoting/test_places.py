"""Numbers that name a place in a broker's log, and the message there."""

from types import SimpleNamespace
from typing import Any

import pytest

from ternmq_common.shard.model import QueueRef, StoredMessage
from ternmq_protos.v2.definition_pb2 import SystemProperties
from ternmq_proxy.fronts.remoting.messages.places import find_place, number_of_place
from ternmq_proxy.operations.by_queue.look_up import read_place

BROKERS = [f"broker-{number}" for number in range(31)]
LAST_OFFSET = 2**48 - 1


@pytest.mark.parametrize("offset", [0, 212, LAST_OFFSET])
def test_a_number_names_one_of_the_usual_brokers(offset: int) -> None:
    for broker in BROKERS:
        assert find_place(number_of_place(broker, offset), BROKERS) == [(broker, offset)]


def test_a_number_survives_a_client_that_counts_in_floating_point() -> None:
    for broker in (*BROKERS, "anything", "99999999999999999999"):
        number = number_of_place(broker, LAST_OFFSET)
        assert int(float(number)) == number


def services_with(*messages: StoredMessage) -> Any:  # noqa: ANN401 - a stand-in for Services
    """Services whose brokers have one of these messages each, at log offset 7."""
    by_broker = {message.queue.broker: message for message in messages}

    async def find(broker: str, log_offset: int) -> StoredMessage | None:
        return by_broker.get(broker) if log_offset == 7 else None

    return SimpleNamespace(messages=SimpleNamespace(inspecting=SimpleNamespace(find_by_log_offset=find)))


def stored(broker: str, message_id: str) -> StoredMessage:
    system = SystemProperties(message_id=message_id).SerializeToString()
    return StoredMessage(QueueRef("t", broker, 0), 0, 0, system, b"", 7)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({}, "east-1"),
        ({"broker": "west-1"}, "west-1"),
        ({"message_id": "W"}, "west-1"),
        ({"message_id": "E", "broker": "west-1"}, "east-1"),
        ({"message_id": "another", "broker": "west-1"}, "west-1"),
    ],
)
async def test_of_two_brokers_with_one_number_the_message_s_is_meant(known: dict[str, str], expected: str) -> None:
    places = find_place(number_of_place("east-1", 7), ["east-1", "other-2", "west-1"])
    assert places == [("east-1", 7), ("west-1", 7)]
    found = await read_place(places, services_with(stored("east-1", "E"), stored("west-1", "W")), **known)
    assert found is not None
    assert found.queue.broker == expected


async def test_no_message_is_at_a_place_without_one() -> None:
    assert await read_place([("east-1", 8), ("none", 7)], services_with(stored("east-1", "E"))) is None
