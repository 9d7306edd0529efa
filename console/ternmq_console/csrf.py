"""Refuses requests that pages of other sites may have caused (CSRF, DNS rebinding); reads the caller of a request.

A browser sends what a page of somebody else asks it to, so requests that change something are taken as JSON only and
not from pages of other origins. And a page of somebody else may have its name lead to this server (DNS rebinding):
where nobody has to say who he is, requests must name the server by an address, as localhost, or by a name that the
setting `console_hosts` has.
"""

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ternmq_runtime.http.basic import Asker, asker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

_READS = ("GET", "HEAD", "OPTIONS")
_JSON = "application/json"
_OWN_SITES = ("same-origin", "none")
_LOCAL = "localhost"


def asker_of(request: "Request") -> Asker:
    """Who asks, by the header `authorization`."""
    host = "" if request.client is None else request.client.host
    return asker(request.headers.get("authorization", ""), host)


class Gate:
    """`hosts` are names by which this server may be asked; `is_guarded`: who asks has to say who he is."""

    def __init__(self, hosts: "frozenset[str]", *, is_guarded: bool) -> None:
        self._hosts = hosts
        self.is_guarded = is_guarded

    def refusal(self, method: str, headers: "Mapping[str, str]", *, has_body: bool, is_form: bool) -> str | None:
        """Why the request is not taken, None if it is. `is_form`: it is for a page, whose forms are known otherwise."""
        host = headers.get("host", "")
        if not self.is_guarded and not self._is_own(host):
            return (
                f"this server is not known as {host!r}: ask it by its address, or let the setting console_hosts have "
                "that name"
            )
        if method in _READS:
            return None
        if headers.get("sec-fetch-site", "none") not in _OWN_SITES or not _is_of(headers.get("origin"), host):
            return "this comes from a page of another site"
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if not is_form and kind != _JSON and (has_body or kind):
            return f"a body is JSON here, with content-type {_JSON}"
        return None

    def _is_own(self, host: str) -> bool:
        name = _name_of(host)
        return name == _LOCAL or name in self._hosts or _is_address(name)


def _name_of(host: str) -> str:
    """The host of a header `host`, without its port; empty for none."""
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


def _is_of(origin: str | None, host: str) -> bool:
    """Whether a page of that origin is this server's; who names none is no page."""
    return origin is None or urlsplit(origin).netloc.lower() == host.lower()
