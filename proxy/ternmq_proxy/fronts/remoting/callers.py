"""Identifies the caller of a remoting call: the client by its heartbeats, the user by the request's signature."""

import binascii
from base64 import b64decode
from typing import TYPE_CHECKING, Final

from ternmq_common.server_settings import ClientListener
from ternmq_proxy.access.authentication import NotAuthenticated
from ternmq_proxy.call import Call
from ternmq_proxy.fronts.remoting.codes import ResponseCode
from ternmq_proxy.fronts.remoting.refusals import RequestRefused
from ternmq_rpc.remoting.commands import Language

if TYPE_CHECKING:
    from ternmq_proxy.access.authentication import UserIdentity
    from ternmq_proxy.fronts.remoting.call import ClientConnection
    from ternmq_proxy.services import Services
    from ternmq_rpc.remoting.commands import Command
    from ternmq_rpc.remoting.served_request import ServedRequest

_ACCESS_KEY: Final = "AccessKey"
_SIGNATURE: Final = "Signature"
_UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"
# Clients up to 4.9.3 leave a field out of what they sign.
_SIGNS_ALL_FROM: Final = 400
_LANGUAGES: Final = {int(each): each.name for each in Language}
_OTHER: Final = Language.OTHER.name


class RemotingCallers:
    """Makes the `Call` of each request."""

    def __init__(self, services: "Services", listener: ClientListener) -> None:
        self._services = services
        self._listener = listener

    def identify_caller(
        self, request: "ServedRequest", client: "ClientConnection", name: str, *, never_waits: bool = False
    ) -> Call:
        """Return the call of the request of this name; one that never waits shares it with others of its connection.
        RequestRefused if its signature is wrong."""
        command, peer = request.command, request.connection.peer
        identity = None
        if not self._services.access.is_on:
            known = client.known_call if never_waits else None
            if known is not None and known.client_id == (client.client_id or peer):
                return known
        else:
            identity = self._authenticate_caller(command, client.client_id, peer, name)
        call = Call(
            # The client tells its id in its heartbeat, which may come after its first messages.
            client_id=client.client_id or peer,
            language=language_name(command.language),
            version=str(command.version),
            peer=peer,
            user="" if identity is None else identity.user,
            identity=identity,
            listener=self._listener,
            room=None if never_waits else request.open_answer_room(),
            cancel=None if never_waits else request.cancel_task,
        )
        if never_waits:
            client.known_call = call
        return call

    def _authenticate_caller(self, command: "Command", client_id: str, peer: str, name: str) -> "UserIdentity | None":
        access_key = command.fields.get(_ACCESS_KEY, "")
        try:
            signature = b64decode(command.fields.get(_SIGNATURE, ""), validate=True)
        except (binascii.Error, ValueError):
            signature = b""
        try:
            return self._services.access.authenticate_content(
                access_key, signature, signed_content(command), rpc=name, client_id=client_id, peer=peer
            )
        except NotAuthenticated as error:
            remark = error.message if access_key else "username cannot be null."
            raise RequestRefused(ResponseCode.NO_PERMISSION, remark) from None


def language_name(code: int) -> str:
    """Return the name of a client's language; OTHER for an unknown one."""
    return _LANGUAGES.get(code, _OTHER)


def signed_content(command: "Command") -> bytes:
    """Return what the client has signed: all fields but the signature, sorted by name, and the body."""
    left_out = {_SIGNATURE}
    if command.version < _SIGNS_ALL_FROM:
        left_out.add(_UNIQUE_KEY_QUERY)
    texts = [value for name, value in sorted(command.fields.items()) if name not in left_out]
    return "".join(texts).encode() + command.body
