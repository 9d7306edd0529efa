"""Numbers that name a place in a broker's log."""

import pytest

from ternmq_proxy.fronts.remoting.messages.delivered_messages import find_place, number_of_place

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
