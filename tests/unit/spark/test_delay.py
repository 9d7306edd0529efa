"""When a micro-batch waits for more."""

from pyspark_ternmq.source.delay import BatchDelay


def test_the_first_trigger_takes_what_there_is() -> None:
    assert not BatchDelay(100, 60).holds_back(1, 0)


def test_later_ones_wait_until_there_is_enough() -> None:
    delay = BatchDelay(100, 60)
    delay.holds_back(5, 0)
    assert [delay.holds_back(new, now) for now, new in enumerate((1, 99, 100, 1))] == [True, True, False, True]


def test_no_message_waits_longer_than_the_delay() -> None:
    delay = BatchDelay(100, 60)
    delay.holds_back(0, 0)
    assert not delay.holds_back(0, 1000), "nothing waits"
    assert [delay.holds_back(new, now) for now, new in ((1000, 1), (1059.9, 2), (1060, 2), (1061, 1))] == [
        True,
        True,
        False,
        True,
    ]


def test_the_delay_begins_anew_with_each_micro_batch() -> None:
    delay = BatchDelay(100, 60)
    delay.holds_back(0, 0)
    assert delay.holds_back(1, 10)
    assert not delay.holds_back(100, 50)
    assert delay.holds_back(1, 75)
    assert not delay.holds_back(1, 135)
