"""Creates TLS contexts for all processes of a cluster: TLS 1.2 and 1.3, ciphers with forward secrecy and authenticated
encryption, no compression, no renegotiation, and no tickets: connections last, and each one verifies its client."""

import ssl
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.errors import StartupError
from ternmq_common.server_settings import ClientAuth, TlsVersion

if TYPE_CHECKING:
    from ternmq_rpc.tls.files import TlsFiles

# For TLS 1.2; all ciphers of 1.3 are of this kind.
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
_VERIFY = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.OPTIONAL: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}
HTTP_2, HTTP_1 = "h2", "http/1.1"


class FrontContexts(NamedTuple):
    """The contexts of one certificate, one for each protocol."""

    grpc: ssl.SSLContext
    http: ssl.SSLContext


def create_front_contexts(
    files: "TlsFiles", *, auth: ClientAuth = ClientAuth.NONE, least: TlsVersion = TlsVersion.TLS_1_2
) -> FrontContexts:
    """Create the contexts of a front. Clients of HTTP/1.1 need no certificate. StartupError. Blocks."""
    return FrontContexts(
        grpc=create_server_context(files, HTTP_2, auth=auth, least=least),
        http=create_server_context(files, HTTP_1, least=least),
    )


def create_server_context(
    files: "TlsFiles",
    protocol: str = HTTP_2,
    *,
    auth: ClientAuth = ClientAuth.NONE,
    least: TlsVersion = TlsVersion.TLS_1_2,
) -> ssl.SSLContext:
    """Create the context of a server that offers the protocol. StartupError: a file is not usable. Blocks."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= (
        ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET | ssl.OP_CIPHER_SERVER_PREFERENCE
    )
    context.num_tickets = 0
    _configure_context(context, files, protocol, least)
    context.verify_mode = _VERIFY[auth]
    return context


def member_server_context(files: "TlsFiles") -> ssl.SSLContext:
    """Create the context of a broker; only members with a certificate of the cluster's CA may connect. StartupError.
    Blocks."""
    return create_server_context(files, auth=ClientAuth.REQUIRED)


def member_client_context(files: "TlsFiles") -> ssl.SSLContext:
    """Create the context of a member that connects only to brokers with a certificate of the cluster's CA for their
    address. StartupError. Blocks."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # which verifies, names too
    _configure_context(context, files, HTTP_2, TlsVersion.TLS_1_2)
    return context


class MemberContexts(NamedTuple):
    """The contexts of one certificate for a process that is both a server and a client in its cluster."""

    server: ssl.SSLContext
    client: ssl.SSLContext


def create_member_contexts(files: "TlsFiles") -> MemberContexts:
    """Create both contexts; see `member_server_context` and `member_client_context`."""
    return MemberContexts(member_server_context(files), member_client_context(files))


def _configure_context(context: ssl.SSLContext, files: "TlsFiles", protocol: str, least: TlsVersion) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_3 if least is TlsVersion.TLS_1_3 else ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.set_alpn_protocols([protocol])
    files.check_readable()
    try:
        # With an empty passphrase OpenSSL does not prompt at the terminal.
        context.load_cert_chain(files.cert, files.key, password="")
    except (ssl.SSLError, OSError, ValueError) as error:
        raise StartupError(_describe_refusal(files, error)) from None
    if files.ca is None:
        return
    try:
        context.load_verify_locations(files.ca)
    except (ssl.SSLError, OSError) as error:
        raise StartupError(
            f"{files.ca_setting}: {files.ca} has no certificates in PEM form: {_describe_reason(error)}"
        ) from None


def _describe_refusal(files: "TlsFiles", error: Exception) -> str:
    names = f"{files.prefix}_cert, {files.prefix}_key"
    if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
        return f"{names}: {files.key} is not the key of the first certificate in {files.cert}"
    return f"{names}: {files.cert} and {files.key} are no certificate and key in PEM form: {_describe_reason(error)}"


def _describe_reason(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return str(reason).replace("_", " ").lower() if reason else "OpenSSL can't read them"
