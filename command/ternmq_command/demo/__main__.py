"""The entry point of the demo: `python -m ternmq_command.demo`, which `./run demo` starts."""

import asyncio
import functools
import logging
import shutil
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path

import click

from ternmq.errors import ClientError
from ternmq_command.demo.display import display_for
from ternmq_command.demo.flights import ROWS, data_file
from ternmq_command.demo.ledger import Ledger, UncleanLedger
from ternmq_command.demo.replay import DemoFolders, replay_flights
from ternmq_command.demo.report import format_report
from ternmq_command.exit_codes import exit_with_code
from ternmq_command.terminal.failures import CommandFailure
from ternmq_command.terminal.printing import echo_lines


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--messages", type=click.IntRange(1, ROWS), default=ROWS, show_default=True, help="Only the first ones.")
@click.option("--continue/--fresh", "go_on", default=True, help="Continue where the last demo ended, or start over.")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("ternmq-data/demo"),
    show_default=True,
    help="Where broker and progress are kept.",
)
@click.option("--kill-server", is_flag=True, help="Kill the broker with SIGKILL in the middle, and start it again.")
@click.option("--spark", "with_spark", is_flag=True, help="Then write them into a lake, and create tables and charts.")
def demo(messages: int, go_on: bool, data_dir: Path, kill_server: bool, with_spark: bool) -> int:
    """Send the flights of 2013 through a local broker, and prove that none was lost.

    \b
    Examples:
      ./run demo
      ./run demo --messages 20000 --fresh
      ./run demo --kill-server --fresh
      ./run demo --spark
    """
    data_file()  # fails before anything is started
    if with_spark:
        from ternmq_command.demo.lake import second_part

        second_part.check_requirements()
    folders = DemoFolders(root=data_dir)
    data_dir.mkdir(parents=True, exist_ok=True)
    with display_for(messages) as display:
        ledger = _load_ledger(folders, display.show_text) if go_on else _start_fresh(folders)
        if ledger.missing_rows(messages):
            _run_demo(replay_flights(folders, ledger, messages, display, kill_server=kill_server))
        else:
            display.show_text("all of them were consumed in an earlier run; --fresh starts over")
    echo_lines("\n" + format_report(ledger, messages))
    if ledger.missing_rows(messages):
        return 1
    return second_part.run_second_part(folders, ledger) if with_spark else 0


def _load_ledger(folders: DemoFolders, say: Callable[[str], None]) -> Ledger:
    """Return the ledger of the last run if that ended normally, else a new one."""
    try:
        ledger = Ledger.load_from(folders.ledger)
    except FileNotFoundError:
        return _start_fresh(folders)
    except UncleanLedger:
        say("the last demo was killed, so its progress is not known; starting over")
        return _start_fresh(folders)
    say(f"continuing: {ledger.sent_count:,} were sent and {ledger.consumed_count:,} consumed before")
    return ledger


def _start_fresh(folders: DemoFolders) -> Ledger:
    """Remove the files of the last run, and return a new ledger."""
    for folder in (folders.stack, folders.lake, folders.tables, folders.charts):
        shutil.rmtree(folder, ignore_errors=True)
    for file in (folders.ledger, folders.log):
        file.unlink(missing_ok=True)
    return Ledger.create_empty(ROWS)


def _run_demo(work: Coroutine[None, None, None]) -> None:
    """Run the coroutine as `asyncio.run_second_part` does; SIGTERM ends it as Ctrl-C does, and of several failures the
    first is raised."""

    async def run_until_signal() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        await work

    # With --kill-server, the library's warnings about a missing broker are expected.
    logging.disable(logging.WARNING)
    try:
        asyncio.run(run_until_signal())
    except BaseExceptionGroup as failures:
        raise _first_failure(failures) from None
    except asyncio.CancelledError:
        raise click.Abort from None
    except KeyboardInterrupt:
        echo_lines("\nstopped; run it again to continue", err=True)
        raise


def _first_failure(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first of several failures; a ClientError becomes a CommandFailure with an exit code."""
    first: BaseException = failures
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return CommandFailure(str(first)) if isinstance(first, ClientError) else first


if __name__ == "__main__":
    exit_with_code(functools.partial(demo.main, prog_name="./run demo", standalone_mode=False))
