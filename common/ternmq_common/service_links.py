"""Environment variables that Kubernetes sets for each Service of a pod's namespace, in the manner of Docker's links.

  NAME_SERVICE_HOST   NAME_SERVICE_PORT   NAME_SERVICE_PORT_GRPC   NAME_PORT
  NAME_PORT_8081_TCP   NAME_PORT_8081_TCP_PROTO   NAME_PORT_8081_TCP_PORT   NAME_PORT_8081_TCP_ADDR

NAME is the Service's, in upper case with _ for -: a Service called ternmq, or ternmq-proxy, sets variables that begin
as our settings do. Name and value must both fit, so that a mistake in a setting is still an error.
"""

import ipaddress
import re
from collections.abc import Callable

_PROTOCOLS = ("tcp", "udp", "sctp")
_URL = re.compile(rf"(?:{'|'.join(_PROTOCOLS)})://(?:[0-9A-Fa-f:.]+|\[[0-9A-Fa-f:.]+\]):\d{{1,5}}", re.ASCII)
_NUMBER = re.compile(r"\d{1,5}", re.ASCII)
_ONE_PORT = r"[A-Z0-9_]+_PORT_\d{1,5}_(?:TCP|UDP|SCTP)"


def is_service_link(name: str, value: str) -> bool:
    """Whether Kubernetes would have set this variable, with such a value."""
    return any(pattern.fullmatch(name) and is_fit(value) for pattern, is_fit in _KINDS)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def _is_url(text: str) -> bool:
    return _URL.fullmatch(text) is not None


# More than one may fit a name: TERNMQ_SERVICE_PORT is of a Service ternmq, or of one that is called ternmq-service.
_KINDS: tuple[tuple[re.Pattern[str], Callable[[str], bool]], ...] = (
    (re.compile(r"[A-Z0-9_]+_SERVICE_HOST"), _is_address),
    (re.compile(r"[A-Z0-9_]+_SERVICE_PORT(?:_[A-Z0-9_]+)?"), _is_number),
    (re.compile(r"[A-Z0-9_]+_PORT"), _is_url),
    (re.compile(_ONE_PORT, re.ASCII), _is_url),
    (re.compile(f"{_ONE_PORT}_PROTO", re.ASCII), _PROTOCOLS.__contains__),
    (re.compile(f"{_ONE_PORT}_PORT", re.ASCII), _is_number),
    (re.compile(f"{_ONE_PORT}_ADDR", re.ASCII), _is_address),
)
