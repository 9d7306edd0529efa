"""The first super user, named in the settings: created at start if no user could administer the server.

Of processes that start together one creates it. A stack without a secret in its settings generates one, and writes it
to a file for the operator before it creates the user: if it dies in between, the next start uses that file.

A stack with a registry of its own, and access control, does not start without any user, since no user could create one.
A proxy of a cluster does, since another proxy may create the user, and logs a warning.
"""

import logging
import os
import secrets
from typing import TYPE_CHECKING

from ternmq_common.access.users import find_secret_problem
from ternmq_common.clock import now_ms
from ternmq_common.errors import MessagingError, StartupError
from ternmq_common.process.private_files import create_file

if TYPE_CHECKING:
    from pathlib import Path

    from ternmq_common.server_settings import FrontSettings, UsersSettings
    from ternmq_registry.registry import Registry

_log = logging.getLogger(__name__)
INIT_SECRET_FILE = "init-secret"  # noqa: S105 - a file's name
_SECRET_BYTES = 24


def create_init_user(registry: "Registry", settings: "UsersSettings", data_dir: "Path | None") -> bool:
    """Create the first super user if it is needed; returns whether it was. Blocks.

    StartupError if it can't be created. `data_dir`: None for a process that keeps no files.
    """
    name = settings.init_user
    try:
        if name is None or registry.has_super_user():
            return False
        own_path = None if data_dir is None else data_dir / INIT_SECRET_FILE
        given = _secret_in_settings(settings)
        is_made = registry.ensure_super_user(name, given or _secret_in_file(own_path), now_ms=now_ms())
    except MessagingError as error:
        raise StartupError(f"the super user {name} (init_user) can't be created: {error.message}") from error
    if is_made:
        where = "" if given else f", its secret is in {own_path}: note it down and delete the file"
        _log.warning("created the super user %s (init_user)%s", name, where)
    return is_made


def check_has_user(registry: "Registry", settings: "FrontSettings") -> None:
    """Raise StartupError if no user could ever call the stack. Blocks."""
    if settings.access_control and not registry.has_user():
        raise StartupError(
            "access control is on and no user is enabled, so no user could call this server or create a user: add "
            "--init-user NAME for the first one, which may do everything (its secret is that in $TERNMQ_INIT_SECRET, "
            f"or is written to {INIT_SECRET_FILE} in the data directory)"
        )


def generate_secret() -> str:
    """Generate a secret that can't be guessed, of characters that need no quotes."""
    return secrets.token_urlsafe(_SECRET_BYTES)


def _secret_in_settings(settings: "UsersSettings") -> str | None:
    file = settings.init_secret_file
    if file is None:
        return settings.init_secret
    try:
        secret = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StartupError(
            f"the secret of the super user of init_user (init_secret_file) can't be read: {error}"
        ) from None
    if problem := find_secret_problem(secret):
        raise StartupError(f"the file {file} (init_secret_file) has no secret: {problem}")
    return secret


def _secret_in_file(path: "Path | None") -> str:
    if path is None:
        raise StartupError(
            "the super user of init_user needs a secret in the variable TERNMQ_INIT_SECRET or in the file of "
            "init_secret_file, the same for all proxies: a proxy keeps no file to write one to"
        )
    try:
        if path.exists():
            secret = path.read_text(encoding="utf-8").strip()
            if problem := find_secret_problem(secret):
                raise StartupError(f"the file {path} has no secret, delete it: {problem}")
            return secret
        secret = generate_secret()
        part = path.with_name(f"{path.name}.new")
        part.unlink(missing_ok=True)
        with create_file(part) as file:
            file.write(f"{secret}\n".encode())
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except (OSError, UnicodeDecodeError) as error:
        raise StartupError(f"the secret of the super user of init_user can't be written to {path}: {error}") from error
    return secret
