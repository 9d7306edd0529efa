"""Refuses requests that pages of other sites may have caused (CSRF, DNS rebinding); reads the caller of a request.

Any page can make a browser send requests here, so requests that change something must be JSON, and must not come from
pages of other origins. And the name of another site may resolve to this server (DNS rebinding): without access control,
requests must name the server by an address, as localhost, or by a name in the setting `console_hosts`.
"""

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ternmq_runtime.http.basic import HttpCaller, read_caller

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

_READS = ("GET", "HEAD", "OPTIONS")
_JSON = "application/json"
_OWN_SITES = ("same-origin", "none")
_LOCAL = "localhost"


def caller_of_request(request: "Request") -> HttpCaller:
    """Return the caller of a request, by the header `authorization` and the address."""
    host = "" if request.client is None else request.client.host
    return read_caller(request.headers.get("authorization", ""), host)


class RequestGate:
    """Checks requests; `hosts` are the allowed names of this server, `is_guarded` is true with access control."""

    def __init__(self, hosts: "frozenset[str]", *, is_guarded: bool) -> None:
        self._hosts = hosts
        self.is_guarded = is_guarded

    def refusal_reason(self, method: str, headers: "Mapping[str, str]", *, has_body: bool, is_form: bool) -> str | None:
        """Return why the request is refused, None if it is not.

        `is_form` is true for pages, whose forms are no JSON and are checked by their token.
        """
        host = headers.get("host", "")
        if not self.is_guarded and not self._is_own(host):
            return (
                f"this server is not known as {host!r}: use its address, or add the name to the setting console_hosts"
            )
        if method in _READS:
            return None
        if headers.get("sec-fetch-site", "none") not in _OWN_SITES or not _is_same_origin(headers.get("origin"), host):
            return "this request comes from a page of another site"
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if not is_form and kind != _JSON and (has_body or kind):
            return f"the body must be JSON, with content-type {_JSON}"
        return None

    def _is_own(self, host: str) -> bool:
        name = _host_name(host)
        return name == _LOCAL or name in self._hosts or _is_address(name)


def _host_name(host: str) -> str:
    """Return the host of a header `host`, without its port; empty if it has none."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_same_origin(origin: str | None, host: str) -> bool:
    """Return whether the origin is this server; true without an origin, since pages always have one."""
    return origin is None or urlsplit(origin).netloc.lower() == host.lower()
