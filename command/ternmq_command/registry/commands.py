"""`ternmq registry`: migrates the schema of a cluster's registry, rebuilds a lost one, rotates keys."""

import functools
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from ternmq_command.registry.handle_keys import rotate_handle_key
from ternmq_command.registry.member_settings import PASSWORD_FILE_OPTION, REGISTRY_OPTION, AnyMemberSettings
from ternmq_command.registry.rebuild import rebuild
from ternmq_command.server.server_options import config_option, load_process_settings
from ternmq_command.server.server_process import server_failures
from ternmq_command.terminal.failures import RegistryUnreachable
from ternmq_command.terminal.nearest_group import NearestGroup
from ternmq_command.terminal.options import DurationParam, json_option
from ternmq_command.terminal.output import print_json
from ternmq_command.terminal.poll_intervals import poll_intervals
from ternmq_command.terminal.printing import echo
from ternmq_common.resources.setting import without_password

T = TypeVar("T")


@click.group(cls=NearestGroup)
def command() -> None:
    """Prepare the PostgreSQL database that brokers and proxies share; rebuild a lost registry; rotate keys.

    \b
    Examples:
      ternmq registry migrate --registry postgresql://ternmq@db:5432/ternmq
      ternmq registry version
      ternmq registry rebuild --data-dir /var/lib/ternmq
      ternmq registry rotate-handle-key
    """


def registry_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add `--registry`, `--registry-password-file` and `--config`; the function gets the resulting URL and file."""

    @functools.wraps(function)
    def with_url(
        config: Path | None,
        registry: str | None,
        registry_password_file: Path | None,
        **others: Any,  # noqa: ANN401
    ) -> None:
        flags: dict[str, object] = {"registry": registry, "registry_password_file": registry_password_file}
        settings = load_process_settings(AnyMemberSettings, config, flags).settings
        function(settings.registry, settings.registry_password_file, **others)

    return config_option(REGISTRY_OPTION(PASSWORD_FILE_OPTION(with_url)))


@command.command()
@registry_options
@click.option(
    "--wait",
    type=DurationParam(),
    default="30s",
    show_default=True,
    help="How long to wait for a database that can't be reached.",
)
@json_option
def migrate(url: str, password_file: Path | None, wait: timedelta, as_json: bool) -> None:
    """Migrate the database to the schema that this version needs.

    Run it before brokers and proxies of a new version start; they never change the schema. It is safe to repeat it,
    also concurrently. Nothing is changed if a step fails.

    \b
    Examples:
      ternmq registry migrate
      ternmq registry migrate --registry postgresql://ternmq@db:5432/ternmq --wait 2m
      PGPASSWORD=... ternmq registry migrate --config broker.toml
    """
    with server_failures():
        from ternmq_registry.sql import schema

        done = _retry_unavailable(lambda: schema.migrate_schema(url, password_file), wait.total_seconds())
    shown = without_password(url)
    if as_json:
        print_json({"registry": shown, "before": done.before, "after": done.after})
    elif done.before == done.after:
        echo(f"the registry {shown} already has schema {done.after}")
    else:
        echo(f"the registry {shown} was migrated from {_schema_text(done.before)} to schema {done.after}")


@command.command()
@registry_options
@json_option
def version(url: str, password_file: Path | None, as_json: bool) -> None:
    """Print the schema of the database, and the one that this version needs.

    \b
    Examples:
      ternmq registry version
      ternmq registry version --json
    """
    with server_failures():
        from ternmq_registry.migrations import NEWEST
        from ternmq_registry.sql import schema

        found = _retry_unavailable(lambda: schema.schema_version(url, password_file), 0)
    if as_json:
        print_json({"schema": found, "needed": NEWEST})
        return
    hint = "" if found == NEWEST else f"; this version needs {NEWEST}"
    echo(f"{_schema_text(found)}{hint}")


command.add_command(rebuild)
command.add_command(rotate_handle_key)


def _schema_text(schema: str | None) -> str:
    return "no schema" if schema is None else f"schema {schema}"


def _retry_unavailable(call: Callable[[], T], wait_s: float) -> T:
    """Return the result of `call`, repeated for up to `wait_s` while the database can't be reached."""
    from ternmq_registry.errors import RegistryUnavailable

    give_up = time.monotonic() + wait_s
    while True:
        try:
            return call()
        except RegistryUnavailable as error:
            left_s = give_up - time.monotonic()
            if left_s <= 0:
                raise RegistryUnreachable(error.reason) from None
            time.sleep(min(poll_intervals().registry_s, left_s))
