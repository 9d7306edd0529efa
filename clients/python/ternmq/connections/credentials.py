"""The credentials of a client: fixed keys, those of a file, or those that a function returns.

    Producer("mq.example.com:8081", credentials=Credentials("billing", secret_key), tls=True)
    Producer("mq.example.com:8081", credentials=CredentialsFile("/run/secrets/ternmq.toml"), tls=True)

File      TOML: `access_key`, `secret_key`, and `session_token` for temporary ones. Only its owner should be able to
          read it
Rotation  credentials that can change are read again every `READ_AGAIN_S` seconds, in a thread; a client keeps its keys
          while new ones can't be read, and logs that
"""

import logging
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from ternmq.errors import UnusableFile
from ternmq_common.signing import AUTHORIZATION_HEADER, DATE_HEADER, authorization_header

logger = logging.getLogger(__name__)

READ_AGAIN_S = 10.0
FILE_BYTES_MAX = 64 << 10
_NAMES = frozenset({"access_key", "secret_key", "session_token"})


@dataclass(frozen=True, slots=True)
class Credentials:
    """Access key and secret key of a user; with a session token for temporary ones."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("access_key", "secret_key"):
            if not getattr(self, name):
                raise ValueError(f"{name} is empty; leave the credentials out for a server without access control")
        # They become a header; an invalid character would fail each call, with an error that names no cause.
        for text in (self.access_key, self.session_token or ""):
            if not text.isascii() or not text.isprintable() or "," in text or " " in text:
                raise ValueError("an access key or session token has a character that no header can have")


CredentialsSource: TypeAlias = Credentials | Callable[[], Credentials]
"""Fixed credentials, or a function that returns the current ones: it is called in a thread, and may block."""


class CredentialsFile:
    """The credentials of a file, which is read again when it has changed: a rotation needs no restart."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._read: tuple[object, Credentials] | None = None

    def __repr__(self) -> str:
        return f"CredentialsFile({str(self.path)!r})"

    def __call__(self) -> Credentials:
        """Return the current credentials. `UnusableFile` if the file can't be read or has another content (see
        above)."""
        try:
            with self.path.open("rb") as file:
                found = os.fstat(file.fileno())
                version = (found.st_ino, found.st_mtime_ns, found.st_size)
                if self._read is not None and self._read[0] == version:
                    return self._read[1]
                content = file.read(FILE_BYTES_MAX + 1)
        except OSError as error:
            raise UnusableFile(f"the credentials file {self.path} can't be read: {error.strerror or error}") from None
        credentials = _parse_file(content, self.path)
        if os.name == "posix" and found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            logger.warning("the credentials file %s can be read by others: chmod 600 %s", self.path, self.path)
        self._read = (version, credentials)
        return credentials


class CurrentCredentials:
    """The current credentials of a source; `credentials` is None until the first were read."""

    def __init__(self, source: CredentialsSource | None, *, read_again_s: float = READ_AGAIN_S) -> None:
        if source is not None and not isinstance(source, Credentials) and not callable(source):
            raise TypeError(
                f"credentials are Credentials, a CredentialsFile or a function, which {type(source).__name__} is not"
            )
        self._source = None if isinstance(source, Credentials) else source
        self.credentials: Credentials | None = source if isinstance(source, Credentials) else None
        self._read_again_s = read_again_s
        self._due_s = 0.0

    @property
    def is_due(self) -> bool:
        """Whether the source should be read again."""
        return self._source is not None and time.monotonic() >= self._due_s

    def read_source(self) -> None:
        """Read the source, which may block; its error is raised only while there are no credentials."""
        if self._source is None:
            return
        try:
            self.credentials = self._source()
        except Exception as error:  # a user's function may raise anything
            if self.credentials is None:
                raise
            logger.warning("credentials can't be read again, the old ones stay: %s", error)
        self._due_s = time.monotonic() + self._read_again_s


def sign_headers(credentials: Credentials, second: int) -> tuple[tuple[str, str], ...]:
    """Return the headers that sign a call, at a second since the epoch."""
    date_text = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(second))
    signed = authorization_header(credentials.access_key, credentials.secret_key, date_text)
    token = (("x-mq-session-token", credentials.session_token),) if credentials.session_token else ()
    return ((DATE_HEADER, date_text), (AUTHORIZATION_HEADER, signed), *token)


def _parse_file(content: bytes, path: Path) -> Credentials:
    """Parse the file. UnusableFile; its text quotes nothing of the content."""
    import tomllib  # not needed for keys in the program

    if len(content) > FILE_BYTES_MAX:
        raise UnusableFile(f"the credentials file {path} has more than {FILE_BYTES_MAX:,} bytes")
    try:
        values = tomllib.loads(content.decode())
    except ValueError:  # its text may have a piece of a key
        raise UnusableFile(
            f'the credentials file {path} is no TOML: lines such as access_key = "..." are needed'
        ) from None
    if not {"access_key", "secret_key"} <= values.keys() <= _NAMES:
        raise UnusableFile(f"the credentials file {path} needs access_key and secret_key, and may have session_token")
    if not all(isinstance(value, str) for value in values.values()):
        raise UnusableFile(f'the credentials file {path}: all values are texts in quotes, such as access_key = "..."')
    try:
        return Credentials(**values)
    except ValueError as error:
        raise UnusableFile(f"the credentials file {path}: {error}") from None
