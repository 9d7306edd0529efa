"""The network of a peer's address; all its addresses count as one peer where peers are counted."""

import ipaddress

_IPV6_BITS = 64
"""So many bits of an IPv6 address are the network; the others are the host's."""


def network_of(host: str) -> str:
    """The network of a host: an IPv4 address as it is, the network of an IPv6 address, "" for a local process."""
    address = host.strip("[]").partition("%")[0]
    if ":" not in address:
        return address
    return str(ipaddress.ip_network((address, _IPV6_BITS), strict=False))
