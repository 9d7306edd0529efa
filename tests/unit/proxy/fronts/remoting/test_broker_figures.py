"""Figures of brokers as tools of RocketMQ read them."""

from ternmq_proxy.fronts.remoting.handlers.admin.brokers import average_message_bytes


def test_a_message_takes_what_the_log_grew_by() -> None:
    assert average_message_bytes([1000.0, 3000.0, 5000.0], [0.0, 1.0, 1.0], 10.0) == 200.0


def test_what_was_removed_or_was_there_before_is_no_message() -> None:
    assert average_message_bytes([0.0, 9000.0, 1000.0, 3000.0], [0.0, 0.0, 0.0, 1.0], 10.0) == 200.0
    assert average_message_bytes([5000.0, 5000.0], [0.0, 0.0], 10.0) == 0.0
    assert average_message_bytes([], [], 1.0) == 0.0
