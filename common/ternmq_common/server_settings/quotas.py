"""How much a process serves at most."""

from dataclasses import dataclass

from ternmq_common.server_settings.process import ProcessSettings


@dataclass(frozen=True, kw_only=True)
class QuotaSettings(ProcessSettings):
    """The ceiling of a process, whoever calls."""

    overload_delay_ms: int = 200
    """Refuse sends that waited longer before they were looked at, in milliseconds, while something waits longer each
    time for a tenth of a second; 0: never. That is what Apache RocketMQ's brokers wait too."""
