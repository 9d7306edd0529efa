"""The failures of commands: each is one line on standard error that says what to do, and an exit code."""

from typing import IO, Any

import click

from ternmq_command.terminal.printing import echo


class CommandFailure(click.ClickException):
    """The command failed: `what` went wrong, and optionally a `hint` what to do.

    `word` identifies the failure for programs (`exit_codes`).
    """

    exit_code = 1
    word = "FAILED"

    def __init__(self, what: str, *, hint: str | None = None) -> None:
        self.what, self.hint = what, hint
        super().__init__(f"{what}; {hint}" if hint else what)

    def show(self, file: IO[Any] | None = None) -> None:
        echo(f"ternmq: {' '.join(self.message.split())}", file=file, err=file is None)


class CallRefused(CommandFailure):
    """The server refused the call: the name of its status code, and its message."""

    def __init__(self, code: int, message: str, *, hint: str | None = None) -> None:
        from ternmq_common.errors import code_name  # imports protobuf, which takes longer than all of `--help`

        self.code, self.word = code, code_name(code)
        super().__init__(f"{self.word}: {message}" if message else self.word, hint=hint)
        self.what = message or self.word


class WrongUsage(CommandFailure):
    """Options, settings or an input file are wrong."""

    exit_code = 2
    word = "USAGE"


class ServerUnreachable(CommandFailure):
    """Nothing answers at the endpoint, or what answers is no broker."""

    exit_code = 3
    word = "UNREACHABLE"

    def __init__(self, endpoint: str, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"can't reach a broker at {endpoint} ({reason})",
            hint="start one with `ternmq up`, or name another with --endpoint",
        )


class TlsRefused(CommandFailure):
    """The endpoint answers, but the TLS handshake fails; `advised` is the reason and, after ": ", what to do."""

    exit_code = 3
    word = "TLS"

    def __init__(self, endpoint: str, advised: str) -> None:
        what, _, hint = advised.partition(": ")
        super().__init__(f"no TLS with {endpoint}: {what}", hint=hint)


class CallBroken(CommandFailure):
    """A call broke off before its answer was complete, for example because the server ended."""


class CallMissing(CommandFailure):
    """The server has no such call."""


class RegistryUnreachable(CommandFailure):
    """No database answers at the registry's URL."""

    exit_code = 3
    word = "REGISTRY_UNREACHABLE"

    def __init__(self, reason: str) -> None:
        super().__init__(f"the registry can't be reached: {reason}", hint="check --registry")
