"""How much clients may have a process remember of them. No honest client comes near; what is beyond is refused with
TOO_MANY_REQUESTS, so that those which are known go on.
"""

from typing import TYPE_CHECKING, NoReturn

from ternmq_common.errors import MessagingError
from ternmq_common.limits import MIB
from ternmq_protos.v2 import definition_pb2

if TYPE_CHECKING:
    from ternmq_protos.v2.definition_pb2 import Settings

CLIENTS_MAX = 100_000
# Topics of one client's settings, of all that are remembered, and the bytes of those that differ.
ENTRIES_MAX = 1024
ALL_ENTRIES_MAX = 500_000
SETTINGS_BYTES_MAX = MIB
ALL_SETTINGS_BYTES_MAX = 64 * MIB


def entries_of(settings: "Settings | None") -> int:
    """How many topics the settings name."""
    return 0 if settings is None else len(settings.publishing.topics) + len(settings.subscription.subscriptions)


def check_size(settings: "Settings") -> None:
    """TOO_MANY_REQUESTS for settings that no client has."""
    if (entries := entries_of(settings)) > ENTRIES_MAX:
        refuse(f"the settings name {entries} topics; {ENTRIES_MAX} are allowed")
    if (size := settings.ByteSize()) > SETTINGS_BYTES_MAX:
        refuse(f"the settings have {size} bytes; {SETTINGS_BYTES_MAX} are allowed")


def refuse(text: str) -> NoReturn:
    raise MessagingError(definition_pb2.TOO_MANY_REQUESTS, text)
