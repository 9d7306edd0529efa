"""What a broker remembers of its rates and lags."""

import pytest

from ternmq_broker.inspecting.broker_history import BrokerHistory
from ternmq_common.shard.model import HistoryOf
from ternmq_runtime.observability.history_rings import SLOTS, STEP_MS, UNKNOWN
from tests.unit.broker.conftest import QUEUES, Running


class Remembering:
    """The history of a broker, for which time passes in steps."""

    def __init__(self, running: Running) -> None:
        self._clock = running.clock
        # Counting costs nothing, so lags are counted with each sample.
        self.history = BrokerHistory(running.broker.figures, running.clock.now_ms, processor_s=lambda: 0.0)

    async def step(self) -> None:
        await self.history.record_sample()
        self._clock.advance_by(STEP_MS)

    def last(self, of: HistoryOf, name: str = "") -> dict[str, float]:
        found = self.history.find_history(of, name)
        assert all(len(values) == SLOTS for values in found.series.values())
        return {each: values[-1] for each, values in found.series.items()}


async def test_rates_are_those_since_the_last_look(running: Running) -> None:
    remembering = Remembering(running)
    await running.send(b"1", b"2", b"3")
    await running.send(b"other", topic="others")
    await running.take("g", batch=4)
    await remembering.step()
    topic, broker = remembering.last(HistoryOf.TOPIC, "orders"), remembering.last(HistoryOf.BROKER)
    assert topic["in"] == pytest.approx(3 * topic["out"], rel=1e-3)
    assert topic["out"] == topic["acknowledged"] > 0
    assert remembering.history.sent_per_s("orders") == pytest.approx(topic["in"], rel=1e-3)
    assert remembering.history.delivered_per_s("orders") == pytest.approx(topic["out"], rel=1e-3)
    assert broker["in"] == pytest.approx(topic["in"] * 4 / 3, rel=1e-3)
    assert broker["log_bytes"] > 0
    await remembering.step()
    assert remembering.last(HistoryOf.TOPIC, "orders") == {"in": 0, "out": 0, "acknowledged": 0}
    assert remembering.history.sent_per_s("orders") == 0
    assert remembering.last(HistoryOf.TOPIC, "nobody") == {}


async def test_a_topic_that_is_made_again_has_no_rate_below_zero(running: Running) -> None:
    remembering = Remembering(running)
    await running.send(*[b"message"] * 50)
    await remembering.step()
    await running.broker.administering.forget_topic("orders")
    await running.send(b"message")
    await remembering.step()
    assert remembering.last(HistoryOf.TOPIC, "orders")["in"] > 0
    assert running.broker.figures.current_figures().messages.sent.total_count() == 51 * QUEUES, (
        "of which loads are told"
    )


async def test_the_lag_of_a_group_is_remembered_and_ends(running: Running) -> None:
    remembering = Remembering(running)
    await running.send(b"1", b"2")
    await running.take("g", batch=4)
    running.clock.advance_by(5000)
    await remembering.step()
    lag = remembering.last(HistoryOf.GROUP, "g")
    assert lag["lag"] == 4
    assert lag["oldest"] >= 5
    before = remembering.history.find_history(HistoryOf.GROUP, "g").series["lag"][:-1]
    assert set(before) == {UNKNOWN}
    await running.broker.administering.forget_group("g")
    await remembering.step()
    assert remembering.last(HistoryOf.GROUP, "g") == {"lag": 0, "oldest": 0}
