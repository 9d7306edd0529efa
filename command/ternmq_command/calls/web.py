"""Reads pages of a server's HTTP address, by TLS and with the user's keys where the server needs them."""

import base64
import ipaddress
import urllib.error
import urllib.parse
import urllib.request
from typing import NamedTuple

from ternmq_command.calls.access import current_access
from ternmq_command.terminal.failures import WrongUsage


class HttpAnswer(NamedTuple):
    """An HTTP answer, also one that refuses."""

    status: int
    body: bytes


def build_url(http: str, path: str) -> str:
    """Return the URL of a path; `http` is HOST:PORT or a URL without a path. TLS is used if the gRPC calls use it."""
    if http.startswith(("http://", "https://")):
        return http.rstrip("/") + path
    return f"{'http' if current_access().tls_options() is None else 'https'}://{http}{path}"


def fetch_page(http: str, path: str, *, bytes_max: int, timeout_s: float) -> HttpAnswer:
    """Fetch a page.

    Raises OSError or ValueError when nothing answers or TLS fails, WrongUsage for unusable keys.
    """
    from ternmq.connections.tls import TlsOptions
    from ternmq.errors import UnusableFile

    url = build_url(http, path)
    try:
        secured = (current_access().tls_options() or TlsOptions()).https_context() if url.startswith("https:") else None
    except UnusableFile as error:
        raise WrongUsage(str(error)) from None
    # Never through the web proxy that environment variables may name.
    handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=secured)]
    request = urllib.request.Request(url, headers=authorization_headers(url))  # noqa: S310 - http and https only
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=timeout_s) as answer:
            return HttpAnswer(answer.status, answer.read(bytes_max))
    except urllib.error.HTTPError as error:
        with error:
            return HttpAnswer(error.code, error.read(bytes_max))


def authorization_headers(url: str) -> dict[str, str]:
    """Return the header with the keys; empty for a plain connection to another machine."""
    host = urllib.parse.urlsplit(url).hostname or ""
    if not url.startswith("https:") and not _is_loopback(host):
        return {}
    keys = current_access().current_credentials()
    if keys is None:
        return {}
    basic = base64.b64encode(f"{keys.access_key}:{keys.secret_key}".encode()).decode()
    return {"Authorization": f"Basic {basic}"}


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
