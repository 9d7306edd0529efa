"""Auto-renewal against a clock that the test turns (`consuming.md, Auto-renewal`)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import pytest

from ternmq_common.limits import HOUR_MS, MINUTE_MS, SECOND_MS
from ternmq_common.shard.model import ConsumerGroup, DeliveredMessage, QueueRef, StoredMessage
from ternmq_common.shard.receipt_handle import ReceiptHandle
from ternmq_proxy.processors.renewal import AutoRenewal
from tests.support.all_parts import AllParts

if TYPE_CHECKING:
    from ternmq_proxy.message_service.interface import MessageService

FIRST = ReceiptHandle("broker-0", 0, 1, 1, MINUTE_MS)
SECOND = ReceiptHandle("broker-0", 0, 2, 1, MINUTE_MS)


class Hidden(AllParts):
    """Plays the part of MessageService that renewal uses: until when each message is hidden."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.until_ms = {FIRST: MINUTE_MS, SECOND: MINUTE_MS}
        self.settled: set[ReceiptHandle] = set()
        self.given_back: dict[ReceiptHandle, int] = {}

    async def change_invisible(
        self, group: str, topic: str, handle: ReceiptHandle, invisible_ms: int, *, counts: bool
    ) -> ReceiptHandle:
        assert (group, topic, counts) == ("g", "t", True)
        assert handle not in self.given_back
        self.given_back[handle] = invisible_ms
        self.until_ms[handle] = self.now_ms + invisible_ms
        return handle

    async def prolong(self, group: str, topic: str, handles: Sequence[ReceiptHandle], invisible_ms: int) -> list[bool]:
        assert (group, topic) == ("g", "t")
        done = [handle not in self.settled and self.until_ms[handle] > self.now_ms for handle in handles]
        for handle, prolonged in zip(handles, done, strict=True):
            if prolonged:
                self.until_ms[handle] = self.now_ms + invisible_ms
        return done

    async def release(self, group: str, topic: str, handles: Sequence[ReceiptHandle], *, counts: bool) -> None:
        assert (group, topic, counts) == ("g", "t", True)
        for handle in handles:
            self.until_ms[handle] = self.now_ms


@pytest.fixture
def hidden() -> Hidden:
    return Hidden()


@pytest.fixture
def renewal(hidden: Hidden) -> AutoRenewal:
    made = AutoRenewal(cast("MessageService", hidden), lambda: hidden.now_ms, lambda name: ConsumerGroup(name=name))
    made.hold_messages("c", "g", "t", [delivery(FIRST, 1), delivery(SECOND, 5)])
    return made


def delivery(handle: ReceiptHandle, attempt: int) -> DeliveredMessage:
    stored = StoredMessage(QueueRef("t", handle.broker, handle.queue_id), handle.queue_offset, 0, b"", b"")
    return DeliveredMessage(stored, handle, attempt)


async def run(hidden: Hidden, renewal: AutoRenewal, *, until_ms: int) -> None:
    """Renew every five seconds, as the server does."""
    while hidden.now_ms < until_ms:
        hidden.now_ms += 5 * SECOND_MS
        await renewal.renew_claims()


async def test_a_message_stays_hidden_for_three_hours_and_then_is_shown(hidden: Hidden, renewal: AutoRenewal) -> None:
    while hidden.now_ms < 3 * HOUR_MS:
        assert hidden.until_ms[FIRST] > hidden.now_ms
        await run(hidden, renewal, until_ms=hidden.now_ms + MINUTE_MS)
    await run(hidden, renewal, until_ms=5 * HOUR_MS)
    assert 3 * HOUR_MS <= hidden.until_ms[FIRST] <= 4 * HOUR_MS
    # Given back with the wait that the group's backoff has after so many attempts: a second, or a minute.
    assert hidden.given_back == {FIRST: SECOND_MS, SECOND: MINUTE_MS}


async def test_a_settled_message_is_not_prolonged(hidden: Hidden, renewal: AutoRenewal) -> None:
    renewal.release_messages("c", "g", "t", [FIRST])
    await run(hidden, renewal, until_ms=MINUTE_MS)
    assert hidden.until_ms[FIRST] == MINUTE_MS
    assert hidden.until_ms[SECOND] > MINUTE_MS


async def test_a_message_that_another_client_settled_is_given_up(hidden: Hidden, renewal: AutoRenewal) -> None:
    hidden.settled.add(FIRST)
    await run(hidden, renewal, until_ms=2 * MINUTE_MS)
    assert hidden.until_ms[FIRST] == MINUTE_MS
    assert hidden.until_ms[SECOND] > 2 * MINUTE_MS


async def test_what_a_gone_client_held_is_shown_and_stays_so(hidden: Hidden, renewal: AutoRenewal) -> None:
    await renewal.release("c")
    assert set(hidden.until_ms.values()) == {0}
    await run(hidden, renewal, until_ms=MINUTE_MS)
    assert set(hidden.until_ms.values()) == {0}


async def test_nothing_is_released_for_a_client_that_holds_nothing(hidden: Hidden, renewal: AutoRenewal) -> None:
    await renewal.release("stranger")
    renewal.release_messages("stranger", "g", "t", [FIRST])
    assert hidden.until_ms[FIRST] == MINUTE_MS


async def test_a_clock_that_is_moved_leaves_every_message_the_time_that_it_had(
    hidden: Hidden, renewal: AutoRenewal
) -> None:
    hidden.now_ms = 20 * SECOND_MS
    await renewal.prolong_before_shift(HOUR_MS)
    assert set(hidden.until_ms.values()) == {HOUR_MS + MINUTE_MS}
    hidden.now_ms += HOUR_MS
    # Within fifteen seconds of its end, each is prolonged as ever.
    await run(hidden, renewal, until_ms=HOUR_MS + 2 * MINUTE_MS)
    assert all(until_ms > hidden.now_ms for until_ms in hidden.until_ms.values())


async def test_a_jump_of_three_hours_uses_up_the_time_of_a_message(hidden: Hidden, renewal: AutoRenewal) -> None:
    await renewal.prolong_before_shift(3 * HOUR_MS)
    hidden.now_ms = 3 * HOUR_MS
    await renewal.renew_claims()
    assert hidden.given_back == {}
    await run(hidden, renewal, until_ms=3 * HOUR_MS + MINUTE_MS)
    assert hidden.given_back.keys() == {FIRST, SECOND}


async def test_a_jump_does_not_bring_back_what_has_ended(hidden: Hidden, renewal: AutoRenewal) -> None:
    hidden.settled.add(SECOND)
    await renewal.prolong_before_shift(HOUR_MS)
    assert hidden.until_ms == {FIRST: HOUR_MS + MINUTE_MS, SECOND: MINUTE_MS}
    hidden.now_ms = 2 * HOUR_MS
    await renewal.prolong_before_shift(HOUR_MS)
    assert hidden.until_ms[FIRST] == HOUR_MS + MINUTE_MS
