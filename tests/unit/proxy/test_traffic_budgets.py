"""How many connections there may be, and what the settings of traffic become."""

import resource

import pytest

from ternmq_common.limits import MIB
from ternmq_common.server_settings import ServerSettings
from ternmq_proxy.fronts.budgets import budgets_of, connections_max


@pytest.mark.parametrize(
    ("descriptors", "connections"),
    [
        (220, 156),
        (1024, 922),
        (20_000, 19_488),
        (1 << 20, (1 << 20) - 512),
        (resource.RLIM_INFINITY, 1_000_000),
        (8, 1),
    ],
)
def test_connections_are_what_the_descriptors_leave(
    descriptors: int, connections: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    assert connections_max(ServerSettings()) == connections
    assert connections_max(ServerSettings(connections_max=7)) == 7


def test_a_request_may_hold_the_largest_body() -> None:
    assert budgets_of(ServerSettings()).message_bytes_max == 32 * MIB
    settings = ServerSettings(body_bytes_max=64 * MIB)
    assert budgets_of(settings).message_bytes_max == 65 * MIB


def test_times_are_in_seconds() -> None:
    budgets = budgets_of(ServerSettings(header_timeout_ms=1500, connection_idle_ms=2000))
    assert (budgets.header_timeout_s, budgets.idle_s) == (1.5, 2.0)
