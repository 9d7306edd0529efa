"""Whether others than this machine's users reach a server that does not ask who they are, or does not encrypt."""

import ipaddress
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.addresses import parsed_address
from ternmq_common.errors import StartupError
from ternmq_common.server_settings.tls import TlsMode

if TYPE_CHECKING:
    from ternmq_common.server_settings.front import FrontSettings


class _Gap(NamedTuple):
    """What guards the server is without, and what to do about it."""

    what: str
    remedy: str


_NO_USERS = _Gap("access control is off, so whoever can connect may do everything", "--access-control")
_OVERHEARD = "so whoever is on the way reads messages and signatures"
_NO_TLS = _Gap(f"there is no TLS, {_OVERHEARD}", "--tls-cert FILE --tls-key FILE")
_PLAIN_TOO = _Gap(f"plain text is taken, {_OVERHEARD}", "--grpc-tls required")


def exposure(settings: "FrontSettings") -> str | None:
    """What of the server anybody can use or overhear from other machines, for a warning; None if nothing is.
    StartupError if that was not asked for (`insecure`)."""
    gaps = _gaps(settings)
    # HTTP serves health to all, and has TLS or not by itself (`http_tls`).
    http = [settings.http] if _NO_USERS in gaps else []
    listeners = settings.addresses if gaps else []
    open_ones = [each for each in (*listeners, *http) if not is_loopback(each)]
    if not open_ones:
        return None
    what = f"{' and '.join(open_ones)} can be reached from other machines, and {'; '.join(gap.what for gap in gaps)}"
    if not settings.insecure:
        remedies = " ".join(gap.remedy for gap in gaps)
        raise StartupError(f"{what}: add {remedies}, listen on 127.0.0.1, or say --insecure if that is meant")
    return what


def _gaps(settings: "FrontSettings") -> list[_Gap]:
    gaps = [] if settings.access_control else [_NO_USERS]
    if settings.grpc_tls_mode is TlsMode.REQUIRED:
        return gaps
    return [*gaps, _NO_TLS if settings.tls_cert is None else _PLAIN_TOO]


def is_loopback(address: str) -> bool:
    """Whether nobody but this machine reaches that `HOST:PORT`; no name but localhost is known to be such."""
    host, _ = parsed_address(address)
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
