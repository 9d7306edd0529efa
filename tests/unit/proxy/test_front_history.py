"""What a process remembers of its calls."""

from ternmq_common.clock import MovableClock
from ternmq_proxy.server.front_history import FrontHistory
from ternmq_runtime.observability.figures import TrafficFigures
from ternmq_runtime.observability.front_figures import FrontFigures
from ternmq_runtime.observability.history_rings import STEP_MS


async def test_calls_are_those_since_the_last_look() -> None:
    clock = MovableClock()
    figures = FrontFigures(lambda: TrafficFigures(connections=7))
    remembered = FrontHistory(clock.now_ms)

    def last() -> dict[str, float]:
        remembered.take_sample()
        clock.advance_by(STEP_MS)
        return {name: values[-1] for name, values in remembered.read_history().series.items()}

    remembered.start_sampling(figures)
    for _ in range(200):
        figures.record_call("SendMessage", "OK", 0.0015)
    figures.record_call("DeleteTopic", "BAD_REQUEST", 0.3)
    figures.count_stream("client")
    first = last()
    assert (first["call_p50_ms"], first["call_p99_ms"], first["send_p99_ms"]) == (2.0, 2.0, 2.0)
    assert (first["connections"], first["clients"]) == (7, 1)
    assert 0 < first["failed_calls"] < first["calls"]
    assert first["memory"] > 1 << 20
    for _ in range(10):
        figures.record_call("AckMessage", "OK", 0.2)
    second = last()
    assert (second["call_p50_ms"], second["call_p99_ms"], second["send_p99_ms"]) == (200.0, 200.0, 0.0)
    assert second["failed_calls"] == 0
    await remembered.stop()
