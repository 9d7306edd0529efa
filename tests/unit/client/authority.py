"""An authority for the time of a test, and the certificates that it issues."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import trustme

EXPIRED = datetime(2020, 1, 1, tzinfo=UTC)


class Authority:
    """`ca` is its own certificate, in PEM."""

    def __init__(self) -> None:
        self._ca = trustme.CA()
        self.ca = self._ca.cert_pem.bytes()

    def issued(self, name: str, *, is_expired: bool = False, ends_in: timedelta | None = None) -> tuple[bytes, bytes]:
        """A certificate with its chain, and its key, in PEM."""
        ends = None if ends_in is None else datetime.now(UTC) + ends_in
        leaf = self._ca.issue_cert(name, not_after=EXPIRED if is_expired else ends)
        return b"".join(part.bytes() for part in leaf.cert_chain_pems), leaf.private_key_pem.bytes()

    def server(
        self,
        name: str = "127.0.0.1",
        *,
        is_expired: bool = False,
        ends_in: timedelta | None = None,
        wants_client: bool = False,
    ) -> grpc.ServerCredentials:
        """What a server of gRPC needs to be `name`; it may want a client certificate of this authority."""
        certificate, key = self.issued(name, is_expired=is_expired, ends_in=ends_in)
        return grpc.ssl_server_credentials([(key, certificate)], self.ca if wants_client else None, wants_client)

    def ca_file(self, folder: Path) -> Path:
        file = folder / "ca.pem"
        file.write_bytes(self.ca)
        return file
