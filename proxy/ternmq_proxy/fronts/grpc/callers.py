"""Identifies the client and user of each call, from its headers and connection."""

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ternmq_common.printable import find_name_problem
from ternmq_proxy.access.control import AUTHORIZATION, DATE
from ternmq_proxy.call import Call
from ternmq_proxy.fronts.grpc.call_spans import TRACEPARENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ternmq_common.server_settings import ClientListener
    from ternmq_protos.v2 import definition_pb2
    from ternmq_proxy.access.authentication import UserIdentity
    from ternmq_proxy.fronts.refusals import RefusalLog
    from ternmq_proxy.services import Services
    from ternmq_rpc.grpc_stream.served_call import ServedCall

_CLIENT_ID: Final = "x-mq-client-id"
_LANGUAGE: Final = "x-mq-language"
_VERSION: Final = "x-mq-client-version"
_OPTIONS: Final = "x-ternmq-options"


def kept_headers(*, signed: bool) -> tuple[str, ...]:
    """Return the headers that calls keep; with `signed` also those of the signature."""
    return (_CLIENT_ID, _LANGUAGE, _VERSION, _OPTIONS, TRACEPARENT, *((AUTHORIZATION, DATE) if signed else ()))


class ClientCallers:
    """Makes the `Call` of each served call. `listeners` are by address."""

    def __init__(self, services: "Services", listeners: "Mapping[str, ClientListener]", refusals: "RefusalLog") -> None:
        self._services = services
        self._listeners = listeners
        self._refusals = refusals

    def identify_caller(self, served: "ServedCall", name: str) -> Call:
        """Return the call without its time limit, as it is for all calls of its client on this connection. It is noted
        on the connection if it names a client. Raises NotAuthenticated, and TOO_MANY_REQUESTS if the client or its user
        has too many connections."""
        known = served.note
        client_id = served.headers.get(_CLIENT_ID, "")
        if (
            isinstance(known, Call)
            and known.client_id == client_id
            and known.options == served.headers.get(_OPTIONS, "")
            and self._services.access.is_same(known.identity, served.headers)
        ):
            return known
        call = replace(self.make_call(served, self.authenticate_caller(served, name)), remaining_s=None)
        if client_id.strip() and not find_name_problem(client_id):
            self._count_connection(served, call)
            served.note = call
        return call

    def _count_connection(self, served: "ServedCall", call: Call) -> None:
        """Count the connection for that client and user, unless it is counted already."""
        known = served.note
        if isinstance(known, Call) and (known.client_id, known.user) == (call.client_id, call.user):
            return
        self.forget_connection(known)
        served.note = None
        self._services.quotas.add_connection(call.user, call.client_id)

    def forget_connection(self, note: object) -> None:
        """Stop counting the connection of a noted client."""
        if isinstance(note, Call):
            self._services.quotas.remove_connection(note.user, note.client_id)

    def authenticate_caller(self, served: "ServedCall", name: str) -> "UserIdentity | None":
        """Return the user who calls, None if access control is off. Raises NotAuthenticated."""
        client_id = served.headers.get(_CLIENT_ID, "")
        return self._services.access.authenticate_call(served.headers, name, client_id, served.peer)

    def make_call(self, served: "ServedCall", identity: "UserIdentity | None" = None) -> Call:
        """Return the call with the time that is left now."""
        headers = served.headers
        return Call(
            client_id=headers.get(_CLIENT_ID, ""),
            language=headers.get(_LANGUAGE, ""),
            version=headers.get(_VERSION, ""),
            peer=served.peer,
            user="" if identity is None else identity.user,
            identity=identity,
            listener=self._listeners[served.listener],
            remaining_s=served.remaining_s(),
            options=headers.get(_OPTIONS, ""),
        )

    def log_refused(self, name: str, status: "definition_pb2.Status", served: "ServedCall") -> None:
        """Log that the call was refused."""
        client_id = served.headers.get(_CLIENT_ID, "")
        self._refusals.log_refusal(name, status.code, status.message, client_id=client_id, peer=served.peer)
