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
Loaded = TypeVar("Loaded")
LOOK_EVERY_S = 5.0
_DAY_S = 24 * 3600.0
WARN_BEFORE_S = 14 * _DAY_S


class ReloadedFiles(Generic[Loaded]):
    """A value created from TLS files. `current` is the one of the last files that were usable; `expires_s` is when
    the certificate ends, in seconds since 1970. Both may be read in any thread. `name` is for logs and metrics."""

    def __init__(self, name: str, files: "TlsFiles", create: "Callable[[TlsFiles], Loaded]") -> None:
        """Load the files. StartupError: they can't be used. Blocks."""
        self.name = name
        self._files = files
        self._make = create
        self._loaded: Fingerprint = files.read_fingerprint()
        self._seen = self._refused = self._loaded
        self.current = create(files)
        self.expires_s = files.read_expiry_s()
        self._warned_s = -_DAY_S
        self._logged_exposed = ""
        self._log_warnings()

    @property
    def left_s(self) -> float:
        """Seconds until the certificate ends; below 0 if it has ended."""
        return self.expires_s - time.time()

    def check_files(self, *, immediately: bool = False) -> None:
        """Load changed files if they have not changed since the last check: two files are replaced one after the other.
        `immediately`: the caller knows that they are complete. Blocks; one thread at a time."""
        seen, self._seen = self._seen, self._files.read_fingerprint()
        if self._seen != self._loaded and (immediately or (self._seen == seen and self._seen != self._refused)):
            self._load_files()
        self._log_warnings()

    def _load_files(self) -> None:
        fingerprint = self._seen
        try:
            loaded, expires_s = self._make(self._files), self._files.read_expiry_s()
        except StartupError as error:
            self._refused = fingerprint
            _log.warning("the new TLS files (%s) are not used, the old ones stay in use: %s", self.name, error)
            return
        self.current, self.expires_s, self._loaded = loaded, expires_s, fingerprint
        self._refused = fingerprint
        self._warned_s = -_DAY_S
        _log.info("TLS (%s) has new files; the certificate is valid for %s", self.name, _format_left(self.left_s))

    def _log_warnings(self) -> None:
        """Warn of an exposed key, and of a certificate that ends soon, once a day."""
        exposed = self._files.exposed_warning() or ""
        if exposed and exposed != self._logged_exposed:
            _log.warning("%s; take that right from others (chmod o= FILE), and consider a new key", exposed)
        self._logged_exposed = exposed
        if self.left_s < WARN_BEFORE_S and time.monotonic() - self._warned_s >= _DAY_S:
            self._warned_s = time.monotonic()
            state = "has ended" if self.left_s < 0 else f"ends in {_format_left(self.left_s)}"
            _log.warning(
                "the TLS certificate (%s), %s, %s; put a new one in its place, which is used without a restart",
                self.name, self._files.cert, state,
            )  # fmt: skip


async def poll_files(
    all_: "list[ReloadedFiles[Loaded]]", hurry: asyncio.Event, *, every_s: float = LOOK_EVERY_S
) -> None:
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
                await asyncio.to_thread(each.check_files, immediately=hurry.is_set())
            except Exception:  # noqa: BLE001 - the outermost of this task, and it logs
                _log.exception("cannot read the TLS files (%s)", each.name)


def _format_left(left_s: float) -> str:
    days = int(left_s / _DAY_S)
    return f"{days} days" if days > 1 else f"{int(left_s / 3600)} hours"
