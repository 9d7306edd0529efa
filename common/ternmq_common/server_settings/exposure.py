"""Whether others than this machine's users can reach a server without access control, or without TLS."""

import ipaddress
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.addresses import parse_address
from ternmq_common.errors import StartupError
from ternmq_common.server_settings.tls import TlsMode

if TYPE_CHECKING:
    from ternmq_common.server_settings.front import FrontSettings


class _ProtectionGap(NamedTuple):
    """A protection that the server lacks, and the remedy."""

    what: str
    remedy: str


_NO_USERS = _ProtectionGap("access control is off, so everyone who can connect may do everything", "--access-control")
_OVERHEARD = "so anyone on the way can read messages and signatures"
_NO_TLS = _ProtectionGap(f"there is no TLS, {_OVERHEARD}", "--tls-cert FILE --tls-key FILE")
_PLAIN_TOO = _ProtectionGap(f"plain text is accepted, {_OVERHEARD}", "--grpc-tls required")


def find_exposure(settings: "FrontSettings") -> str | None:
    """Return a warning with what other machines can use or read without protection; None if nothing.

    StartupError unless the settings permit it (`insecure`).
    """
    gaps = _find_gaps(settings)
    # HTTP serves health to all, and has TLS or not by itself (`http_tls`).
    http = [settings.http] if _NO_USERS in gaps else []
    remoting = settings.remoting_listener
    listeners = [*settings.grpc_addresses, *([] if remoting is None else [remoting.address])] if gaps else []
    open_ones = [each for each in (*listeners, *http) if not is_loopback(each)]
    if not open_ones:
        return None
    what = f"{' and '.join(open_ones)} can be reached from other machines, and {'; '.join(gap.what for gap in gaps)}"
    if not settings.insecure:
        remedies = " ".join(gap.remedy for gap in gaps)
        raise StartupError(f"{what}: add {remedies}, listen on 127.0.0.1, or add --insecure if that is intended")
    return what


def _find_gaps(settings: "FrontSettings") -> list[_ProtectionGap]:
    gaps = [] if settings.access_control else [_NO_USERS]
    if settings.grpc_tls_mode is TlsMode.REQUIRED:
        return gaps
    return [*gaps, _NO_TLS if settings.tls_cert is None else _PLAIN_TOO]


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches that `HOST:PORT`; of names only localhost is known to be local."""
    host, _ = parse_address(address)
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
