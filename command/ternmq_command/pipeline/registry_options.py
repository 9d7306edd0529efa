"""Builds the client of a schema registry from options; its keys come from a file or from variables."""

import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from ternmq_command.terminal.failures import WrongUsage

if TYPE_CHECKING:
    from pyspark_ternmq.decoding.schema_registry.registry import RegistryAddress

USER_VARIABLE, PASSWORD_VARIABLE = "TERNMQ_SCHEMA_REGISTRY_USER", "TERNMQ_SCHEMA_REGISTRY_PASSWORD"
_FIELDS = ("user", "password")


def build_registry(url: str, ca: Path | None, credentials: Path | None) -> "RegistryAddress":
    """Return the client of the registry at a URL; raises WrongUsage for an unusable address or file."""
    from pyspark_ternmq.decoding.schema_registry.registry import RegistryAddress

    user, password = _read_file(credentials) if credentials is not None else _read_variables()
    try:
        return RegistryAddress(url, user=user, password=password, ca_pem=None if ca is None else _read_text(ca))
    except ValueError as error:
        raise WrongUsage(str(error)) from None


def _read_variables() -> tuple[str | None, str | None]:
    return os.environ.get(USER_VARIABLE), os.environ.get(PASSWORD_VARIABLE)


def _read_file(file: Path) -> tuple[str, str]:
    try:
        found = tomllib.loads(_read_text(file))
    except tomllib.TOMLDecodeError:  # its text may contain a part of the password
        raise WrongUsage(f"{file} is no TOML") from None
    user, password = (found.get(name) for name in _FIELDS)
    if found.keys() != {*_FIELDS} or not isinstance(user, str) or not isinstance(password, str):
        raise WrongUsage(f"{file} must have user and password, and nothing else")
    return user, password


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUsage(f"{file} can't be read: {error}") from None
