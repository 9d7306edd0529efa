"""The password of the registry's user, in a file that others may replace, as orchestrators mount secrets.

It is read for each new connection, never kept, and never logged: where the password in PostgreSQL and the file
changes, old connections go on, and new ones use the new password. While the file can't be read, or has no password,
the registry counts as away.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PASSWORD_BYTES_MAX = 4096


def read_password(path: "Path") -> str:
    """Read the password, without the end of its line.

    For a bad file it raises psycopg's OperationalError with the reason, as for a server that can't be reached.
    """
    try:
        with path.open("rb") as file:
            content = file.read(PASSWORD_BYTES_MAX + 1)
        password = content.decode().rstrip("\r\n")
    except OSError as error:
        raise _file_error(path, f"can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise _file_error(path, "is no UTF-8 text") from None  # the error itself would show it
    if len(content) > PASSWORD_BYTES_MAX:
        raise _file_error(path, f"has more than {PASSWORD_BYTES_MAX} bytes")
    if not password or "\0" in password:
        raise _file_error(path, "has no password in it")
    return password


def _file_error(path: "Path", why: str) -> Exception:
    from psycopg import OperationalError

    return OperationalError(f"the file {path} (registry_password_file) {why}")
