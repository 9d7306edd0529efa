"""Reloads certificates and keys when their files change: new connections use the new ones, open connections go on."""

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Generic, TypeVar

from ternmq_common.errors import StartupError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_rpc.tls.files import Fingerprint, TlsFiles

_log = logging.getLogger(__name__)
T = TypeVar("T")
LOOK_EVERY_S = 5.0
_DAY_S = 24 * 3600.0
WARN_BEFORE_S = 14 * _DAY_S


class Reloading(Generic[T]):
    """A value created from TLS files. `current` is the one of the last files that were usable; `expires_s` is when the
    certificate ends, in seconds since 1970. Both may be read in any thread. `name` is for logs and metrics."""

    def __init__(self, name: str, files: "TlsFiles", make: "Callable[[TlsFiles], T]") -> None:
        """Load the files. StartupError: they can't be used. Blocks."""
        self.name = name
        self._files = files
        self._make = make
        self._loaded: Fingerprint = files.fingerprint()
        self._seen = self._refused = self._loaded
        self.current = make(files)
        self.expires_s = files.expires_s()
        self._warned_s = -_DAY_S
        self._said_exposed = ""
        self._warn()

    @property
    def left_s(self) -> float:
        """Seconds until the certificate ends; below 0 if it has ended."""
        return self.expires_s - time.time()

    def look(self, *, at_once: bool = False) -> None:
        """Load changed files if they have not changed since the last check: two files are replaced one after the other.
        `at_once`: the caller knows that they are complete. Blocks; one thread at a time."""
        seen, self._seen = self._seen, self._files.fingerprint()
        if self._seen != self._loaded and (at_once or (self._seen == seen and self._seen != self._refused)):
            self._take()
        self._warn()

    def _take(self) -> None:
        fingerprint = self._seen
        try:
            made, expires_s = self._make(self._files), self._files.expires_s()
        except StartupError as error:
            self._refused = fingerprint
            _log.warning("the new TLS files (%s) are not used, the old ones stay in use: %s", self.name, error)
            return
        self.current, self.expires_s, self._loaded = made, expires_s, fingerprint
        self._refused = fingerprint
        self._warned_s = -_DAY_S
        _log.info("TLS (%s) has new files; the certificate is valid for %s", self.name, _days(self.left_s))

    def _warn(self) -> None:
        """Warn of an exposed key, and of a certificate that ends soon, once a day."""
        exposed = self._files.exposed() or ""
        if exposed and exposed != self._said_exposed:
            _log.warning("%s; take that right from others (chmod o= FILE), and consider a new key", exposed)
        self._said_exposed = exposed
        if self.left_s < WARN_BEFORE_S and time.monotonic() - self._warned_s >= _DAY_S:
            self._warned_s = time.monotonic()
            state = "has ended" if self.left_s < 0 else f"ends in {_days(self.left_s)}"
            _log.warning(
                "the TLS certificate (%s), %s, %s; put a new one in its place, which is used without a restart",
                self.name, self._files.cert, state,
            )  # fmt: skip


async def poll_loop(all_: "list[Reloading[T]]", hurry: asyncio.Event, *, every_s: float = LOOK_EVERY_S) -> None:
    """Check the files every few seconds, and at once when `hurry` is set."""
    while True:
        hurry.clear()
        try:
            async with asyncio.timeout(every_s):
                await hurry.wait()
        except TimeoutError:
            pass
        for each in all_:
            try:
                await asyncio.to_thread(each.look, at_once=hurry.is_set())
            except Exception:  # noqa: BLE001 - the outermost of this task, and it logs
                _log.exception("cannot read the TLS files (%s)", each.name)


def _days(left_s: float) -> str:
    days = int(left_s / _DAY_S)
    return f"{days} days" if days > 1 else f"{int(left_s / 3600)} hours"
