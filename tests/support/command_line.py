"""The command inside the test's own process, as a shell would start it: without variables of ours but those given."""

import json
import os
from typing import Any

from click.testing import CliRunner, Result

from ternmq_command.main import cli


class CommandLine:
    """`CommandLine(endpoint)("topic", "list")`; `variables` are set for each call, such as TERNMQ_ACCESS_KEY."""

    def __init__(self, endpoint: str = "", **variables: str) -> None:
        self._environment: dict[str, str | None] = {
            **dict.fromkeys(name for name in os.environ if name.startswith("TERNMQ_")),
            **({"TERNMQ_ENDPOINT": endpoint} if endpoint else {}),
            **variables,
        }

    def call(self, *arguments: str, stdin: str | None = None) -> Result:
        """Run a command, whatever its exit code is."""
        return CliRunner().invoke(cli, arguments, input=stdin, env=self._environment)

    def __call__(self, *arguments: str, stdin: str | None = None) -> Result:
        """Run a command that must succeed."""
        result = self.call(*arguments, stdin=stdin)
        assert result.exit_code == 0, f"{arguments}\n{result.output}{result.stderr}"
        return result

    def records(self, *arguments: str, stdin: str | None = None) -> list[dict[str, Any]]:
        """What a command that must succeed prints with --json."""
        return printed_records(self(*arguments, "--json", stdin=stdin))

    def record(self, *arguments: str, stdin: str | None = None) -> dict[str, Any]:
        """The one of them."""
        (record,) = self.records(*arguments, stdin=stdin)
        return record


def printed_records(result: Result) -> list[dict[str, Any]]:
    """The JSON that a command printed: one object a line, a list of them, or one in all."""
    try:
        whole = json.loads(result.stdout)
    except json.JSONDecodeError:
        return [json.loads(line) for line in result.stdout.splitlines()]
    return whole if isinstance(whole, list) else [whole]
