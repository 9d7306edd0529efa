"""Settings of a process with a store."""

import re
from dataclasses import dataclass
from pathlib import Path

from ternmq_common.catalog.cluster import FlushMode
from ternmq_common.limits import DAY_MS, GIB, HOUR_MS, MIB, MINUTE_MS, SECOND_MS
from ternmq_common.resources.setting import InvalidSetting, setting
from ternmq_common.server_settings.process import ProcessSettings

MEMBER_NAME = re.compile(r"[A-Za-z0-9_.-]{1,127}", re.ASCII)
"""Of a broker, and of a replica."""
MEMBER_NAME_ALLOWED = "1 to 127 letters, digits and the characters _ . - are allowed"


@dataclass(frozen=True, kw_only=True)
class StorageSettings(ProcessSettings):
    """Settings of a process with a store."""

    data_dir: Path = setting(
        Path("ternmq-data"), "Everything that survives a restart; one process at a time.", flag=True, form="FOLDER"
    )
    broker_name: str = setting(
        "broker-0",
        "The shard's name in routes; clients remember queues by it.",
        flag=True, form="NAME",
    )  # fmt: skip
    flush: FlushMode = setting(
        FlushMode.SYNC,
        "When a message is acknowledged: after fdatasync, one for all sends that wait, or after the write; it is on "
        "the disk within half a second then.",
        flag=True,
    )
    segment_bytes: int = setting(
        GIB,
        "Size of one commit log file; retention removes whole files.",
        within=(MIB, 2 * GIB), flag="--segment-size",
    )  # fmt: skip
    retention_ms: int = setting(
        72 * HOUR_MS,
        "How long a message is kept, consumed or not.",
        within=(MINUTE_MS, 3650 * DAY_MS), flag="--retention",
    )  # fmt: skip
    retention_check_interval_ms: int = setting(
        MINUTE_MS,
        "Time between two checks for files that are older than the retention.",
        within=(100, DAY_MS), expert=True,
    )  # fmt: skip
    disk_free_min_bytes: int | None = setting(
        None,
        "Space that new messages must leave free on the disk: with less they are refused, and with less than twice "
        "that, retention runs every second; auto: 5 % of the disk, 1GiB at least and 10 % at most; 0: none.",
        within=(0, 1024 * 1024 * GIB), flag="--disk-free-min", auto=True,
    )  # fmt: skip
    store_scrub_days: int = setting(
        7,
        "How many days a check of the whole commit log for damage takes, slowly in the background; 0: none.",
        within=(0, 3650), see="durability.md#damage-of-the-log",
    )  # fmt: skip
    transaction_timeout_ms: int = setting(
        6 * SECOND_MS,
        "How long a half message waits for its first transaction check, if it doesn't say so itself.",
        within=(100, HOUR_MS),
    )
    transaction_check_interval_ms: int = setting(
        30 * SECOND_MS, "Time between two checks of the same transaction.", within=(100, HOUR_MS)
    )
    transaction_check_max: int = setting(
        15, "How many checks a transaction gets before it is discarded.", within=(1, 1000)
    )
    transactions_max: int = setting(
        100_000,
        "How many transactions may be open at the same time; more are refused with TOO_MANY_REQUESTS.",
        within=(1, 10_000_000),
    )
    consumption_flush_interval_ms: int = setting(
        SECOND_MS,
        "Time between two writes of the groups' progress; a crash redelivers what was finished since.",
        within=(10, MINUTE_MS), expert=True,
    )  # fmt: skip
    accept_corruption: bool = setting(
        False,
        "Start although records that were durable can't be read any more; those, and no others, are lost.",
        flag=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not MEMBER_NAME.fullmatch(self.broker_name):
            raise InvalidSetting("broker_name", MEMBER_NAME_ALLOWED)
