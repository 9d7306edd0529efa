"""`ternmq registry rotate-handle-key`: replaces the key that signs receipt handles, recall handles, transaction ids."""

from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ternmq_command.registry.failures import registry_failures
from ternmq_command.registry.member_settings import PASSWORD_FILE_OPTION, REGISTRY_OPTION, AnyMemberSettings
from ternmq_command.server.server_options import config_option, load_process_settings
from ternmq_command.terminal.confirmation import confirm_action, yes_option
from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.options import json_option
from ternmq_command.terminal.output import print_json
from ternmq_command.terminal.printing import echo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ternmq_registry.registry import Registry


@click.command()
@config_option
@REGISTRY_OPTION
@PASSWORD_FILE_OPTION
@click.option(
    "--data-dir", type=click.Path(path_type=Path), metavar="DIR", help="Of a server of `ternmq up`, which must not run."
)
@click.option(
    "--all", "all_at_once", is_flag=True, help="Accept no earlier key: all handles that clients have become invalid."
)
@yes_option
@json_option
def rotate_handle_key(
    config: Path | None,
    registry: str | None,
    registry_password_file: Path | None,
    data_dir: Path | None,
    *,
    all_at_once: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Sign handles with a new key from now on.

    Clients acknowledge messages, recall them and end transactions by handles with a keyed MAC. The current key is
    accepted until the next rotation: wait a day between two rotations, and longer than the longest delay of messages
    that are to be recalled. Processes of a cluster know the new key already, and need no restart.

    With --all, which is for keys that were disclosed, all earlier handles become invalid: messages in flight are
    delivered again, producers get transaction checks, and delayed messages can't be recalled. Keys are never printed.

    \b
    Examples:
      ternmq registry rotate-handle-key --registry postgresql://ternmq@db:5432/ternmq
      ternmq registry rotate-handle-key --data-dir /var/lib/ternmq
      ternmq registry rotate-handle-key --all --yes
    """
    if registry is not None and data_dir is not None:
        raise WrongUsage("give one of --registry and --data-dir")
    if all_at_once:
        confirm_action("Refuse every handle that clients have?", yes=yes)
    flags: dict[str, object] = {"registry": registry, "registry_password_file": registry_password_file}
    with registry_failures(), _open_registry(config, flags, data_dir) as opened:
        keys = opened.rotate_handle_keys(all_at_once=all_at_once)
    accepted, signing = [key.number for key in keys[:-1]], keys[-2].number
    if as_json:
        print_json({"signing": signing, "accepted": accepted})
    else:
        before = f"; key {accepted[0]} is accepted too" if len(accepted) > 1 else "; no other is accepted"
        echo(f"key {signing} signs handles{before}")


@contextmanager
def _open_registry(config: Path | None, flags: dict[str, object], data_dir: Path | None) -> "Iterator[Registry]":
    from ternmq_registry.registry import Registry

    if data_dir is None:
        settings = load_process_settings(AnyMemberSettings, config, flags).settings
        password_file = settings.registry_password_file
        with closing(Registry.open_postgres(settings.registry, password_file=password_file)) as of_cluster:
            yield of_cluster
        return
    from ternmq_broker.store.disk.store_lock import StoreLock

    database, store = data_dir / "registry.db", data_dir / "store"
    if not (database.exists() and store.is_dir()):
        raise WrongUsage(f"{data_dir} is not the data directory of a server of `ternmq up`")
    with StoreLock(store), closing(Registry.open_sqlite(database)) as embedded:
        yield embedded
