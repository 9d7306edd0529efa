"""The settings of one broker."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from pathlib import Path

    from ternmq_common.server_settings import FlushMode, StorageSettings

STORE: Final = "store"
"""The folder of the store in a data directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """The settings of one broker: sizes in bytes, times in milliseconds; `StorageSettings` checks them."""

    name: str
    folder: "Path"
    flush: "FlushMode"
    segment_bytes: int
    retention_ms: int
    retention_check_interval_ms: int
    consumption_flush_interval_ms: int
    transaction_timeout_ms: int
    transaction_check_interval_ms: int
    transaction_check_max: int
    transactions_max: int
    disk_free_min_bytes: int | None = None
    store_scrub_days: int = 0
    accept_corruption: bool = False

    @classmethod
    def from_storage(cls, settings: "StorageSettings") -> Self:
        """The settings of the broker of a server process, with the store in its data directory."""
        return cls(
            name=settings.broker_name,
            folder=settings.data_dir / STORE,
            flush=settings.flush,
            segment_bytes=settings.segment_bytes,
            retention_ms=settings.retention_ms,
            retention_check_interval_ms=settings.retention_check_interval_ms,
            consumption_flush_interval_ms=settings.consumption_flush_interval_ms,
            transaction_timeout_ms=settings.transaction_timeout_ms,
            transaction_check_interval_ms=settings.transaction_check_interval_ms,
            transaction_check_max=settings.transaction_check_max,
            transactions_max=settings.transactions_max,
            disk_free_min_bytes=settings.disk_free_min_bytes,
            store_scrub_days=settings.store_scrub_days,
            accept_corruption=settings.accept_corruption,
        )
