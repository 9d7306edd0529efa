"""`ternmq store rescue`: saves the files of a lost data directory that a server still has open."""

from pathlib import Path

import click

from ternmq_command.store.options import format_size, progress_bar, store_failures
from ternmq_command.terminal.options import json_option
from ternmq_command.terminal.output import format_count, print_json
from ternmq_command.terminal.printing import echo


@click.command()
@click.argument("process", metavar="PROCESS", type=click.IntRange(min=1))
@click.argument("target", type=click.Path(path_type=Path))
@json_option
def rescue(process: int, target: Path, as_json: bool) -> None:
    """Save the files that a server still has open after its data directory was removed, moved or unmounted.

    PROCESS is the id of the server's process, from its log or /health/ready; end it only afterwards, since the files
    are lost with it. TARGET, a new or empty folder, becomes a data directory with all messages, groups' progress,
    topics and users. Run it on the server's machine, or in its container, as the server's user. It works on Linux only.

    \b
    Examples:
      ternmq store rescue 4711 /mnt/saved
      ternmq up --data-dir /mnt/saved
    """
    with store_failures():
        from ternmq_broker.store_tools.inspection import inspect_store
        from ternmq_broker.store_tools.rescue import rescue_files

        with progress_bar("saving") as progress:
            saved = rescue_files(process, target, progress)
        found = inspect_store(target)
    messages = sum(queue.end - queue.first for queue in found.queues)
    if as_json:
        print_json({"target": str(target), "files": saved.files, "bytes": saved.size_bytes, "messages": messages})
        return
    what = (
        f"{format_count(messages, 'message')} in {format_count(saved.files, 'file')}, {format_size(saved.size_bytes)}"
    )
    echo(f"saved {what}, to {target}")
