"""Where calls of operators are carried out: the seam between what is served by HTTP and the server that it is about."""

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ternmq_runtime.http.basic import Asker

# Requests and answers are of the types that the service's descriptor names, which no annotation here can say for all.
Message = Any


class NotSignedIn(Exception):
    """Nobody of that name and password is a user of this server."""


class DeskBusy(Exception):
    """The server did not answer in time, or not at all; what was asked for may have been done."""


class Desk(Protocol):
    """One server. Whoever asks may do there what his policies allow, and it is in the audit log as by gRPC."""

    async def sign_in(self, asker: "Asker") -> None:
        """Say whether he is a user, if one has to be: NotSignedIn, DeskBusy. For what is costly before a call."""

    async def call(self, name: str, request: Message, asker: "Asker") -> list[Message]:
        """The frames of the answer to that call, of its own type: one, unless the call has several. How it went is said
        by the `status` of the first. NotSignedIn, DeskBusy."""
