"""Certificates and keys in files. Every function here blocks as long as the disk takes.

A StartupError of this module names the setting, the file, and the fault.
"""

import stat
from dataclasses import dataclass
from pathlib import Path

from ternmq_common.errors import StartupError
from ternmq_common.installing import install_hint

Fingerprint = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """The certificate and key of one side, and the CA that verifies the other. `prefix` begins the names of the
    settings."""

    prefix: str
    cert: Path
    key: Path
    ca: Path | None = None
    ca_setting: str = ""

    def read_fingerprint(self) -> Fingerprint:
        """Return a value that changes when a file does, with None for a file that does not exist."""
        return tuple(_file_identity(path) for path in (self.cert, self.key, self.ca) if path is not None)

    def read_expiry_s(self) -> float:
        """Return when the first of the certificates ends, in seconds since 1970."""
        try:
            from cryptography import x509
        except ModuleNotFoundError:
            raise StartupError(f"TLS needs the package cryptography: {install_hint('server')}") from None
        data = _read_file(f"{self.prefix}_cert", self.cert)
        try:
            certificates = x509.load_pem_x509_certificates(data)
        except ValueError as error:
            raise StartupError(f"{self.prefix}_cert: {self.cert} is no certificate in PEM form: {error}") from None
        return min(certificate.not_valid_after_utc.timestamp() for certificate in certificates)

    def check_readable(self) -> None:
        """StartupError for the first file that can't be read, and for a key that has a passphrase."""
        _read_file(f"{self.prefix}_cert", self.cert)
        key = _read_file(f"{self.prefix}_key", self.key)
        if b"ENCRYPTED" in key:
            raise StartupError(
                f"{self.prefix}_key: {self.key} has a passphrase, which a server cannot enter; take it off with "
                "`openssl pkey -in FILE -out NEW`, and let only the server's user read the new file"
            )
        if self.ca is not None:
            _read_file(self.ca_setting, self.ca)

    def exposed_warning(self) -> str | None:
        """Return a warning if every user of the machine may read the key."""
        try:
            mode = self.key.stat().st_mode
        except OSError:
            return None
        if not mode & stat.S_IRWXO:
            return None
        return f"{self.prefix}_key: every user of this machine may read {self.key} (mode {stat.S_IMODE(mode):o})"


def _file_identity(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read_file(setting: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StartupError(f"{setting}: {path} can't be read: {error.strerror}") from None
