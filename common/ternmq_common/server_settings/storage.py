"""Settings of a process with a store."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from ternmq_common.cluster import FlushMode
from ternmq_common.limits import GIB, HOUR_MS, MINUTE_MS, SECOND_MS
from ternmq_common.server_settings.process import ProcessSettings
from ternmq_common.settings import InvalidSetting

MEMBER_NAME = re.compile(r"[A-Za-z0-9_.-]{1,127}", re.ASCII)
"""Of a broker, and of a replica."""
MEMBER_NAME_ALLOWED = "1 to 127 letters, digits and the characters _ . - are allowed"


@dataclass(frozen=True, kw_only=True)
class StorageSettings(ProcessSettings):
    """Settings of a process with a store."""

    data_dir: Path = Path("ternmq-data")
    """Everything that survives a restart; one process at a time."""

    broker_name: str = "broker-0"
    """The shard's name in routes; clients remember queues by it."""

    flush: FlushMode = FlushMode.SYNC
    """When a message is acknowledged: after fdatasync, or after the write."""

    segment_bytes: int = field(default=GIB, metadata={"flag": "--segment-size"})
    """Bytes of one commit log file; retention removes whole files."""

    retention_ms: int = field(default=72 * HOUR_MS, metadata={"flag": "--retention"})
    """How long a message is kept, consumed or not, in milliseconds."""

    retention_check_interval_ms: int = MINUTE_MS
    """Milliseconds between two checks for files that are older than the retention."""

    disk_free_min_bytes: int | None = field(default=None, metadata={"flag": "--disk-free-min"})
    """Bytes that new messages must leave free on the disk; auto: 5 % of it, 1GiB at least and 10 % at most; 0: none."""

    store_scrub_days: int = 7
    """How many days a check of the whole commit log for damage takes, slowly in the background; 0: none."""

    transaction_timeout_ms: int = 6 * SECOND_MS
    """How long a half message waits for its first transaction check, if it doesn't say so itself; in milliseconds."""

    transaction_check_interval_ms: int = 30 * SECOND_MS
    """Milliseconds between two checks of the same transaction."""

    transaction_check_max: int = 15
    """How many checks a transaction gets before it is discarded."""

    transactions_max: int = 100_000
    """How many transactions may be open at the same time."""

    consumption_flush_interval_ms: int = SECOND_MS
    """Milliseconds between two writes of the groups' progress; a crash redelivers what was finished since."""

    accept_corruption: bool = False
    """Start although records that were durable can't be read any more; those, and no others, are lost."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not MEMBER_NAME.fullmatch(self.broker_name):
            raise InvalidSetting("broker_name", MEMBER_NAME_ALLOWED)
