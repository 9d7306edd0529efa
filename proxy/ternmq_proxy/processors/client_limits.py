"""Limits of what a process remembers of clients. No honest client comes near them; beyond them new clients are refused
with TOO_MANY_REQUESTS, so that the known ones can go on."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.limits import MIB, SETTINGS_TOPICS_MAX

if TYPE_CHECKING:
    from ternmq_proxy.processors.client_settings import ClientSettings

# For all clients together: topics in remembered settings.
ALL_ENTRIES_MAX = 500_000
SETTINGS_BYTES_MAX = MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimits:
    """The most clients, topics in all their settings, and bytes of settings that differ."""

    clients_max: int = 100_000
    entries_max: int = ALL_ENTRIES_MAX
    settings_bytes_max: int = 64 * MIB


CLIENT_LIMITS = ClientLimits()


def check_size(settings: "ClientSettings") -> None:
    """Raise TOO_MANY_REQUESTS for settings that are too large."""
    if settings.entry_count > SETTINGS_TOPICS_MAX:
        refuse_excess(f"the settings name {settings.entry_count} topics; {SETTINGS_TOPICS_MAX} are allowed")
    if settings.size > SETTINGS_BYTES_MAX:
        refuse_excess(f"the settings have {settings.size} bytes; {SETTINGS_BYTES_MAX} are allowed")


def refuse_excess(text: str) -> NoReturn:
    raise MessagingError(ErrorCode.TOO_MANY_REQUESTS, text)
