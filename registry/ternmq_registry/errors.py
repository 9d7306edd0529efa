"""The registry's own errors, and how the database's errors become them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoFreeConnection

from ternmq_common.errors import ErrorCode, MessagingError, StartupError

if TYPE_CHECKING:
    from pathlib import Path

READ_ONLY = "25006"  # after a failover: the address is that of a server that is still a standby
IDLE_TOO_LONG = "25P03"  # this process stood still within a transaction, which the server ended
UNDEFINED = ("42P01", "3F000")  # a table or schema: the database was created again, and may get them while we run
NO_TABLES = "it lacks tables that it should have: run `ternmq registry migrate`"


class RegistryUnavailable(MessagingError):
    """The database can't be reached, doesn't answer in time, or lacks our tables; `reason` is its or the network's."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        state = "can't be used" if reason == NO_TABLES else "can't be reached"
        super().__init__(
            ErrorCode.HA_NOT_AVAILABLE,
            f"the registry {state}: {reason}; what is known goes on, changes are refused until it is back",
        )


class RegistryDamaged(MessagingError):
    """The embedded registry has not what was written; `finding` is where that was noticed."""

    def __init__(self, finding: str) -> None:
        self.finding = finding
        super().__init__(
            ErrorCode.INTERNAL_SERVER_ERROR,
            f"the registry is damaged ({finding}): stop the server; its next start reports what to do",
        )


class RegistryFileDamaged(StartupError):
    """The file at `path` is a damaged registry, or none at all."""

    def __init__(self, path: "Path", finding: str) -> None:
        self.finding = finding
        super().__init__(
            f"the registry {path} is damaged ({finding}): restore it from a copy, or create another with "
            f"`ternmq registry rebuild --data-dir {path.parent}`"
        )


@contextmanager
def unavailable_if_unreachable() -> Iterator[None]:
    """Raise `RegistryUnavailable` for errors that may be gone later; other errors are bugs and stay as they are."""
    try:
        yield
    except NoFreeConnection:
        raise RegistryUnavailable("all connections to it are waiting for an answer") from None
    except DBAPIError as error:
        sqlstate = getattr(error.orig, "sqlstate", None)
        if sqlstate in UNDEFINED:
            raise RegistryUnavailable(NO_TABLES) from None  # the statement does not help an operator
        is_lost = isinstance(error, OperationalError | InterfaceError) or error.connection_invalidated
        if not is_lost and sqlstate not in (READ_ONLY, IDLE_TOO_LONG):
            raise
        raise RegistryUnavailable(reason_of(error)) from error


def reason_of(error: DBAPIError) -> str:
    """The driver's message, in one line; without the statement, which does not help an operator."""
    return " ".join(str(error.orig).split()).removeprefix("connection failed: ")
