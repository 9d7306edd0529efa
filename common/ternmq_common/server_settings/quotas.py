"""How much a process serves at most."""

from dataclasses import dataclass

from ternmq_common.server_settings.process import ProcessSettings


@dataclass(frozen=True, kw_only=True)
class QuotaSettings(ProcessSettings):
    """The ceiling of a process, whoever calls."""
