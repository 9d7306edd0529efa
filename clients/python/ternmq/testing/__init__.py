"""Brokers for the tests of applications: real ones, one for each test, with a clock that the test moves.

    def test_a_reminder_comes_after_two_hours(ternmq_server: Stack) -> None:
        ternmq_server.create_topic("reminders", type="delay")
        remind_of_unpaid(ternmq_server.endpoint, "order-7")
        ternmq_server.advance(timedelta(hours=2))
        assert received(ternmq_server.endpoint, "reminders") == [b"order-7"]

Fixtures    `ternmq_server` is a broker for one test; `@pytest.mark.ternmq(delay_max_ms="30d")` gives it settings.
            `ternmq_session` is one for the whole run, whose clock can't be moved.
Stack       the same without pytest, or for a fixture of your own: `with Stack() as stack: ...`
Container   `ternmq.testing.containers.TernmqContainer` runs the image, for tests in other languages

`pip install '.[testing]'` in a checkout installs what is needed. The README beside this file tests the delays, retries
and transaction checks of a small application.
"""

from ternmq.testing.controls import Controls
from ternmq.testing.stack import Stack

__all__ = ["Controls", "Stack"]
