"""The registry's own error, and how the database's errors become it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoFreeConnection

from ternmq_common.errors import ErrorCode, MessagingError, StartupError

if TYPE_CHECKING:
    from pathlib import Path

READ_ONLY = "25006"  # after a failover: the address leads to a server that is still a standby
IDLE_TOO_LONG = "25P03"  # this process stood still in the middle of a transaction, which the server ended
UNDEFINED = ("42P01", "3F000")  # a table or schema: the database was made anew, and may get them while we run
NO_TABLES = "it has not the tables that it should have: run `ternmq registry migrate`"


class RegistryUnavailable(MessagingError):
    """The database can't be reached, doesn't answer in time, or has not our tables; `reason` is what it or the network
    said."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        state = "can't be used" if reason == NO_TABLES else "can't be reached"
        super().__init__(
            ErrorCode.HA_NOT_AVAILABLE,
            f"the registry {state}: {reason}; what is known goes on, changes are refused until it is back",
        )


class RegistryDamaged(MessagingError):
    """The embedded registry does not say any more what was written; `finding` is where that was seen."""

    def __init__(self, finding: str) -> None:
        self.finding = finding
        super().__init__(
            ErrorCode.INTERNAL_SERVER_ERROR,
            f"the registry is damaged ({finding}): stop the server; its next start says what to do",
        )


class RegistryFileDamaged(StartupError):
    """The file at `path` is a damaged registry, or none at all."""

    def __init__(self, path: "Path", finding: str) -> None:
        self.finding = finding
        super().__init__(
            f"the registry {path} is damaged ({finding}): restore it from a copy, or make another with "
            f"`ternmq registry rebuild --data-dir {path.parent}`"
        )


@contextmanager
def unavailable_if_unreachable() -> Iterator[None]:
    """Raise `RegistryUnavailable` for what a later attempt may not meet; other errors are bugs and stay as they are."""
    try:
        yield
    except NoFreeConnection:
        raise RegistryUnavailable("all connections to it are waiting for an answer") from None
    except DBAPIError as error:
        sqlstate = getattr(error.orig, "sqlstate", None)
        if sqlstate in UNDEFINED:
            raise RegistryUnavailable(NO_TABLES) from None  # the statement says nothing to an operator
        is_lost = isinstance(error, OperationalError | InterfaceError) or error.connection_invalidated
        if not is_lost and sqlstate not in (READ_ONLY, IDLE_TOO_LONG):
            raise
        raise RegistryUnavailable(reason_of(error)) from error


def reason_of(error: DBAPIError) -> str:
    """What the driver said, in one line; without the statement, which says nothing to an operator."""
    return " ".join(str(error.orig).split()).removeprefix("connection failed: ")
