"""How much a process serves at most."""

from dataclasses import dataclass

from ternmq_common.server_settings.process import ProcessSettings


@dataclass(frozen=True, kw_only=True)
class QuotaSettings(ProcessSettings):
    """The ceiling of a process, whoever calls."""

    overload_delay_ms: int = 0
    """Refuse sends beyond what can be done, those first whose clients have most under way, when all have waited so long
    before they were looked at, for a tenth of a second, in milliseconds; 0: never. Where other programs hold the cores,
    requests wait too, and refusing them frees nothing; so who has the cores to itself sets it, 25 say."""
