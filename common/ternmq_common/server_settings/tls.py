"""What a process does about TLS."""

from dataclasses import dataclass

from ternmq_common.server_settings.process import ProcessSettings


@dataclass(frozen=True, kw_only=True)
class TlsSettings(ProcessSettings):
    """Certificates of a process, and whom it believes."""
