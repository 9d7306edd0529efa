"""Converts errors of the registry to failures of the command."""

from collections.abc import Iterator
from contextlib import contextmanager

from ternmq_command.server.server_process import server_failures
from ternmq_command.terminal.failures import CommandFailure, RegistryUnreachable


@contextmanager
def registry_failures() -> Iterator[None]:
    """Convert the errors of importing the registry's package and of its calls."""
    with server_failures():
        from ternmq_common.errors import MessagingError
        from ternmq_registry.errors import RegistryUnavailable

        try:
            yield
        except RegistryUnavailable as error:
            raise RegistryUnreachable(error.reason) from None
        except MessagingError as error:
            raise CommandFailure(str(error)) from None
