"""Certificates for tests: a CA, a server's, and those of clients that may come in, and may not."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme

from ternmq_rpc.tls.files import TlsFiles

HOST = "127.0.0.1"


class Certificates:
    """Files in a folder: `ca.pem`, and `NAME.pem`, `NAME.key` of each that was issued."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.authority = trustme.CA()
        self.ca = folder / "ca.pem"
        self.authority.cert_pem.write_to_path(self.ca)

    def issue(self, name: str, *hosts: str, ends_in: timedelta = timedelta(days=365)) -> tuple[Path, Path]:
        """The files of a new certificate and its key; an old one of that name is replaced."""
        cert, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        issued = self.authority.issue_cert(*(hosts or (HOST, "localhost")), not_after=datetime.now(UTC) + ends_in)
        cert.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        key.touch(mode=0o600)
        key.write_bytes(issued.private_key_pem.bytes())
        return cert, key

    def files(self, name: str = "server", *, verifies: bool = False, prefix: str = "tls") -> TlsFiles:
        """A new certificate of that name, with this CA to verify the other side by."""
        cert, key = self.issue(name)
        return TlsFiles(
            prefix=prefix, cert=cert, key=key, ca=self.ca if verifies else None, ca_setting=f"{prefix}_client_ca"
        )

    def client(self, shown: tuple[Path, Path] | None = None, *, alpn: str | None = "h2") -> ssl.SSLContext:
        """A client that believes this CA, and shows a certificate if it has one."""
        context = ssl.create_default_context(cafile=str(self.ca))
        if alpn is not None:
            context.set_alpn_protocols([alpn])
        if shown is not None:
            context.load_cert_chain(*shown)
        return context
