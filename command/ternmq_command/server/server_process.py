"""Code that the commands of server processes share: failures as one line that says what to do, and their
subcommands."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import click

from ternmq_command.early_signals import restore_signals
from ternmq_command.terminal.failures import CommandFailure, WrongUsage
from ternmq_common.errors import StartupError
from ternmq_common.installing import SERVER_EXTRA_MODULES, install_hint


@contextmanager
def server_failures() -> Iterator[None]:
    """Convert the errors of importing a server's packages and of running it."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in SERVER_EXTRA_MODULES:
            raise
        raise CommandFailure(
            f"the server's packages are not installed ({missing.name} is missing): {install_hint('server')}"
        ) from None
    except StartupError as error:
        raise CommandFailure(str(error)) from None


def prepare_subcommand(context: click.Context, flags: Mapping[str, object]) -> int:
    """Let a subcommand run that administers servers; WrongUsage if it got options of the server process."""
    restore_signals()
    if any(value is not None for value in flags.values()):
        raise WrongUsage(
            f"`{context.command_path} {context.invoked_subcommand}` does not take options of the server process"
        )
    return 0
