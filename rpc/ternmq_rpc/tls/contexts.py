"""Contexts of TLS as all sides of a cluster have them: TLS 1.2 and 1.3, ciphers with forward secrecy that authenticate
what they encrypt, no compression, no renegotiation, and no tickets: a connection lasts, and each one verifies its
client anew."""

import ssl
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.errors import StartupError
from ternmq_common.server_settings import ClientAuth, TlsVersion

if TYPE_CHECKING:
    from ternmq_rpc.tls.files import TlsFiles

# Of TLS 1.2; those of 1.3 are all of this kind.
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
_VERIFY = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.OPTIONAL: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}
HTTP_2, HTTP_1 = "h2", "http/1.1"


class FrontContexts(NamedTuple):
    """Of one certificate, for each thing that is spoken."""

    grpc: ssl.SSLContext
    http: ssl.SSLContext


def front_contexts(
    files: "TlsFiles", *, auth: ClientAuth = ClientAuth.NONE, least: TlsVersion = TlsVersion.TLS_1_2
) -> FrontContexts:
    """Those of a front: of whoever speaks HTTP/1.1 no certificate is asked. StartupError. Blocks."""
    return FrontContexts(
        grpc=server_context(files, HTTP_2, auth=auth, least=least),
        http=server_context(files, HTTP_1, least=least),
    )


def server_context(
    files: "TlsFiles",
    protocol: str = HTTP_2,
    *,
    auth: ClientAuth = ClientAuth.NONE,
    least: TlsVersion = TlsVersion.TLS_1_2,
) -> ssl.SSLContext:
    """A server that offers the protocol. StartupError: a file is not what it should be. Blocks."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= (
        ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET | ssl.OP_CIPHER_SERVER_PREFERENCE
    )
    context.num_tickets = 0
    _prepare(context, files, protocol, least)
    context.verify_mode = _VERIFY[auth]
    return context


def member_server(files: "TlsFiles") -> ssl.SSLContext:
    """A broker, to whom only members with a certificate of the cluster's CA may speak. StartupError. Blocks."""
    return server_context(files, auth=ClientAuth.REQUIRED)


def member_client(files: "TlsFiles") -> ssl.SSLContext:
    """A member that speaks only to brokers with a certificate of the cluster's CA for their address. StartupError.
    Blocks."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # which verifies, names too
    _prepare(context, files, HTTP_2, TlsVersion.TLS_1_2)
    return context


class MemberContexts(NamedTuple):
    """Of one certificate, of a process that others of its cluster speak to, and that speaks to others."""

    server: ssl.SSLContext
    client: ssl.SSLContext


def member_contexts(files: "TlsFiles") -> MemberContexts:
    """See `member_server` and `member_client`."""
    return MemberContexts(member_server(files), member_client(files))


def _prepare(context: ssl.SSLContext, files: "TlsFiles", protocol: str, least: TlsVersion) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_3 if least is TlsVersion.TLS_1_3 else ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.set_alpn_protocols([protocol])
    files.check_readable()
    try:
        # With an empty passphrase OpenSSL asks nobody at the terminal.
        context.load_cert_chain(files.cert, files.key, password="")
    except (ssl.SSLError, OSError, ValueError) as error:
        raise StartupError(_refused(files, error)) from None
    if files.ca is None:
        return
    try:
        context.load_verify_locations(files.ca)
    except (ssl.SSLError, OSError) as error:
        raise StartupError(f"{files.ca_setting}: {files.ca} has no certificates in PEM form: {_of(error)}") from None


def _refused(files: "TlsFiles", error: Exception) -> str:
    names = f"{files.prefix}_cert, {files.prefix}_key"
    if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
        return f"{names}: {files.key} is not the key of the first certificate in {files.cert}"
    return f"{names}: {files.cert} and {files.key} are no certificate and key in PEM form: {_of(error)}"


def _of(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return str(reason).replace("_", " ").lower() if reason else "OpenSSL can't read them"
