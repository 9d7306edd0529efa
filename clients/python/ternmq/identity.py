"""Who a client says it is: its id, its credentials, and the metadata that every call carries."""

import functools
import itertools
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ternmq_common.signing import AUTHORIZATION_HEADER, DATE_HEADER, authorization_header
from ternmq_protos.v2 import definition_pb2 as pb

# Servers turn on behaviour by the version of the protocol's clients, textually; ours would count as older than any.
PROTOCOL_CLIENT_VERSION = "5.1.2"
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_indexes = itertools.count()

Metadata = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Credentials:
    """Access key and secret key of a user; with a session token for temporary ones."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


class Identity:
    """One client's name and signature."""

    def __init__(
        self, credentials: Credentials | None, *, client_id: str = "", now_s: Callable[[], float] = time.time
    ) -> None:
        self.client_id = client_id or new_client_id()
        self._credentials = credentials
        self._now_s = now_s
        self._signed_second = -1
        self._metadata: Metadata = (
            ("x-mq-language", "PYTHON"),
            ("x-mq-protocol", "v2"),
            ("x-mq-client-version", PROTOCOL_CLIENT_VERSION),
            ("x-mq-client-id", self.client_id),
        )
        self._signed: Metadata = self._metadata

    def metadata(self) -> Metadata:
        """The metadata of a call that is made now; signed once a second."""
        if self._credentials is not None:
            second = int(self._now_s())
            if second != self._signed_second:
                self._signed = self._metadata + _signature(self._credentials, second)
                self._signed_second = second
        return self._signed


def new_client_id() -> str:
    """`host@pid@index@base36 time`, the form of the official clients."""
    return f"{hostname()}@{os.getpid()}@{next(_indexes)}@{_base36(time.time_ns())}"


@functools.cache
def user_agent() -> pb.UA:
    """What the operator sees of this client."""
    # Here, since they take a third of the time of `import ternmq`.
    import platform
    from importlib import metadata

    return pb.UA(
        language=pb.PYTHON,
        version=f"ternmq-{metadata.version('ternmq')}",
        platform=platform.platform(),
        hostname=hostname(),
    )


@functools.cache
def hostname() -> str:
    return socket.gethostname()


def _signature(credentials: Credentials, second: int) -> Metadata:
    date_text = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(second))
    signature = authorization_header(credentials.access_key, credentials.secret_key, date_text)
    token = (("x-mq-session-token", credentials.session_token),) if credentials.session_token else ()
    return ((DATE_HEADER, date_text), (AUTHORIZATION_HEADER, signature), *token)


def _base36(number: int) -> str:
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
    return text or "0"
