"""h2spec, which knows what RFC 9113 and RFC 7541 ask for, against the front and against a call that waits.

Each case that may fail has its argument beside it; one that fails without, or passes with, is a failure.
"""

import re
from pathlib import Path

import pytest

from tests.interop.conformance.relay import relay_to
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
# A GET is refused at once, maybe before the next frame of the case has come: the case sees the refusal, a whole answer,
# where it looks for an error. Against the call that waits each of them has to pass.
_REFUSAL = re.compile(r"HEADERS Frame \(length:\d+, flags:0x05, stream_id:\d+\)$")
WAITING: dict[str, str] = {}


async def test_the_front(tmp_path: Path) -> None:
    with Stack(tmp_path) as stack:
        found = await h2spec(int(stack.grpc.rpartition(":")[2]), FRONT_PATH, tmp_path / "report.xml")
    assert len(found) == CASES
    of_rules = {name: what for name, what in found.items() if name in FRONT or not _REFUSAL.search(what)}
    assert differences(of_rules, FRONT) == []


async def test_a_call_that_waits_for_its_client(tmp_path: Path) -> None:
    async with serving() as address, relay_to(address) as port:
        found = await h2spec(port, WAITING_PATH, tmp_path / "report.xml")
    assert len(found) == CASES
    assert differences(found, WAITING) == []
