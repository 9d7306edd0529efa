"""Converts errors that end a server before it serves to failures of the command: one line that says what to do."""

from collections.abc import Iterator
from contextlib import contextmanager

from ternmq_command.terminal.failures import CommandFailure
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
