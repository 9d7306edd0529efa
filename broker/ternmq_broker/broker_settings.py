"""What one broker needs to know."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from ternmq_common.server_settings import FlushMode


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """Sizes in bytes, times in milliseconds; checked where they come from (`ServerSettings`)."""

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
    accept_corruption: bool = False
