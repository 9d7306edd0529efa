"""Whether others than this machine's users reach a server that does not ask who they are."""

import ipaddress
from typing import TYPE_CHECKING

from ternmq_common.addresses import parsed_address
from ternmq_common.errors import StartupError

if TYPE_CHECKING:
    from ternmq_common.server_settings.front import FrontSettings


def exposure(settings: "FrontSettings") -> str | None:
    """What of the server anybody can use from other machines, for a warning; None if nothing is. StartupError if that
    was not asked for (`insecure`)."""
    addresses = [*(listener.address for listener in settings.listeners), settings.http]
    open_ones = [] if settings.is_guarded else [each for each in addresses if not is_loopback(each)]
    if not open_ones:
        return None
    what = f"{' and '.join(open_ones)} can be reached from other machines, and access control is off"
    if not settings.insecure:
        raise StartupError(
            f"{what}: turn it on (--access-control), listen on 127.0.0.1, or say --insecure if everybody who can "
            "connect may do everything"
        )
    return what


def is_loopback(address: str) -> bool:
    """Whether nobody but this machine reaches that `HOST:PORT`; no name but localhost is known to be such."""
    host, _ = parsed_address(address)
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
