"""The network of a peer's address, which counts as one peer where peers are counted."""

import ipaddress

_IPV6_BITS = 64
"""Of an IPv6 address so many say the network; its hosts have the others for themselves."""


def network_of(host: str) -> str:
    """An IPv4 address as it is, of IPv6 the network of the host, "" for a process of this machine."""
    address = host.strip("[]").partition("%")[0]
    if ":" not in address:
        return address
    return str(ipaddress.ip_network((address, _IPV6_BITS), strict=False))
