"""Settings of the embedded stack."""

from dataclasses import dataclass

from ternmq_common.resources.setting import InvalidSetting, setting
from ternmq_common.server_settings.front import FrontSettings
from ternmq_common.server_settings.storage import StorageSettings


@dataclass(frozen=True, kw_only=True)
class ServerSettings(FrontSettings, StorageSettings):
    """`ternmq up`: the embedded stack. May change between restarts."""

    test_clock: bool = setting(
        False, "Let clients move the clock (`ternmq clock advance`): for tests of applications only.", flag=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.body_bytes_max > self.segment_bytes // 2:
            raise InvalidSetting("body_bytes_max", "at most half a segment (segment_bytes) is allowed")
        if self.test_clock and self.workers > 1:
            raise InvalidSetting("workers", "a test clock (test_clock) moves the time of one process; 1 goes with it")
