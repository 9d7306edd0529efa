"""Settings of TLS. A certificate, its chain and its key are files in PEM form; `ternmq_rpc.tls` reads them, again
whenever they change."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from ternmq_common.resources.setting import InvalidSetting, setting
from ternmq_common.server_settings.process import ProcessSettings

if TYPE_CHECKING:
    from collections.abc import Sequence


class TlsMode(StrEnum):
    """Whether a port accepts TLS: `off` plain text only, `optional` both, `required` TLS only."""

    OFF = "off"
    OPTIONAL = "optional"
    REQUIRED = "required"


class ClientAuth(StrEnum):
    """Whether a client must show a certificate. With `none` certificates are not verified."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRED = "required"


class TlsVersion(StrEnum):
    """The oldest TLS that is accepted."""

    TLS_1_2 = "1.2"
    TLS_1_3 = "1.3"


@dataclass(frozen=True, kw_only=True)
class CertificateSettings(ProcessSettings):
    """The certificate of a process, and TLS of HTTP."""

    tls_cert: Path | None = setting(
        None,
        "File of the server's certificate, and of those between it and its CA, in PEM form; read again when it "
        "changes.",
        flag=True, see="security.md#tls",
    )  # fmt: skip
    tls_key: Path | None = setting(
        None, "File of the certificate's key, in PEM form, without a passphrase.", flag=True, see="security.md#tls"
    )
    tls_handshakes_per_second: int = setting(
        400,
        "Handshakes of TLS that begin each second at a port; others wait, and addresses take turns.",
        within=(1, 100_000), expert=True, see="security.md#tls",
    )  # fmt: skip
    tls_min_version: TlsVersion = setting(TlsVersion.TLS_1_2, "The oldest TLS that is accepted.", see="security.md#tls")
    http_tls: TlsMode | None = setting(
        None,
        "Whether HTTP takes TLS: off, optional (plain text at the same port too) or required; auto: optional with a "
        "certificate, off without. It asks no client for a certificate.",
        auto=True, see="security.md#tls",
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_together(self, ("tls_cert", "tls_key"))
        self._check_certificate("http_tls")

    def _check_certificate(self, name: str) -> None:
        if getattr(self, name) not in (None, TlsMode.OFF) and self.tls_cert is None:
            raise InvalidSetting(name, "TLS needs a certificate (tls_cert, tls_key)")

    @property
    def http_tls_mode(self) -> TlsMode:
        """The value of `http_tls`, with `auto` resolved."""
        return self.http_tls or (TlsMode.OFF if self.tls_cert is None else TlsMode.OPTIONAL)


@dataclass(frozen=True, kw_only=True)
class TlsSettings(CertificateSettings):
    """TLS of a process that serves clients."""

    grpc_tls: TlsMode | None = setting(
        None,
        "Whether the gRPC front takes TLS: off, optional (plain text at the same port too) or required; auto: "
        "required with a certificate, off without.",
        flag=True, auto=True, see="security.md#tls",
    )  # fmt: skip
    tls_client_ca: Path | None = setting(
        None,
        "File of the CA certificates by which certificates of clients are verified.",
        flag=True, see="security.md#tls",
    )  # fmt: skip
    tls_client_auth: ClientAuth | None = setting(
        None,
        "Whether clients of the gRPC front must show a certificate: none (not requested), optional or required; auto: "
        "required with tls_client_ca, none without.",
        auto=True, see="security.md#tls",
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("grpc_tls", "tls_client_ca"):
            self._check_certificate(name)
        if self.tls_client_auth not in (None, ClientAuth.NONE) and self.tls_client_ca is None:
            raise InvalidSetting("tls_client_auth", "certificates of clients need a CA (tls_client_ca)")

    @property
    def grpc_tls_mode(self) -> TlsMode:
        """The value of `grpc_tls`, with `auto` resolved."""
        return self.grpc_tls or (TlsMode.OFF if self.tls_cert is None else TlsMode.REQUIRED)

    @property
    def client_auth(self) -> ClientAuth:
        """The value of `tls_client_auth`, with `auto` resolved."""
        return self.tls_client_auth or (ClientAuth.NONE if self.tls_client_ca is None else ClientAuth.REQUIRED)


@dataclass(frozen=True, kw_only=True)
class ClusterTlsSettings(ProcessSettings):
    """TLS between proxies and brokers, in which each side verifies the other. All three files, or none: plain text."""

    cluster_tls_cert: Path | None = setting(
        None,
        "File of the certificate that this process shows to brokers or proxies, in PEM form; read again when it "
        "changes.",
        flag=True,
    )
    cluster_tls_key: Path | None = setting(
        None, "File of that certificate's key, in PEM form, without a passphrase.", flag=True
    )
    cluster_tls_ca: Path | None = setting(
        None,
        "File of the CA certificates by which the other side is verified: a CA of the cluster's own, since everyone "
        "with a certificate of it counts as a member.",
        flag=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_together(self, ("cluster_tls_cert", "cluster_tls_key", "cluster_tls_ca"))


def _check_together(settings: ProcessSettings, names: "Sequence[str]") -> None:
    missing = [name for name in names if getattr(settings, name) is None]
    if missing and len(missing) < len(names):
        there = next(name for name in names if name not in missing)
        raise InvalidSetting(there, f"{' and '.join(missing)} {'go' if len(missing) > 1 else 'goes'} with it")
