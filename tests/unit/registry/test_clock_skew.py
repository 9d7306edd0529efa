"""A process's clock held against the registry's: what is beyond a limit, and what is said of it."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.catalog.cluster import RegistrySnapshot
from ternmq_common.clock import MovableClock, SystemClock
from ternmq_registry.clock_skew import ClockReading, ClockSkew, is_beyond
from ternmq_registry.directory import RegistryDirectory
from ternmq_registry.errors import RegistryUnavailable
from ternmq_registry.registry import Registry

LIMIT_MS = 1000
# Milliseconds since the epoch.
EPOCH_MS = 1_700_000_000_000


class Wall(SystemClock):
    """Stands until a test moves it, with the monotonic clock that goes with it."""

    def __init__(self) -> None:
        super().__init__()
        self.wall_ms = EPOCH_MS
        self.monotonic_s = 5000.0

    def now_ms(self) -> int:
        return self.wall_ms

    def seconds(self) -> float:
        return self.monotonic_s

    def passes(self, seconds: float) -> None:
        self.wall_ms += round(seconds * 1000)
        self.monotonic_s += seconds


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def skew(wall: Wall) -> ClockSkew:
    return ClockSkew(wall, warn_ms=1000, max_ms=60_000, now_s=wall.seconds)


def reads(skew: ClockSkew, wall: Wall, *, ahead_s: float, took_s: float = 0.002) -> None:
    """The registry is asked, and this clock is so much ahead of its clock."""
    requested_s = wall.monotonic_s
    wall.passes(took_s / 2)
    other_ms = wall.wall_ms - round(ahead_s * 1000)
    wall.passes(took_s / 2)
    skew.note_reading(ClockReading(other_ms, requested_s, wall.monotonic_s))
    skew.check_skew()


@given(
    skew_ms=st.floats(-5000, 5000),
    uncertainty_ms=st.floats(0, 5000),
    real_ms=st.floats(-1, 1),
    was=st.booleans(),
)
def test_a_limit_is_passed_only_where_it_really_is(
    skew_ms: float, uncertainty_ms: float, real_ms: float, was: bool
) -> None:
    real = skew_ms + real_ms * uncertainty_ms
    now = is_beyond(skew_ms, uncertainty_ms, LIMIT_MS, was=was)
    if now and not was:
        assert abs(real) > LIMIT_MS * 0.999
    if was and not now:
        assert abs(real) <= LIMIT_MS * 0.801


def test_the_round_trip_is_no_skew(skew: ClockSkew, wall: Wall, caplog: pytest.LogCaptureFixture) -> None:
    reads(skew, wall, ahead_s=0.0, took_s=3.0)
    assert skew.skew_s == pytest.approx(0.0, abs=0.002)
    reads(skew, wall, ahead_s=1.2, took_s=3.0)  # it may be anything up to 2.7 s, and nothing
    assert caplog.text == ""
    reads(skew, wall, ahead_s=1.2)
    assert "the clock is 1.2 s ahead of the registry's" in caplog.text


def test_a_skew_is_said_once_and_when_it_is_over(skew: ClockSkew, wall: Wall, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for ahead_s in (0.9, -1.1, -1.5, -0.9, -3.0):
        reads(skew, wall, ahead_s=ahead_s)
        wall.passes(1.0)
    [record] = caplog.records
    assert (record.levelname, record.getMessage()) == (
        "WARNING", "the clock is 1.1 s behind the registry's: look at the NTP of both machines"
    )  # fmt: skip
    assert wall.find_problem() is None
    caplog.clear()
    reads(skew, wall, ahead_s=-0.2)
    reads(skew, wall, ahead_s=0.1)
    [record] = caplog.records
    assert record.getMessage() == "the clock agrees with the registry's again: it is 0.2 s behind that one"


def test_a_clock_that_is_far_off_is_not_relied_on(
    skew: ClockSkew, wall: Wall, caplog: pytest.LogCaptureFixture
) -> None:
    reads(skew, wall, ahead_s=3600.0)
    problem = wall.find_problem()
    assert problem is not None
    beyond = "beyond expert.clock_skew_max_ms (60 s): timed"
    assert problem.startswith(f"the clock is 3600.0 s ahead of the registry's, {beyond}")
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    reads(skew, wall, ahead_s=59.0)
    assert wall.find_problem() is not None  # not before it is safely within the limit
    reads(skew, wall, ahead_s=40.0)
    assert wall.find_problem() is None
    assert caplog.records[-1].getMessage().startswith("the clock is 40.0 s ahead of the registry's: look")


def test_a_clock_that_is_set_is_noticed_without_the_registry(skew: ClockSkew, wall: Wall) -> None:
    reads(skew, wall, ahead_s=0.0)
    wall.passes(100.0)
    assert wall.find_problem() is None
    wall.wall_ms += 3_600_000
    assert skew.skew_s == pytest.approx(3600.0, abs=0.01)
    assert wall.find_problem() is not None
    wall.wall_ms -= 3_600_000
    assert wall.find_problem() is None


def test_without_a_limit_no_clock_is_wrong(wall: Wall) -> None:
    skew = ClockSkew(wall, warn_ms=1000, max_ms=0, now_s=wall.seconds)
    reads(skew, wall, ahead_s=1e6)
    assert wall.find_problem() is None


def test_a_clock_that_nobody_judges_has_no_problem(skew: ClockSkew, wall: Wall) -> None:
    assert MovableClock().find_problem() is None
    skew.note_reading(None)
    assert (skew.skew_s, wall.find_problem()) == (None, None)


def test_postgresql_says_its_time_and_sqlite_has_none(registry: Registry) -> None:
    for ask in (registry.read_brokers, registry.read_snapshot):
        registry.clock_reading = None
        ask()
        reading = registry.clock_reading
        if registry._database.has_own_clock:
            assert reading is not None
            assert reading.requested_s <= reading.answered_s
            assert abs(reading.time_ms(reading.answered_s) - SystemClock().now_ms()) < 5000 + reading.uncertainty_ms
        else:
            assert reading is None


async def test_a_directory_hears_of_the_time_with_each_look_and_looks_without_the_registry_too(
    registry: Registry, wall: Wall, skew: ClockSkew, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = RegistryDirectory(registry, interval_s=None, clock_skew=skew)
    assert directory.clock_skew_s is None
    wanted = ClockReading(wall.wall_ms - 2000, wall.monotonic_s, wall.monotonic_s)

    def snapshot(_: object = None) -> RegistrySnapshot:
        registry.clock_reading = wanted
        return RegistrySnapshot()

    def out(*_: object) -> RegistrySnapshot:
        raise RegistryUnavailable("a test")

    monkeypatch.setattr(registry, "read_snapshot", snapshot)
    await directory.start()
    assert directory.clock_skew_s == pytest.approx(2.0)
    monkeypatch.setattr(registry, "read_snapshot", out)
    monkeypatch.setattr(registry, "read_brokers", out)
    wall.wall_ms += 1_000_000
    with pytest.raises(RegistryUnavailable):
        await directory.refresh_snapshot()
    assert skew._is_wrong
    await directory.stop()
