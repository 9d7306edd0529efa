"""Alembic's scripts; `upgrade_schema` migrates a database to the newest schema, `check_schema` requires that it has it
already."""

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import inspect, text

from ternmq_common.errors import StartupError

if TYPE_CHECKING:
    from sqlalchemy import Connection

NEWEST = "0017"
_STEPS = {f"{number:04d}" for number in range(1, int(NEWEST) + 1)}


def upgrade_schema(connection: "Connection") -> None:
    """Bring the schema to `NEWEST`, step by step, in the caller's transaction."""
    found = current_version(connection)
    if found == NEWEST:
        return  # the usual start; Alembic takes longer to import than this check
    refuse_newer(found)
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def check_schema(connection: "Connection") -> None:
    """`StartupError` unless the schema is `NEWEST`: with another, queries would fail one by one."""
    found = current_version(connection)
    refuse_newer(found)
    if found != NEWEST:
        state = "has no tables yet" if found is None else f"has the older schema {found}"
        raise StartupError(f"the registry {state}, {NEWEST} is needed: run `ternmq registry migrate`")


def current_version(connection: "Connection") -> str | None:
    """The schema's version, None if there is no registry."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    version: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return version


def is_known(found: object) -> bool:
    """Whether this is the name of a schema that we know, the newest or an older one."""
    return found in _STEPS


def refuse_newer(found: object) -> None:
    """`StartupError` for a schema that is newer than ours; `found` may be anything that the database has there."""
    if isinstance(found, str) and found.isdigit() and len(found) == len(NEWEST) and found > NEWEST:
        raise StartupError(f"its schema {found} is of a newer TernMQ, this one knows those up to {NEWEST}: upgrade it")
