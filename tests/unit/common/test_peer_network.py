"""Which addresses count as one peer."""

import pytest

from ternmq_common.process.peer_network import network_of


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8:0:1:2::3", "2001:db8:0:1::/64"),
        ("[2001:db8:0:1:ffff::]", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_hosts_of_one_network_of_ipv6_are_one_peer(host: str, network: str) -> None:
    assert network_of(host) == network
