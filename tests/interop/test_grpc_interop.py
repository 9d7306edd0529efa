"""grpc-go's interop client, as it is, against a service of ours (gRPC's doc/interop-test-descriptions.md), in plain
text and over TLS.

Not here   client_compressed_*, server_compressed_*, cacheable_unary: grpc-go's client has none of them, and the
           front takes compressed bodies inside of messages, not compressed messages.
           pick_first_unary, orca_*: they test the client's balancing and load reports between servers, not a server.
           *_creds, *_auth_token, *_credentials: the test needs accounts of a cloud.
"""

from pathlib import Path

import pytest

from tests.interop.conformance.service import serving, tls_of
from tests.interop.conformance.tools import build, run
from tests.support.guarded import dev_certificates

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(3600)]

CASES = (
    "empty_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "timeout_on_sleeping_server",
    "cancel_after_begin",
    "cancel_after_first_response",
    "status_code_and_message",
    "special_status_message",
    "custom_metadata",
    "unimplemented_method",
    "unimplemented_service",
)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dev_certificates(tmp_path_factory.mktemp("interop") / "certificates")


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("case", CASES)
async def test_case(case: str, tls: bool, certificates: Path) -> None:
    program = str(build() / "client")
    options = ("-use_tls", "-use_test_ca", "-ca_file", str(certificates / "ca.pem")) if tls else ()
    async with serving(tls_of(certificates) if tls else None) as address:
        host, _, port = address.rpartition(":")
        code, output = await run(program, "-server_host", host, "-server_port", port, "-test_case", case, *options)
    assert code == 0, output
