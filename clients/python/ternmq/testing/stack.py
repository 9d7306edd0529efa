"""The embedded stack in the process of a test: `ternmq up` with a folder, ports and a clock of its own."""

import dataclasses
import secrets
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from ternmq.connections.credentials import Credentials
from ternmq.connections.tls import Tls
from ternmq.errors import NotRunning
from ternmq.testing.controls import Controls
from ternmq.testing.known_settings import check_names
from ternmq.testing.server_thread import ServerThread
from ternmq_common.addresses import parse_address
from ternmq_common.clock import MovableClock, SystemClock
from ternmq_common.server_settings import ServerSettings
from ternmq_common.settings import load_settings

ANY_PORT = "127.0.0.1:0"
# Settings that differ for a test. The data need not survive the machine, and clients that a test left open aren't
# waited for. Many tests may use names of their own, one after the other, in one stack.
DEFAULTS: dict[str, object] = {
    "grpc": ANY_PORT,
    "http": ANY_PORT,
    "flush": "async",
    "test_clock": True,
    "shutdown_grace_ms": 100,
    "auto_create_per_minute": 1_000_000,
}
SUPER_USER = "root"
_SECRET_BYTES = 24
# A stack in a test's process can't start other processes.
_OF_PROCESSES = frozenset({"workers"})


class Stack(Controls):
    """A broker of a test's own, in this process.

        with Stack(transaction_timeout_ms="2s") as stack:
            producer = Producer(stack.endpoint, topics=["orders"])

    The keywords are settings of `ternmq up`, as `ternmq config` lists them; text with a unit is fine. Environment
    variables are ignored. With `data_dir` the data stays there when the stack is closed; otherwise it is in a
    temporary folder.

    With `access_control=True` there is a super user, whose `credentials` are for the calls of this object and for
    clients; `ternmq.blocking.Admin` creates others. With a certificate (`tls_cert`, `tls_key`) set in `tls` how it is
    verified.

    It is independent of all other stacks: folder, ports, topics, clock. `stop` and `start` keep all of
    these, also the time. StartupError says why a stack can't start.

    Invariants: `_thread` exists while the server runs; `_clock` is that of its last run.
    """

    def __init__(self, *, tls: Tls = False, **settings: object) -> None:
        check_names(settings, without=_OF_PROCESSES)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._has_folder = "data_dir" in settings
        loaded = load_settings(ServerSettings, file=None, environ={}, flags=DEFAULTS | settings).settings
        if loaded.access_control:
            loaded = _with_super_user(loaded)
            assert loaded.init_user is not None
            assert loaded.init_secret is not None
            self.credentials = Credentials(loaded.init_user, loaded.init_secret)
        self.settings = loaded
        self.tls = tls
        self._thread: ServerThread | None = None
        self._clock = MovableClock()

    @property
    def endpoint(self) -> str:
        return self._check_address(self.settings.grpc)

    @property
    def http(self) -> str:
        """The address of the server's health, `host:port`."""
        return self._check_address(self.settings.http)

    @property
    def admin_endpoint(self) -> str:
        return self.endpoint if self.settings.admin is None else self._check_address(self.settings.admin)

    def start(self) -> None:
        """Start the server; after a `stop`, on the same ports and data, and with the same time."""
        assert self._thread is None, "the stack runs already"
        if not self._has_folder:
            self._make_folder()
        # A clock wakes its sleepers when it is moved, so each run has its own. Time doesn't go back in between.
        clock = MovableClock(self._clock.ahead_ms) if self.settings.test_clock else SystemClock()
        thread = ServerThread(self.settings, clock)
        grpc, http, admin = thread.start_server()
        self._thread = thread
        if isinstance(clock, MovableClock):
            self._clock = clock
        self.settings = dataclasses.replace(self.settings, grpc=grpc, http=http, admin=admin or None)

    def stop(self) -> None:
        """End the server in order; its data stays until `close`. Does nothing if it doesn't run."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop_server()

    def restart(self) -> None:
        """End the server in order and start it again."""
        self.stop()
        self.start()

    def close(self) -> None:
        """End the server for good, and remove its data unless the folder was given."""
        try:
            self.stop()
        finally:
            if self._temporary is not None:
                self._temporary.cleanup()
                self._temporary, self._has_folder = None, False

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _make_folder(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="ternmq-", ignore_cleanup_errors=True)
        self.settings = dataclasses.replace(self.settings, data_dir=Path(self._temporary.name))
        self._has_folder = True

    @staticmethod
    def _check_address(address: str) -> str:
        if parse_address(address)[1] == 0:
            raise NotRunning("the stack was not started; `with Stack() as stack` does that")
        return address


def _with_super_user(settings: ServerSettings) -> ServerSettings:
    """Return settings with a super user, whose secret lasts as long as the stack."""
    return dataclasses.replace(
        settings,
        init_user=settings.init_user or SUPER_USER,
        init_secret=settings.init_secret or secrets.token_urlsafe(_SECRET_BYTES),
    )
