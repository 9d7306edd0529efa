"""The password of the registry's user, in a file that somebody else may write anew: as orchestrators mount secrets.

It is read for each new connection, never kept, and never said: where PostgreSQL gets another password, and the file
too, connections of before go on, and those that are made anew use what the file says then. While it can't be read, or
has no password, the registry is out as if the server did not answer.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PASSWORD_BYTES_MAX = 4096


def password_in(path: "Path") -> str:
    """Without the end of its line. psycopg's OperationalError, as from a server that can't be reached, says what is
    wrong with the file."""
    try:
        with path.open("rb") as file:
            content = file.read(PASSWORD_BYTES_MAX + 1)
        password = content.decode().rstrip("\r\n")
    except OSError as error:
        raise _unusable(path, f"can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise _unusable(path, "is no UTF-8 text") from None  # which the error itself would show
    if len(content) > PASSWORD_BYTES_MAX:
        raise _unusable(path, f"has more than {PASSWORD_BYTES_MAX} bytes")
    if not password or "\0" in password:
        raise _unusable(path, "has no password in it")
    return password


def _unusable(path: "Path", why: str) -> Exception:
    from psycopg import OperationalError

    return OperationalError(f"the file {path} (registry_password_file) {why}")
