"""h2spec, which knows what RFC 9113 and RFC 7541 ask for, against the front and against a call that waits.

Each case that may fail has its argument beside it; one that fails without, or passes with, is a failure.
"""

from pathlib import Path

import pytest

from tests.interop.conformance.relay import Gatherer, GrpcMaker, relay_to
from tests.interop.conformance.service import WAITING_PATH, serving
from tests.interop.conformance.tools import differences, h2spec
from tests.support.stack import Stack

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(900)]

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


async def test_the_front(tmp_path: Path) -> None:
    with Stack(tmp_path) as stack:
        async with relay_to(stack.grpc, Gatherer) as port:
            found = await h2spec(port, FRONT_PATH, tmp_path / "report.xml")
    assert len(found) == CASES
    assert differences(found, FRONT) == []


async def test_a_call_that_waits_for_its_client(tmp_path: Path) -> None:
    async with serving() as address, relay_to(address, GrpcMaker) as port:
        found = await h2spec(port, WAITING_PATH, tmp_path / "report.xml")
    assert len(found) == CASES
    assert differences(found, WAITING) == []
