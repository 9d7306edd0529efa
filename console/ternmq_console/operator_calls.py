"""The interface by which the console and the JSON API make calls of the server."""

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ternmq_runtime.http.basic import HttpCaller

# Requests and answers have the types of the service's descriptor, which can't be annotated for all calls.
Message = Any


class NotSignedIn(Exception):
    """No user of this server has that name and secret."""


class ServerBusy(Exception):
    """The server did not answer in time, or not at all; the call may have been carried out."""


class OperatorCalls(Protocol):
    """Calls of one server; access control and the audit log treat them like calls by gRPC."""

    async def sign_in(self, asker: "HttpCaller") -> None:
        """Check that the caller is a user, if access control is on, before work that precedes a call.

        Raises NotSignedIn and DeskBusy.
        """

    async def call(self, name: str, request: Message, asker: "HttpCaller") -> list[Message]:
        """Make a call, and return the frames of its answer: one, unless the call streams several.

        The `status` of the first frame is that of the call. Raises NotSignedIn and DeskBusy.
        """
