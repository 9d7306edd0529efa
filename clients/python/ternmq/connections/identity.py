"""The identity of a client in every call: its id, and the signature that proves its user."""

import asyncio
import functools
import itertools
import os
import socket
import time
from collections.abc import Callable

from ternmq.connections.credentials import (
    READ_AGAIN_S,
    Credentials,
    CredentialsSource,
    CurrentCredentials,
    sign_headers,
)
from ternmq_protos.v2 import definition_pb2 as pb

# Servers enable features by the version of the protocol's clients, compared as text; our own version would be too old.
PROTOCOL_CLIENT_VERSION = "5.1.2"
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_indexes = itertools.count()

Metadata = tuple[tuple[str, str], ...]


class ClientIdentity:
    """One client's id and signature; TypeError if the credentials are of another type."""

    def __init__(
        self,
        source: CredentialsSource | None,
        *,
        client_id: str = "",
        now_s: Callable[[], float] = time.time,
        read_again_s: float = READ_AGAIN_S,
    ) -> None:
        self.client_id = client_id or new_client_id()
        self._current = CurrentCredentials(source, read_again_s=read_again_s)
        self._now_s = now_s
        self._signed_as: tuple[Credentials, int] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._metadata: Metadata = (
            ("x-mq-language", "PYTHON"),
            ("x-mq-protocol", "v2"),
            ("x-mq-client-version", PROTOCOL_CLIENT_VERSION),
            ("x-mq-client-id", self.client_id),
        )
        self._signed: Metadata = self._metadata

    def add_options(self, text: str) -> None:
        """Add options for the server to all calls; before the first one. Servers other than TernMQ ignore them."""
        self._metadata = self._signed = (*self._metadata, ("x-ternmq-options", text))

    @property
    def may_have_changed(self) -> bool:
        """Whether credentials should be read again, by `refresh_credentials` or `read_and_sign`."""
        return self._current.is_due

    def sign_metadata(self) -> Metadata:
        """Return the metadata of a call that is sent now; signed once a second."""
        credentials = self._current.credentials
        if credentials is not None:
            signed_as = (credentials, int(self._now_s()))
            if signed_as != self._signed_as:
                self._signed = self._metadata + sign_headers(*signed_as)
                self._signed_as = signed_as
        return self._signed

    def read_and_sign(self) -> Metadata:
        """Return the same, for a thread that may wait for a file."""
        if self._current.is_due:
            self._current.read_source()
        return self.sign_metadata()

    async def refresh_credentials(self) -> None:
        """Read credentials in a thread. Only the first ones are waited for, and only they can fail."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(asyncio.to_thread(self._current.read_source))
        if self._current.credentials is None:
            await asyncio.shield(self._reading)


def new_client_id() -> str:
    """Return `host@pid@index@base36 time`, the form of the official clients."""
    return f"{host_name()}@{os.getpid()}@{next(_indexes)}@{_base36(time.time_ns())}"


@functools.cache
def create_user_agent() -> pb.UA:
    """Return what the operator sees of this client."""
    # Imported here, since they take a third of the time of `import ternmq`.
    import platform
    from importlib import metadata

    system = platform.uname()  # `platform.platform()` also needs the processor, for which it starts a process
    return pb.UA(
        language=pb.PYTHON,
        version=f"ternmq-{metadata.version('ternmq')}",
        platform="-".join((system.system, system.release, system.machine)),
        hostname=host_name(),
    )


@functools.cache
def host_name() -> str:
    return socket.gethostname()


def _base36(number: int) -> str:
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
    return text or "0"
