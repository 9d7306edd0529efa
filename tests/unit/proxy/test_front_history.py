"""What a process remembers of its calls."""

from ternmq_common.clock import MovableClock
from ternmq_proxy.front_history import FrontHistory
from ternmq_runtime.observability.figures import FrontFigures, Traffic
from ternmq_runtime.observability.rings import STEP_MS


async def test_calls_are_those_since_the_last_look() -> None:
    clock = MovableClock()
    figures = FrontFigures(lambda: Traffic(connections=7))
    remembered = FrontHistory(clock.now_ms)

    def last() -> dict[str, float]:
        remembered.sample()
        clock.advance(STEP_MS)
        return {name: values[-1] for name, values in remembered.history().series.items()}

    remembered.begin(figures)
    for _ in range(200):
        figures.called("SendMessage", "OK", 0.0015)
    figures.called("DeleteTopic", "BAD_REQUEST", 0.3)
    figures.stream_began("client")
    first = last()
    assert (first["call_p50_ms"], first["call_p99_ms"], first["send_p99_ms"]) == (2.0, 2.0, 2.0)
    assert (first["connections"], first["clients"]) == (7, 1)
    assert 0 < first["failed_calls"] < first["calls"]
    assert first["memory"] > 1 << 20
    for _ in range(10):
        figures.called("AckMessage", "OK", 0.2)
    second = last()
    assert (second["call_p50_ms"], second["call_p99_ms"], second["send_p99_ms"]) == (200.0, 200.0, 0.0)
    assert second["failed_calls"] == 0
    await remembered.end()
