"""Addresses as people write them.

Apart from the settings, so that a command that takes an address need not import all settings.
"""

import re

DEFAULT_GRPC = "127.0.0.1:8081"
DEFAULT_HTTP = "127.0.0.1:8082"
DEFAULT_REMOTING = "127.0.0.1:9876"
_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]/=,]+):(?P<port>\d{1,5})", re.ASCII)


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`; an IPv6 host is in brackets there and bare in the result."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or int(match["port"]) > 65535:
        raise ValueError("HOST:PORT is needed, like 127.0.0.1:8081 or [::1]:8081")
    return match["host"].strip("[]"), int(match["port"])


def is_wildcard(host: str) -> bool:
    """Whether the host means all addresses of a machine, so that no client can connect to it by that name."""
    import ipaddress  # which takes longer than the rest of this module, and only servers ask

    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
