"""TLS of clients: which servers they trust, their own certificate, and what a TLS failure means.

    Producer("mq.example.com:8081", tls=True)
    Producer("10.0.0.7:8081", tls=TlsOptions(ca="ca.pem", server_name="mq.example.com"))
    Producer("mq.example.com:8081", tls=TlsOptions(ca="ca.pem", client_cert="me.pem", client_key="me.key"))

Files are PEM. They are read when a connection is opened, so that the next one uses a renewed client certificate.
Versions below TLS 1.2 are refused.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ternmq.errors import UnusableFile

if TYPE_CHECKING:
    import ssl

    import grpc

Pem: TypeAlias = str | os.PathLike[str] | bytes
"""A path, or the content itself as bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    """The options of TLS: trusted servers, and the client's own certificate.

    ca            the authorities to trust; those of the system by default
    client_cert   the client's own certificate, with its chain, for servers that require one
    client_key    its private key
    server_name   the name in the server's certificate, if it differs from the one that is connected to
    """

    ca: Pem | None = field(default=None, repr=False)
    client_cert: Pem | None = field(default=None, repr=False)
    client_key: Pem | None = field(default=None, repr=False)
    server_name: str | None = None

    def __post_init__(self) -> None:
        if (self.client_cert is None) != (self.client_key is None):
            raise ValueError("client_cert and client_key belong together: one of them is missing")

    def ssl_context(self) -> "ssl.SSLContext":
        """Create the context for gRPC. `UnusableFile`."""
        context = self._create_context()
        context.set_alpn_protocols(["h2"])
        return context

    def https_context(self) -> "ssl.SSLContext":
        """Create the context for HTTP/1.1. `UnusableFile`."""
        return self._create_context()

    def _create_context(self) -> "ssl.SSLContext":
        import ssl

        try:
            ca = None if self.ca is None else _read_content(self.ca).decode("ascii")
            context = ssl.create_default_context(cadata=ca)
        except (ValueError, ssl.SSLError):
            raise UnusableFile(f"{_describe_pem('ca', self.ca)} has no certificates in PEM") from None
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.client_cert is not None and self.client_key is not None:
            # Without this OpenSSL would request a passphrase at the terminal, even in a service.
            try:
                with _as_file(self.client_cert) as cert, _as_file(self.client_key) as key:
                    context.load_cert_chain(cert, key, password=lambda: b"")
            except (OSError, ValueError):  # ssl.SSLError is an OSError
                certificate = _describe_pem("client_cert", self.client_cert)
                key = _describe_pem("client_key", self.client_key)
                raise UnusableFile(
                    f"{certificate} and {key} are no certificate and its key in PEM, without a passphrase"
                ) from None
        return context

    def channel_credentials(self) -> "grpc.ChannelCredentials":
        """Create the credentials for a program's own channels of grpcio, which clients do not need; checked as
        `ssl_context` is, since grpcio does not say what is wrong."""
        import grpc

        self._create_context()
        ca, cert, key = (
            None if pem is None else _read_content(pem) for pem in (self.ca, self.client_cert, self.client_key)
        )
        return grpc.ssl_channel_credentials(ca, key, cert)


Tls: TypeAlias = bool | TlsOptions
"""Whether to use TLS, and how: True trusts what the system trusts."""


def tls_options(tls: Tls) -> TlsOptions | None:
    """Return the options, None for a plain connection. TypeError for anything else than a `Tls`."""
    if isinstance(tls, TlsOptions):
        return tls
    if isinstance(tls, bool):
        return TlsOptions() if tls else None
    raise TypeError(f"tls is True, False or TlsOptions, which {type(tls).__name__} is not")


def advise_on_failure(details: str, *, uses_tls: bool) -> tuple[str, bool]:
    """Return what to do about a connection that failed with these words of OpenSSL or `ternmq_rpc`, "" if it has
    nothing to do with TLS; and whether it may recover by itself."""
    text = details.lower()
    for words, reason in _REFUSALS:
        if any(word in text for word in words):
            return reason, False
    if _CLOSED_AT_ONCE in text:
        return (_CLOSED_TLS if uses_tls else _CLOSED_PLAIN), True
    return "", True


# Part of the errors of `ternmq_rpc` for a server that closes a connection after the first bytes.
_CLOSED_AT_ONCE = "closed before the server sent anything"
_CLOSED_PLAIN = "if the server speaks TLS only, switch it on in the client (tls)"
_CLOSED_TLS = "if the server wants a client certificate, give one that it trusts (client_cert, client_key)"
# In this order: all errors about the server's certificate also have the words of the last one of them.
_REFUSALS = (
    (("certificate has expired",), "the server's certificate has expired: renew it, or set this machine's clock"),
    (("certificate is not yet valid",), "the server's certificate is for later: set this machine's clock"),
    (
        ("hostname mismatch", "ip address mismatch", "hostname verification check failed"),
        "the server's certificate is for another name: connect to the name in it, or give that one (server_name)",
    ),
    (
        ("certificate_verify_failed", "certificate verify failed", "its certificate is refused"),
        "the server's certificate is of no authority that the client trusts: give the right one (ca)",
    ),
    (
        ("wrong_version_number", "wrong version number"),
        "the server speaks no TLS there: switch it off in the client (tls)",
    ),
    (
        ("certificate_required", "certificate required", "alert_unknown_ca", "alert unknown ca", "bad_certificate"),
        "the server wants a client certificate that it trusts: give one (client_cert, client_key)",
    ),
)


def _read_content(pem: Pem) -> bytes:
    if isinstance(pem, bytes):
        return pem
    try:
        return Path(pem).read_bytes()
    except OSError as error:
        raise UnusableFile(f"{Path(pem)} can't be read: {error.strerror or error}") from None


@contextmanager
def _as_file(pem: Pem) -> Iterator[str]:
    """Return a path for as long as the block lasts: Python's ssl loads certificates and keys only from files."""
    import tempfile  # few need it

    with ExitStack() as stack:
        if isinstance(pem, bytes):
            file = stack.enter_context(tempfile.NamedTemporaryFile())  # for this user alone
            file.write(pem)
            file.flush()
            yield file.name
        else:
            _read_content(pem)
            yield os.fspath(pem)


def _describe_pem(name: str, pem: Pem | None) -> str:
    return name if pem is None or isinstance(pem, bytes) else str(Path(pem))
