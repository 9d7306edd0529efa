"""Signals while the demo's Spark works."""

import signal

import pytest

from ternmq_command.demo.lake.signal_listener import SignalListener


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_raised_at_the_next_check(number: signal.Signals) -> None:
    with SignalListener() as stopping:
        stopping.start_listening()
        stopping.check_signals()
        signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt):
            stopping.check_signals()


def test_a_second_signal_is_raised_at_once() -> None:
    with SignalListener() as stopping:
        stopping.start_listening()
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_the_handlers_of_before_come_back() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with SignalListener() as stopping:
        stopping.start_listening()
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
