"""Settings of how much a process serves at most."""

from dataclasses import dataclass

from ternmq_common.limits import SECOND_MS
from ternmq_common.resources.setting import setting
from ternmq_common.server_settings.process import ProcessSettings


@dataclass(frozen=True, kw_only=True)
class QuotaSettings(ProcessSettings):
    """The limit of a process, for all its clients together."""

    overload_delay_ms: int = setting(
        1000,
        "Refuse sends that waited longer before they were read, while the wait has grown for a tenth of a second; "
        "0: never. Official clients give a send up after 3 seconds: without a bound below that, a server that is "
        "behind would store for clients that have gone, and fall further behind by their repetitions.",
        within=(0, 10 * SECOND_MS), see="security.md#quotas-and-overload",
    )  # fmt: skip
