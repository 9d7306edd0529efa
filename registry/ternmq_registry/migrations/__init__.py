"""Alembic's scripts; `upgrade` brings a database to the newest."""

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import inspect, text

if TYPE_CHECKING:
    from sqlalchemy import Connection

NEWEST = "0003"


def upgrade(connection: "Connection") -> None:
    """Bring the schema to `NEWEST`, step by step, in the caller's transaction."""
    if _current(connection) == NEWEST:
        return  # the usual start; Alembic takes longer to import than this check
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _current(connection: "Connection") -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    version: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return version
