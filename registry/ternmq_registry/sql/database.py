"""Transactions on the registry's database, and its engines.

PostgreSQL  nothing waits for ever: connecting, statements and unanswered packets have limits of their own, and the
            client gives up a server that is stopped, which none of these notices. A pool that pings drops dead
            connections. SQL is prepared for each call, since a pooler in front may change connections. The server ends
            a transaction whose client has stopped in the middle: it may hold the rows of a lease, which others have to
            change when that has run out.
SQLite      transactions begin explicitly, not by the driver: reads see one moment, and changes wait for each other.
            Committed changes are in the file, with checksums (`checksums`); and the files hold room for small changes,
            so that a group can be created when the disk is full (`keep_room`).
"""

import logging
import sqlite3
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import sqlalchemy
from sqlalchemy import case, event, select, update
from sqlalchemy.exc import ArgumentError

from ternmq_common.errors import StartupError
from ternmq_common.resources.setting import without_password
from ternmq_registry.errors import unavailable_if_unreachable
from ternmq_registry.sql.checksums import check_whole, is_checked, seal_changes
from ternmq_registry.sql.password_file import read_password
from ternmq_registry.tables import DATABASE_NOW_MS, ROOM_TABLE, VERSION

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import URL, Connection, Engine

T = TypeVar("T")

SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")
CONNECT_TIMEOUT_S = 3
TCP_USER_TIMEOUT_MS = 5000
CONNECTIONS_MAX = 4
POOL_TIMEOUT_S = 5.0
_PORT = "5432"

_CHANGING = "ternmq_changing"
_log = logging.getLogger(__name__)
# SQLite's pages of 4 KiB. A change takes three to six; the journal begins again long before it would have to grow.
_ROOM_PAGES = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseTiming:
    """Time limits of PostgreSQL: for a statement and its answer, and between our statements.

    A transaction ends beyond them.
    """

    statement_ms: int = 5000
    idle_ms: int = 1500
    """Below the shortest lease that is of use, and above what a busy process takes."""
    answer_s: float = 6.0
    """Above the statement's own limit, whose error has more details."""


TIMING = DatabaseTiming()


class RegistryDatabase:
    """One database; safe for several threads. Every context manager is one transaction."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        is_postgres = self.has_own_clock = engine.dialect.name == "postgresql"
        # SQLite's readers see one moment anyhow.
        self._reader = engine.execution_options(isolation_level="REPEATABLE READ") if is_postgres else engine
        self._changer = create_changing_engine(engine)

    @contextmanager
    def read_transaction(self) -> "Iterator[Connection]":
        """A transaction that reads one moment of everything."""
        with unavailable_if_unreachable(), self._reader.connect() as connection:
            yield connection

    @contextmanager
    def write_transaction(self) -> "Iterator[Connection]":
        """A transaction for what needs no version: leases and loads."""
        with unavailable_if_unreachable(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def change_transaction(self) -> "Iterator[Connection]":
        """A transaction for what has a version, one at a time; call `raise_version` for changes."""
        with unavailable_if_unreachable(), self._changer.begin() as connection:
            before = int(connection.execute(select(VERSION.c.version).with_for_update()).scalar_one())
            check_whole(connection)
            yield connection
            if is_checked(connection) and connection.execute(select(VERSION.c.version)).scalar_one() != before:
                seal_changes(connection, since=before)

    def close(self) -> None:
        self._engine.dispose()


def raise_version(connection: "Connection") -> int:
    """Raise the version for this transaction, above all before it; returns it.

    It is also at least the time, so that a database that lost its last changes in a failover gives no version, and no
    epoch, a second time.
    """
    following = VERSION.c.version + 1
    version = case((following > DATABASE_NOW_MS, following), else_=DATABASE_NOW_MS)
    raised = update(VERSION).values(version=version).returning(VERSION.c.version)
    return int(connection.execute(raised).scalar_one())


def create_changing_engine(engine: "Engine") -> "Engine":
    """The same engine, for transactions that wait for each other from their beginning."""
    return engine.execution_options(**{_CHANGING: True})


def create_sqlite_engine(path: "Path") -> "Engine":
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")

    @event.listens_for(engine, "connect")
    def configure_connection(connection: Any, _: object) -> None:  # noqa: ANN401 - sqlite3's
        connection.isolation_level = None
        # Of a write-ahead log whose bytes are damaged SQLite drops the end, which may be changes of long ago. So what
        # is committed is in the file. The journal stays, with nothing in it that counts, and so does its room.
        connection.execute("PRAGMA journal_mode=PERSIST")

    @event.listens_for(engine, "begin")
    def begin_transaction(connection: "Connection") -> None:
        # A change that began by reading could find that another was faster, and fail.
        changes = connection.get_execution_options().get(_CHANGING, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if changes else "BEGIN")

    return engine


def keep_room(engine: "Engine", path: "Path") -> None:
    """Allocate free pages in the database's file and room in its journal's; both written, as a hole is no room.

    A page that was in use is written to the journal before it changes: so the room is changed once, then dropped.
    """
    with closing(engine.raw_connection()) as pooled:
        connection = pooled.driver_connection
        assert isinstance(connection, sqlite3.Connection)
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        room_bytes = _ROOM_PAGES * page_bytes
        try:
            connection.execute(f"DROP TABLE IF EXISTS {ROOM_TABLE}")  # a process died below
            if _has_room(connection, path, room_bytes):
                return
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"CREATE TABLE {ROOM_TABLE} (bytes BLOB)")
            connection.execute(f"INSERT INTO {ROOM_TABLE} VALUES (zeroblob(?))", (room_bytes,))  # noqa: S608
            connection.execute("COMMIT")
            connection.execute(f"UPDATE {ROOM_TABLE} SET bytes = zeroblob(?)", (room_bytes,))  # noqa: S608
            connection.execute(f"DROP TABLE {ROOM_TABLE}")
        except sqlite3.OperationalError as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            _log.warning("the registry has no room kept for a full disk: %s", error)


def _has_room(connection: sqlite3.Connection, path: "Path", room_bytes: int) -> bool:
    journal = path.with_name(f"{path.name}-journal")
    (free_pages,) = connection.execute("PRAGMA freelist_count").fetchone()
    return bool(free_pages >= _ROOM_PAGES // 2 and journal.exists() and journal.stat().st_size >= room_bytes // 2)


def create_postgres_engine(
    url: str, password_file: "Path | None" = None, *, patient: bool = False, timing: DatabaseTiming = TIMING
) -> "Engine":
    """Create an engine. `patient` for migrations: statements have no time limit.

    With `password_file` each new connection uses the password in it.
    """
    from psycopg import Connection as Psycopg

    parsed = _parse_postgres_url(url)
    statement_ms, idle_ms = (0, 0) if patient else (timing.statement_ms, timing.idle_ms)
    options = f"-c statement_timeout={statement_ms} -c idle_in_transaction_session_timeout={idle_ms}"
    if given := parsed.query.get("options"):
        options = f"{options} {given if isinstance(given, str) else ' '.join(given)}"
    engine = sqlalchemy.create_engine(
        parsed.difference_update_query(["options"]),
        pool_size=CONNECTIONS_MAX,
        max_overflow=0,
        pool_timeout=POOL_TIMEOUT_S,
        pool_pre_ping=True,
        connect_args={
            "connect_timeout": CONNECT_TIMEOUT_S,
            "tcp_user_timeout": TCP_USER_TIMEOUT_MS,
            "application_name": "ternmq",
            "client_encoding": "utf8",
            "options": options,
            "prepare_threshold": None,
        },
    )

    class ImpatientConnection(Psycopg):
        def wait(self, gen: Generator[Any, Any, T], *args: Any, **kwargs: Any) -> T:  # noqa: ANN401
            return super().wait(_give_up_after(self, gen, timing.answer_s), *args, **kwargs)

    @event.listens_for(engine, "do_connect")
    def open_connection(_: object, __: object, args: list[Any], kwargs: dict[str, Any]) -> Psycopg:
        given = kwargs if password_file is None else {**kwargs, "password": read_password(password_file)}
        return (Psycopg if patient else ImpatientConnection).connect(*args, **given)

    return engine


def _give_up_after(
    connection: Any,  # noqa: ANN401
    answer: Generator[Any, Any, T],
    within_s: float,
) -> Generator[Any, Any, T]:
    """Wrap `answer`, psycopg's way to wait for the server: closes the connection without an answer in time."""
    from psycopg import OperationalError

    deadline = time.monotonic() + within_s
    try:
        wanted = next(answer)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > deadline:
                connection.close()
                raise OperationalError(f"the server didn't answer within {within_s:g} s")
            wanted = answer.send(ready)
    except StopIteration as end:
        return cast("T", end.value)


def _parse_postgres_url(url: str) -> "URL":
    try:
        parsed = sqlalchemy.make_url(url)
    except (ArgumentError, ValueError):
        parsed = None
    if parsed is None or "@" in (parsed.host or ""):
        # The URL is not shown: a password with a / or @ in it may be anywhere.
        raise StartupError(
            _url_error_text("the registry's URL can't be read; characters like / and @ are written %2F and %40")
        ) from None
    if parsed.drivername not in SCHEMES:
        raise StartupError(_url_error_text(f"the registry {without_password(url)} is no PostgreSQL database"))
    return parsed.set(drivername="postgresql+psycopg")


def registry_identity(url: str) -> str:
    """The database that a URL names, for comparisons: hosts, ports and the database, without user and password.

    StartupError if it names none.
    """
    parsed = _parse_postgres_url(url)
    hosts = [parsed.host] if parsed.host else _as_list(parsed.query.get("host"))
    ports = [str(parsed.port)] if parsed.port else _as_list(parsed.query.get("port"))
    database = parsed.database or "".join(_as_list(parsed.query.get("dbname"))) or parsed.username or ""
    return f"{','.join(hosts)}:{','.join(ports) or _PORT}/{database}"


def _as_list(value: "str | tuple[str, ...] | None") -> list[str]:
    return [] if value is None else [value] if isinstance(value, str) else list(value)


def _url_error_text(problem: str) -> str:
    return f"{problem}: postgresql://USER@HOST:PORT/DATABASE is needed"
