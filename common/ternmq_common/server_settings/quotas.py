"""Settings of how much a process serves at most."""

from dataclasses import dataclass

from ternmq_common.server_settings.process import ProcessSettings


@dataclass(frozen=True, kw_only=True)
class QuotaSettings(ProcessSettings):
    """The limit of a process, for all its clients together."""

    overload_delay_ms: int = 1000
    """Refuse sends that waited longer before they were read, in milliseconds, while the wait has grown for a tenth of a
    second; 0: never. Official clients give a send up after 3 seconds: without a bound below that, a server that is
    behind would store for clients that have gone, and fall further behind by their repetitions."""
