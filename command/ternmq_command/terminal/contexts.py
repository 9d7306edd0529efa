"""Reads and writes contexts: the user's names for endpoints, of which one may be in use.

File     `contexts.json` in the user's folder for settings of `ternmq`, readable only by its user, replaced as a whole:
         {"in_use": "prod" or null, "contexts": {"prod": {"endpoint": "HOST:PORT"}}}; the endpoint may be followed by
         "tls": true, and texts of ca, client_cert, client_key, server_name, access_key, credentials_file
Secrets  are not in it: it has the path of the credentials file
Damage   a file of any other form is refused in one line, and never repaired by guessing.
"""

import contextlib
import json
import os
import re
from pathlib import Path
from typing import NamedTuple

import click

from ternmq_command.terminal.failures import CommandFailure, WrongUsage
from ternmq_common.addresses import parse_address
from ternmq_common.printable import cut_text
from ternmq_common.process.private_files import create_file, create_folder

FILE_BYTES_MAX = 1024 * 1024
CONTEXTS_MAX = 1000
ENDPOINT_CHARACTERS_MAX = 300
ACCESS_TEXTS = frozenset({"ca", "client_cert", "client_key", "server_name", "access_key", "credentials_file"})
TLS_OPTIONS = frozenset({"tls", "ca", "client_cert", "client_key", "server_name"})
ACCESS_PATHS = frozenset({"ca", "client_cert", "client_key", "credentials_file"})
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)


class ContextServer(NamedTuple):
    """The endpoint of a context, and the given options of TLS and keys (`access`)."""

    endpoint: str
    access: dict[str, str | bool]

    def json_record(self) -> dict[str, str | bool]:
        return {"endpoint": self.endpoint, **self.access}


class Contexts:
    """The content of the file: servers by the names of contexts, and the name of the one in use."""

    def __init__(self, servers: dict[str, ContextServer], in_use: str | None) -> None:
        self.servers, self.in_use = servers, in_use

    def find_server(self, name: str) -> ContextServer:
        """Return the server of a context; raises WrongUsage if there is no such context."""
        if name not in self.servers:
            raise WrongUsage(f"there is no context {cut_text(name)!r}", hint="`ternmq context list` shows all")
        return self.servers[name]

    def add_context(self, name: str, server: ContextServer) -> None:
        """Add a context; raises CommandFailure if the name has another server, or if there are too many."""
        known = self.servers.get(name, server)
        if known != server:
            what = known.endpoint if known.endpoint != server.endpoint else "defined with other options"
            raise CommandFailure(f"context {name!r} is {what}", hint=f"first `ternmq context remove {name}`")
        if name not in self.servers and len(self.servers) == CONTEXTS_MAX:
            raise CommandFailure(f"there are {CONTEXTS_MAX} contexts, and no more are allowed")
        self.servers[name] = server

    def remove_context(self, name: str) -> None:
        self.find_server(name)
        del self.servers[name]
        self.in_use = None if self.in_use == name else self.in_use


def contexts_file() -> Path:
    return Path(click.get_app_dir("ternmq")) / "contexts.json"


def server_in_use(chosen: str | None) -> ContextServer | None:
    """Return the server of the chosen context, else of the one in use; None if there is none. Raises WrongUsage."""
    contexts = read_contexts()
    name = chosen or contexts.in_use
    return None if name is None else contexts.find_server(name)


def read_contexts() -> Contexts:
    """Read the file, none if it is missing; raises WrongUsage if it can't be read or is damaged."""
    file = contexts_file()
    try:
        with file.open("rb") as source:
            content = source.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return Contexts({}, None)
    except OSError as error:
        raise WrongUsage(f"can't read the contexts in {file}: {error.strerror}") from None
    try:
        return _parse_contexts(content)
    except (ValueError, RecursionError) as error:
        raise WrongUsage(
            f"{file} is damaged: {error}", hint="correct it, or remove it and add the contexts again"
        ) from None


def write_contexts(contexts: Contexts) -> None:
    """Replace the file atomically, also with respect to a crash; raises CommandFailure."""
    content = {
        "in_use": contexts.in_use,
        "contexts": {name: server.json_record() for name, server in sorted(contexts.servers.items())},
    }
    file = contexts_file().resolve()  # a link to it stays a link
    beside = file.with_name(f".{file.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        create_folder(file.parent)
        try:
            with create_file(beside) as out:
                out.write(json.dumps(content, indent=2).encode() + b"\n")
                out.flush()
                os.fsync(out.fileno())
            beside.replace(file)
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                beside.unlink()
            raise
    except OSError as error:
        raise CommandFailure(f"can't write the contexts to {file}: {error.strerror}") from None


def checked_name(name: str) -> str:
    if NAME.fullmatch(name) is None:
        raise ValueError(
            f"{cut_text(name)!r} is no name: up to 64 letters, digits, '_', '.' and '-', beginning with a letter or "
            "digit"
        )
    return name


def checked_endpoint(text: str) -> str:
    if len(text) > ENDPOINT_CHARACTERS_MAX:
        raise ValueError(f"an endpoint has at most {ENDPOINT_CHARACTERS_MAX} characters")
    parse_address(text)
    return text


def _parse_contexts(content: bytes) -> Contexts:
    if len(content) > FILE_BYTES_MAX:
        raise ValueError(f"it has more than {FILE_BYTES_MAX:,} bytes")
    match json.loads(content.decode()):
        case {"in_use": None | str() as in_use, "contexts": dict() as records, **others} if not others:
            servers = {checked_name(name): _parse_server(name, record) for name, record in records.items()}
        case _:
            raise ValueError('{"in_use": ..., "contexts": {...}} is needed')
    if in_use is not None and in_use not in servers:
        raise ValueError(f"the context in use, {cut_text(in_use)!r}, is not in it")
    return Contexts(servers, in_use)


def _parse_server(name: str, record: object) -> ContextServer:
    match record:
        case {"endpoint": str() as endpoint, **access}:
            return ContextServer(
                checked_endpoint(endpoint), dict(_parse_option(name, *item) for item in access.items())
            )
    raise ValueError(f'context {name!r} needs {{"endpoint": "HOST:PORT"}}')


def _parse_option(name: str, key: object, value: object) -> tuple[str, str | bool]:
    if key == "tls" and value is True:
        return key, value
    if key in ACCESS_TEXTS and isinstance(value, str):
        return str(key), value
    raise ValueError(f"context {name!r} has a wrong {cut_text(str(key))!r}")
