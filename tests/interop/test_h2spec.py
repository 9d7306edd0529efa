"""h2spec, which knows what RFC 9113 and RFC 7541 ask for, against the front and against a call that waits;
both in plain text and over TLS.

Each case that may fail has its argument beside it; one that fails without, or passes with, is a failure.
"""

import ssl
from pathlib import Path

import pytest

from tests.interop.conformance.relay import Gatherer, GrpcMaker, relay_to
from tests.interop.conformance.service import WAITING_PATH, serving, tls_of
from tests.interop.conformance.tools import differences, h2spec
from tests.support.guarded import GuardedStack, dev_certificates

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]

CASES = 145
FRONT_PATH = "/apache.rocketmq.v2.MessagingService/QueryRoute"
# Cases that fail, and why that is right; of the front and of the waiting call.
_NO_DATA = "what the case asks for by GET is no call: the refusal has no DATA, of which the case needs some"
FRONT = {
    "generic/2#2": _NO_DATA,
    "generic/2#3": _NO_DATA,
    "http2/5.1.2#1": "each GET of the case is refused at once, so that none of its streams is open beside another",
    "http2/6.5.3#1": _NO_DATA,
    "http2/6.9.1#1": _NO_DATA,
    "http2/6.9.2#1": _NO_DATA,
    "http2/6.9.2#2": _NO_DATA,
}
WAITING: dict[str, str] = {}


@pytest.fixture(params=["plain", "tls"])
def certificates(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """What the server has for TLS; it is asked in plain text without."""
    return dev_certificates(tmp_path / "certificates") if request.param == "tls" else None


def context_of(certificates: Path | None) -> ssl.SSLContext | None:
    """The relay's, which brings the judge's bytes to the server: h2spec's own TLS believes everything."""
    if certificates is None:
        return None
    context = ssl.create_default_context(cafile=certificates / "ca.pem")
    context.set_alpn_protocols(["h2"])
    return context


async def test_the_front(certificates: Path | None, tmp_path: Path) -> None:
    with GuardedStack(tmp_path, certificates=certificates, access_control=False) as stack:
        async with relay_to(stack.grpc, Gatherer, context_of(certificates)) as port:
            found = await h2spec(port, FRONT_PATH, tmp_path / "report.xml")
    assert len(found) == CASES
    assert differences(found, FRONT) == []


async def test_a_call_that_waits_for_its_client(certificates: Path | None, tmp_path: Path) -> None:
    tls = tls_of(certificates) if certificates else None
    async with serving(tls) as address, relay_to(address, GrpcMaker, context_of(certificates)) as port:
        found = await h2spec(port, WAITING_PATH, tmp_path / "report.xml")
    assert len(found) == CASES
    assert differences(found, WAITING) == []
