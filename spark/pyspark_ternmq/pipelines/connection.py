"""The endpoint and credentials of a pipeline, as options of the source and the sink."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineConnection:
    """An endpoint with what it takes to talk to it. Keys appear in no repr; the data source keeps them out of plans."""

    endpoint: str
    tls: bool = False
    tls_ca_file: str | None = None
    tls_certificate_file: str | None = None
    tls_key_file: str | None = None
    tls_server_name: str | None = None
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    request_timeout_ms: int | None = None

    def options(self) -> dict[str, str]:
        """Return the options for `spark.readStream.format("ternmq").options(...)` and the writers."""
        values = {
            "endpoint": self.endpoint,
            "tls": "true" if self.tls else None,
            "tlsCaFile": self.tls_ca_file,
            "tlsCertificateFile": self.tls_certificate_file,
            "tlsKeyFile": self.tls_key_file,
            "tlsServerName": self.tls_server_name,
            "accessKey": self.access_key,
            "secretKey": self.secret_key,
            "sessionToken": self.session_token,
            "requestTimeoutMs": None if self.request_timeout_ms is None else str(self.request_timeout_ms),
        }
        return {name: value for name, value in values.items() if value is not None}
