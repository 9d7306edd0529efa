"""Whose calls come in: what the headers and the connection say, and of which user they are."""

from dataclasses import replace
from typing import TYPE_CHECKING

from ternmq_common.printable import find_name_problem
from ternmq_proxy.access.control import AUTHORIZATION, DATE
from ternmq_proxy.call import Call
from ternmq_proxy.fronts.grpc.call_spans import TRACEPARENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ternmq_common.server_settings import ClientListener
    from ternmq_protos.v2 import definition_pb2
    from ternmq_proxy.access.authentication import UserIdentity
    from ternmq_proxy.fronts.grpc.refusals import RefusalLog
    from ternmq_proxy.services import Services
    from ternmq_rpc.grpc_stream.served_call import ServedCall

_CLIENT_ID, _LANGUAGE, _VERSION = "x-mq-client-id", "x-mq-language", "x-mq-client-version"
_OPTIONS = "x-ternmq-options"


def kept_headers(*, signed: bool) -> tuple[str, ...]:
    """The headers that calls are to keep; `signed`: they say whose they are."""
    return (_CLIENT_ID, _LANGUAGE, _VERSION, _OPTIONS, TRACEPARENT, *((AUTHORIZATION, DATE) if signed else ()))


class ClientCallers:
    """Makes a `Call` of what is served. `listeners` are by their addresses."""

    def __init__(self, services: "Services", listeners: "Mapping[str, ClientListener]", refusals: "RefusalLog") -> None:
        self._services = services
        self._listeners = listeners
        self._refusals = refusals

    def identify_caller(self, served: "ServedCall", name: str) -> Call:
        """The call as far as it is like others of its client on this connection: how long it may last is not said.
        Noted, if it names a client. NotAuthenticated if nobody knows whose it is; TOO_MANY_REQUESTS if that client, or
        its user, has as many connections as it may."""
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
        """Count the connection as that client's and user's, unless it is already."""
        known = served.note
        if isinstance(known, Call) and (known.client_id, known.user) == (call.client_id, call.user):
            return
        self.forget_connection(known)
        served.note = None
        self._services.quotas.add_connection(call.user, call.client_id)

    def forget_connection(self, note: object) -> None:
        """A connection is that client's no more."""
        if isinstance(note, Call):
            self._services.quotas.remove_connection(note.user, note.client_id)

    def authenticate_caller(self, served: "ServedCall", name: str) -> "UserIdentity | None":
        """Who says that it is his; None if nobody has to. NotAuthenticated."""
        client_id = served.headers.get(_CLIENT_ID, "")
        return self._services.access.authenticate_call(served.headers, name, client_id, served.peer)

    def make_call(self, served: "ServedCall", identity: "UserIdentity | None" = None) -> Call:
        """The call with the time that it has left now."""
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
        """Have the log say it."""
        client_id = served.headers.get(_CLIENT_ID, "")
        self._refusals.log_refusal(name, status.code, status.message, client_id=client_id, peer=served.peer)
