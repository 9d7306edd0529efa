"""Whether a broker accepts and delivers messages now."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ternmq_broker.sending.flusher import LogFlusher
    from ternmq_broker.upkeep.disk_room import DiskSpaceWatch


class ReplicationGate(Protocol):
    """The replication's permission for its leader to store; `server/replication/leader.py` implements it."""

    def check_serves(self) -> None:
        """Raise MessagingError while messages may not be delivered."""

    def check_sends(self, topic: str) -> None:
        """Raise MessagingError while messages of the topic may not be accepted."""


class Admission:
    """Refuses messages while the disk, or the replication, does not allow them."""

    def __init__(self, flusher: "LogFlusher", room: "DiskSpaceWatch") -> None:
        self.gate: ReplicationGate | None = None
        """A leader with followers checks this before it accepts or delivers messages."""
        self._flusher = flusher
        self._room = room

    def check_durable(self) -> None:
        """Raise MessagingError if nothing can become durable any more."""
        if self._flusher.failure is not None:
            raise self._flusher.failure

    def check_accepts(self, topic: str) -> None:
        """Raise MessagingError while messages of the topic may not be accepted."""
        if self._flusher.failure is not None:
            raise self._flusher.failure
        if self._room.refuses:
            raise self._room.create_refusal()
        if self.gate is not None:
            self.gate.check_sends(topic)

    def check_serves(self) -> None:
        """Raise MessagingError while messages may not be delivered."""
        if self.gate is not None:
            self.gate.check_serves()
