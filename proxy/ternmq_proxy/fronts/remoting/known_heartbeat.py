"""The last heartbeat of a connection: a client repeats it every 30 s, and nothing of a repeated one is read again."""

from typing import TYPE_CHECKING, Final

from ternmq_proxy.processors.clients import ClientRegistry, ConnectedClient
from ternmq_proxy.processors.group_members import GroupMembers, MemberReport

if TYPE_CHECKING:
    from ternmq_proxy.processors.client_settings import ClientSettings
    from ternmq_rpc.remoting.commands import Command


class ListedClient:
    """A client as the registry of clients listed it when the heartbeat was read, with its settings and its group."""

    __slots__ = ("client", "group", "settings")

    def __init__(self, client: ConnectedClient) -> None:
        self.client: Final = client
        self.settings: Final[ClientSettings | None] = client.settings
        self.group: Final = client.group


class KnownHeartbeat:
    """A heartbeat that was accepted, and what it led to. It counts for the same bytes only while the registry has the
    same version, and all that it led to is as it was."""

    __slots__ = ("_digest", "_listed", "_version", "report")

    def __init__(
        self, command: "Command", user: str, version: int, report: MemberReport, listed: list[ListedClient]
    ) -> None:
        self._digest: Final = _digest_heartbeat(command, user)
        self._version: Final = version
        self.report: Final = report
        self._listed: Final = listed

    def is_repeated_by(self, command: "Command", user: str, version: int) -> bool:
        """Return whether the request is the same heartbeat of the same user again, at the same version of the
        registry."""
        return version == self._version and _digest_heartbeat(command, user) == self._digest

    def renew_client(self, members: GroupMembers, clients: ClientRegistry) -> bool:
        """Note that the client is alive; return False, with nothing noted, if it must be read again."""
        for each in self._listed:
            if not clients.is_unchanged(each.client, each.settings, each.group):
                return False
        if not members.renew_member(self.report):
            return False
        for each in self._listed:
            clients.renew_client(each.client)
        return True


def _digest_heartbeat(command: "Command", user: str) -> int:
    """Return a number that differs between heartbeats that say something else."""
    return hash((command.version, command.language, user, command.body))
