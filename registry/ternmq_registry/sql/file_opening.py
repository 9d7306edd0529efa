"""Opens the embedded registry's file; the errors say what an operator can do.

Damage     all damage that SQLite or the checksums find is one line; nothing of a damaged file is used, and nothing in
           it is changed.
Old files  are checked as far as they have checksums, migrated, and get checksums then.
"""

import os
import sqlite3
from contextlib import suppress
from typing import TYPE_CHECKING

from sqlalchemy import delete, false, inspect
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from ternmq_common.errors import StartupError
from ternmq_common.process.private_files import FILE_MODE
from ternmq_registry import migrations
from ternmq_registry.errors import RegistryDamaged, RegistryFileDamaged, reason_of
from ternmq_registry.sql.checksums import check_content, check_pages, seal_changes
from ternmq_registry.sql.database import create_changing_engine, create_sqlite_engine
from ternmq_registry.tables import VERSION

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Connection, Engine

_CHECKSUMS_SINCE = "0006"
# Errors of SQLite for a file that may be whole, by the lowest byte of the code.
_NOT_ITS_CONTENT = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
}


def open_engine(path: "Path") -> "Engine":
    """Open or create the embedded registry, check its whole content, and migrate its schema.

    `RegistryFileDamaged`, or another StartupError when it can't be opened at all.
    """
    _create_private(path)
    engine = create_sqlite_engine(path)
    try:
        with create_changing_engine(engine).begin() as connection:
            _check_and_migrate(connection)
    except RegistryDamaged as error:
        engine.dispose()
        raise RegistryFileDamaged(path, error.finding) from error
    except UnicodeDecodeError as error:
        engine.dispose()
        raise RegistryFileDamaged(path, f"text in it is no UTF-8: {error.object!r}") from error
    except (SQLAlchemyError, StartupError) as error:
        engine.dispose()
        if isinstance(error, DBAPIError) and _is_damage(error, path):
            raise RegistryFileDamaged(path, reason_of(error)) from error
        cause = error.__cause__ or error
        raise StartupError(f"the registry {path} can't be opened: {cause}; check the file and its folder") from error
    except BaseException:
        engine.dispose()
        raise
    return engine


def _create_private(path: "Path") -> None:
    """Create the file before SQLite does, for this user only; SQLite gives its journal the same mode."""
    with suppress(OSError):  # SQLite has the better error
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))


def _check_and_migrate(connection: "Connection") -> None:
    found = migrations.current_version(connection)
    if found is None and inspect(connection).get_table_names():
        raise RegistryDamaged("the name of its schema can't be read")
    if found is not None:
        if not migrations.is_known(found):
            migrations.refuse_newer(found)
            raise RegistryDamaged(f"its schema is called {found!r}")
        check_pages(connection)
        if found >= _CHECKSUMS_SINCE:
            check_content(connection)
    if found == migrations.NEWEST:
        # Changes nothing, but fails if SQLite must not write, which a damaged header can cause.
        connection.execute(delete(VERSION).where(false()))
    else:
        migrations.upgrade_schema(connection)
        seal_changes(connection, since=0)


def _is_damage(error: DBAPIError, path: "Path") -> bool:
    code = getattr(error.orig, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code == sqlite3.SQLITE_READONLY:
        return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    return code not in _NOT_ITS_CONTENT
