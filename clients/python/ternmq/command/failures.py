"""How a command fails: one line on standard error that says what to do, and an exit code."""

from typing import IO, Any

import click

from ternmq.command.printing import echo


class CommandFailure(click.ClickException):
    """The call can't do what it was asked to."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        echo(f"ternmq: {' '.join(self.message.split())}", file=file, err=file is None)


class Refused(CommandFailure):
    """The server answered, and said no: the name of its status code and its words."""

    def __init__(self, code: int, message: str) -> None:
        from ternmq_common.errors import code_name  # which knows protobuf, and takes longer than all of `--help`

        self.code = code
        super().__init__(f"{code_name(code)}: {message}" if message else code_name(code))


class WrongUsage(CommandFailure):
    """Options, settings or an input file are not what they should be."""

    exit_code = 2


class Unreachable(CommandFailure):
    """Nothing answers at the endpoint, or it is no broker."""

    exit_code = 3

    def __init__(self, endpoint: str, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"can't reach a broker at {endpoint} ({reason}); "
            "start one with `ternmq up`, or name another with --endpoint"
        )


class CallBroken(CommandFailure):
    """A call ended in the middle, as those of a server do that ends."""


class RegistryUnreachable(CommandFailure):
    """No database answers at the registry's URL."""

    exit_code = 3

    def __init__(self, reason: str) -> None:
        super().__init__(f"the registry can't be reached: {reason}; check --registry")
