"""`ternmq backup`: copies the data of a broker, which may be running."""

from pathlib import Path

import click

from ternmq_command.store.options import DEFAULT_DIR, format_size, progress_bar, store_failures
from ternmq_command.terminal.failures import CommandFailure
from ternmq_command.terminal.options import json_option
from ternmq_command.terminal.output import format_count, print_json
from ternmq_command.terminal.printing import echo


@click.command()
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--data-dir", type=click.Path(path_type=Path), default=DEFAULT_DIR, show_default=True, metavar="DIR",
              help="What to back up.")  # fmt: skip
@click.option("--copy", "only_copies", is_flag=True, help="Copy files that do not change any more too, instead of hard "
              "links to them where TARGET is on the same file system.")  # fmt: skip
@click.option("--verify", "is_to_verify", is_flag=True, help="Verify the backup after it is written.")
@json_option
def command(target: Path, data_dir: Path, only_copies: bool, is_to_verify: bool, as_json: bool) -> int:
    """Back up the data of a broker to TARGET, a new or empty folder. The broker may be running.

    Run it on the broker's machine. The backup has every message that was acknowledged before it began, the progress of
    groups, topics and groups. For a broker of a cluster it has the store and the broker's identity; back up the
    registry in PostgreSQL with PostgreSQL's own tools, after the brokers.

    \b
    Examples:
      ternmq backup /backups/ternmq-monday
      ternmq backup /backups/broker-1 --data-dir /var/lib/ternmq --verify
    """
    with store_failures():
        from ternmq_broker.store_tools.backup import back_up_store
        from ternmq_broker.store_tools.checking.verification import verify_store

        with progress_bar("backing up") as progress:
            manifest = back_up_store(data_dir, target, progress, only_copies=only_copies)
        if is_to_verify:
            with progress_bar("verifying") as progress:
                found = verify_store(target / "data", progress)
    if as_json:
        sound = {"sound": found.findings.is_sound} if is_to_verify else {}
        print_json(
            {
                "target": str(target),
                "files": len(manifest.files),
                "bytes": manifest.size_bytes,
                "log_start": manifest.log_start,
                "log_end": manifest.log_end,
                **sound,
            }
        )
    else:
        files, size = format_count(len(manifest.files), "file"), format_size(manifest.size_bytes)
        echo(f"backed up {data_dir} to {target}: {files}, {size}, the log up to {manifest.log_end}")
    if is_to_verify and not found.findings.is_sound:
        raise CommandFailure(f"the backup is not sound; `ternmq store verify {target}/data` says why")
    return 0
