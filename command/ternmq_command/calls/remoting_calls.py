"""Calls to a name server or broker by the remoting protocol of RocketMQ, one after the other, over one connection."""

import base64
import hashlib
import hmac
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from ternmq_command.terminal.failures import CommandFailure
from ternmq_common.addresses import parse_address
from ternmq_common.printable import cut_text
from ternmq_rpc.remoting.commands import Command, decode_command, encode_command
from ternmq_rpc.remoting.frames import JSON, FrameReader, RemotingError
from ternmq_rpc.remoting.json_dialect import decode_dialect

SUCCESS = 0
CLUSTER_INFO = 106
TIMEOUT_S = 10.0
# That of 5.5.0: brokers answer older clients with fewer fields.
VERSION = 507
# The tables of a broker with 100,000 topics; the server's own limit is for what clients send.
ANSWER_BYTES_MAX = 256 * 1024 * 1024
_READ_BYTES = 1 << 18


class RemotingUnreachable(CommandFailure):
    """A name server or broker does not answer, or what answers speaks another protocol."""

    exit_code = 3
    word = "REMOTING_UNREACHABLE"


class RemotingRefused(CommandFailure):
    """A name server or broker refused a call."""

    word = "REMOTING_REFUSED"

    def __init__(self, what: str, code: int) -> None:
        super().__init__(what)
        self.code = code


@dataclass(frozen=True, slots=True)
class RemotingAccess:
    """How to connect: with TLS or not, and with which keys; an empty access key signs nothing. The certificate's name
    is `server_name`, empty: that of the address."""

    tls: ssl.SSLContext | None = None
    server_name: str = ""
    access_key: str = ""
    secret_key: str = field(default="", repr=False)


def current_remoting_access() -> RemotingAccess:
    """Return how to connect to a TernMQ server, as the options of TLS and keys of this call say."""
    from ternmq_command.calls.access import current_access

    access = current_access()
    tls, keys = access.tls_options(), access.current_credentials()
    return RemotingAccess(
        None if tls is None else tls.ssl_context(),
        server_name="" if tls is None else tls.server_name or "",
        access_key="" if keys is None else keys.access_key,
        secret_key="" if keys is None else keys.secret_key,
    )


class RemotingCalls:
    """One connection: `with RemotingCalls("10.0.0.1:9876", access) as calls`. Methods may raise RemotingUnreachable."""

    def __init__(self, address: str, access: RemotingAccess) -> None:
        self.address = address
        self._access = access
        self._frames = FrameReader(ANSWER_BYTES_MAX)
        self._number = 0
        try:
            self._socket = self._connect()
        except (OSError, ValueError) as error:
            raise RemotingUnreachable(f"can't reach {cut_text(address)}: {error}") from None

    def _connect(self) -> socket.socket:
        host, port = parse_address(self.address)
        connected = socket.create_connection((host, port), TIMEOUT_S)
        if self._access.tls is None:
            return connected
        try:
            return self._access.tls.wrap_socket(connected, server_hostname=self._access.server_name or host)
        except BaseException:
            connected.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()

    def send_request(self, code: int, **fields: str) -> Command:
        """Send a request, and return the answer. Raises RemotingRefused for one that is not a success."""
        self._number += 1
        request = Command(code, opaque=self._number, fields=sign_fields(fields, b"", self._access), version=VERSION)
        try:
            self._socket.sendall(encode_command(request, JSON))
            answer = self._read_answer()
        except (OSError, RemotingError) as error:
            raise RemotingUnreachable(f"{self.address} gives no answer to request {code}: {error}") from None
        return check_answer(answer, code, self.address)

    def read_table(self, code: int, **fields: str) -> Mapping[str, object]:
        """Send a request whose answer is a JSON object, and return that; RemotingUnreachable if it is none."""
        content = self.read_content(code, **fields)
        if not isinstance(content, dict):
            raise RemotingUnreachable(f"{self.address} answers request {code} with something else than a JSON object")
        return {str(name): value for name, value in content.items()}

    def read_content(self, code: int, **fields: str) -> object:
        """Send a request whose answer is JSON, and return the parsed answer."""
        body = self.send_request(code, **fields).body
        try:
            return decode_dialect(body, bytes_max=ANSWER_BYTES_MAX) if body else {}
        except RemotingError as error:
            raise RemotingUnreachable(f"{self.address} answers request {code} with invalid JSON: {error}") from None

    def _read_answer(self) -> Command:
        while True:
            data = self._socket.recv(_READ_BYTES)
            if not data:
                raise ConnectionError("it closed the connection")
            for frame in self._frames.read_frames(data):
                command = decode_command(*frame)
                if command.is_response and command.opaque == self._number:
                    return command


def sign_fields(fields: dict[str, str], body: bytes, access: RemotingAccess) -> dict[str, str]:
    """Return the fields of a request with its signature, as they are without keys."""
    if not access.access_key:
        return fields
    signed = {**fields, "AccessKey": access.access_key}
    content = "".join(signed[name] for name in sorted(signed)).encode() + body
    digest = hmac.new(access.secret_key.encode(), content, hashlib.sha1).digest()
    return {**signed, "Signature": base64.b64encode(digest).decode()}


def check_answer(answer: Command, code: int, address: str) -> Command:
    """Return the answer to a request of that code. RemotingRefused if it is no success."""
    if answer.code == SUCCESS:
        return answer
    remark = cut_text(answer.remark) or "without a reason"
    raise RemotingRefused(f"{address} refuses request {code} with code {answer.code}: {remark}", answer.code)


def masters_of(content: Mapping[str, object], *, others: bool = True) -> dict[str, str]:
    """Return the addresses of brokers by name, as a name server lists them: of the master, or with `others` of the
    lowest id if there is none."""
    table = content.get("brokerAddrTable")
    found = {}
    for name, broker in table.items() if isinstance(table, dict) else ():
        addresses = broker.get("brokerAddrs") if isinstance(broker, dict) else None
        by_id = {int(number): str(at) for number, at in addresses.items()} if isinstance(addresses, dict) else {}
        if by_id and (others or 0 in by_id):
            found[str(name)] = by_id[min(by_id)]
    return dict(sorted(found.items()))


def find_masters(name_server: RemotingCalls) -> dict[str, str]:
    """Ask a name server for its brokers, and return their addresses as `masters_of` does."""
    return masters_of(name_server.read_table(CLUSTER_INFO))
