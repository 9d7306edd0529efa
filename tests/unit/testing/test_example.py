"""How the delays, retries and check-backs of an application are tested in milliseconds.

The application is a shop, a few lines for each of its promises; in a test of yours it is imported.
"""

from datetime import timedelta
from queue import Empty, SimpleQueue

import pytest

from ternmq import Message, MessageView, TransactionResolution
from ternmq.blocking import Producer, PushConsumer, SimpleConsumer
from ternmq.testing import Stack

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
SOON = timedelta(seconds=20)  # a test waits so long for what it knows to come
AT_ONCE = timedelta(0)


# The application: it would be imported


def remind_of_unpaid(broker: str, order: str) -> None:
    """Have a reminder delivered in two hours."""
    with Producer(broker, topics=["reminders"]) as producer:
        producer.send(Message("reminders", order.encode(), delay=2 * HOUR))


class Mailer:
    """Mails what it is given; if the mail server is down, the broker gives it the same again, ten minutes later."""

    def __init__(self, broker: str, server: "MailServer") -> None:
        self.consumer = PushConsumer(broker, "mailing", {"mails": "*"}, lambda view: server.send(view.body))


class Shop:
    """Announces the orders that its database has. Dies in between, once; the broker then asks what became of it."""

    def __init__(self, broker: str) -> None:
        self.database = set[str]()
        self.producer = Producer(broker, topics=["orders"], checker=self.check)

    def order_and_die(self, order: str) -> None:
        self.producer.begin_transaction().send(Message("orders", order.encode(), keys=(order,)))
        self.database.add(order)

    def check(self, view: MessageView) -> TransactionResolution:
        known = view.keys[0] in self.database
        return TransactionResolution.COMMIT if known else TransactionResolution.ROLLBACK


# Its tests


def test_a_reminder_comes_after_two_hours(ternmq_server: Stack) -> None:
    ternmq_server.create_topic("reminders", type="delay")
    remind_of_unpaid(ternmq_server.endpoint, "order-7")
    ternmq_server.advance(2 * HOUR - MINUTE)
    assert received(ternmq_server, "reminders", AT_ONCE) == []
    ternmq_server.advance(MINUTE)
    assert received(ternmq_server, "reminders", SOON) == [b"order-7"]


class MailServer:
    """One that is down at the first try."""

    def __init__(self) -> None:
        self.is_up = False
        self.sent = SimpleQueue[bytes]()

    def send(self, mail: bytes) -> None:
        if not self.is_up:
            self.is_up = True
            raise ConnectionError("no mail server")
        self.sent.put(mail)


def test_a_mail_is_tried_again_after_ten_minutes(ternmq_server: Stack) -> None:
    ternmq_server.create_group("mailing", retry_backoff="customized:10m")
    server, began = MailServer(), ternmq_server.now()
    with (
        Mailer(ternmq_server.endpoint, server).consumer,
        Producer(ternmq_server.endpoint, topics=["mails"]) as producer,
    ):
        producer.send(Message("mails", b"Dear customer"))
        assert sent_while_time_passes(server, ternmq_server) == b"Dear customer"
    assert ternmq_server.now() - began >= 10 * MINUTE


def sent_while_time_passes(server: MailServer, broker: Stack) -> bytes:
    """The next mail. Time passes bit by bit: the consumer gives a message back some moment after its failure."""
    while True:
        try:
            return server.sent.get(timeout=0.05)
        except Empty:
            broker.advance(MINUTE)


@pytest.mark.ternmq(transaction_timeout_ms="1h")
def test_an_order_of_a_shop_that_died_is_announced(ternmq_server: Stack) -> None:
    ternmq_server.create_topic("orders", type="transaction")
    shop = Shop(ternmq_server.endpoint)
    with shop.producer:
        shop.order_and_die("order-7")
        assert received(ternmq_server, "orders", AT_ONCE) == []
        ternmq_server.advance(HOUR)
        assert received(ternmq_server, "orders", SOON) == [b"order-7"]


def received(broker: Stack, topic: str, wait: timedelta) -> list[bytes]:
    """What the group of the tests gets from a topic within so much real time."""
    with SimpleConsumer(broker.endpoint, "tests", {topic: "*"}, await_duration=wait) as consumer:
        return [view.body for view in consumer.receive()]
