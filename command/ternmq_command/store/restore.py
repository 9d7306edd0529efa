"""`ternmq restore`: creates a data directory from a backup."""

import time
from datetime import UTC, datetime
from pathlib import Path

import click

from ternmq_command.store.options import DEFAULT_DIR, format_size, progress_bar, store_failures
from ternmq_command.terminal.options import json_option
from ternmq_command.terminal.output import format_age, format_count, iso_datetime, print_json
from ternmq_command.terminal.printing import echo


@click.command()
@click.argument("backup", type=click.Path(path_type=Path))
@click.option("--data-dir", type=click.Path(path_type=Path), default=DEFAULT_DIR, show_default=True, metavar="DIR",
              help="Where to restore to; a folder that is empty or does not exist.")  # fmt: skip
@json_option
def command(backup: Path, data_dir: Path, as_json: bool) -> None:
    """Create a data directory from BACKUP, which `ternmq backup` wrote. The backup stays as it is.

    Every file is compared with its checksum, and the directory appears when it is complete and durable.

    \b
    Examples:
      ternmq restore /backups/ternmq-monday
      ternmq restore /backups/broker-1 --data-dir /var/lib/ternmq
    """
    with store_failures():
        from ternmq_broker.store_tools.restore import restore_backup

        with progress_bar("restoring") as progress:
            manifest = restore_backup(backup, data_dir, progress)
    created = iso_datetime(datetime.fromtimestamp(manifest.made_ms / 1000, UTC))
    if as_json:
        print_json(
            {
                "data_dir": str(data_dir),
                "made": created,
                "files": len(manifest.files),
                "bytes": manifest.size_bytes,
                "log_start": manifest.log_start,
                "log_end": manifest.log_end,
            }
        )
        return
    files, size = format_count(len(manifest.files), "file"), format_size(manifest.size_bytes)
    age = format_age(max(0, time.time() - manifest.made_ms / 1000))
    echo(f"restored {data_dir}: {files}, {size}, as it was at {created}, {age} ago")
    echo("messages that were acknowledged since then may be delivered again", err=True)
    if "store-id" in manifest.files:
        echo(
            "this is a broker of a cluster: never run it together with the original, which has the same store id",
            err=True,
        )
