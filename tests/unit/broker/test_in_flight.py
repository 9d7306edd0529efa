"""The topics of each group, which tell what a change of the group concerns."""

from ternmq_broker.consumption.in_flight import InFlightMessages


def test_a_group_has_the_topics_in_which_it_has_states() -> None:
    in_flight = InFlightMessages(lambda group, topic: {})
    in_flight.add_pairs([("g", "b"), ("g", "a"), ("h", "a")])
    assert (in_flight.topics_of_group("g"), in_flight.topics_of_group("i")) == (["a", "b"], [])
    in_flight.remove_pair("g", "b")
    in_flight.forget_group("h")
    assert (in_flight.topics_of_group("g"), in_flight.topics_of_group("h")) == (["a"], [])
