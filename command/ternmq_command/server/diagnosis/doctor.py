"""`ternmq doctor`: checks a server, its machine and the connection to it, and says what to do about problems."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from ternmq_command.terminal.failures import CommandFailure, ServerUnreachable
from ternmq_command.terminal.options import (
    endpoint_option,
    http_address,
    http_option,
    json_option,
    remoting_address,
    remoting_option,
)
from ternmq_command.terminal.output import print_json
from ternmq_command.terminal.printing import echo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ternmq_command.server.diagnosis.checkup import Finding

PROBLEMS_FOUND = 1
NOBODY_THERE = ServerUnreachable.exit_code


@click.command()
@endpoint_option
@http_option
@remoting_option
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    default=Path("ternmq-data"),
    show_default=True,
    help="The data directory of a broker on this machine; checked if it exists.",
)
@click.option("--registry", envvar="TERNMQ_REGISTRY", metavar="URL", help="A cluster's database, to be checked too.")
@click.option(
    "--registry-password-file",
    envvar="TERNMQ_REGISTRY_PASSWORD_FILE",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The password of that database's user.",
)
@click.option("--round-trip/--no-round-trip", default=True, help="Send a message through a topic created for that.")
@json_option
def command(
    endpoint: str,
    http: str | None,
    remoting: str | None,
    data_dir: Path,
    registry: str | None,
    registry_password_file: Path | None,
    round_trip: bool,
    as_json: bool,
) -> int:
    """Check a server, its machine and the connection to it, and say what to do about problems.

    Exit codes: 0 all is well, or there are warnings only; 1 there is a problem; 3 nothing answers at the endpoint.

    \b
    Examples:
      ternmq doctor
      ternmq doctor --endpoint mq.example.com:8081 --no-round-trip
      ternmq doctor --registry postgresql://ternmq@db:5432/ternmq --json
    """
    findings: list[Finding] = []
    database = (registry, registry_password_file) if registry else None
    addresses = ServerAddresses(endpoint, http_address(endpoint, http), remoting)
    for finding in _run_checks(addresses, data_dir, database, round_trip=round_trip):
        findings.append(finding)
        if not as_json:
            _print_finding(finding)
    if as_json:
        print_json(
            [
                {"subject": each.subject, "state": each.state, "said": each.text, "advice": each.advice}
                for each in findings
            ]
        )
    problems = {finding.subject for finding in findings if finding.state == "problem"}
    if "server" in problems:
        return NOBODY_THERE
    return PROBLEMS_FOUND if problems else 0


class ServerAddresses(NamedTuple):
    """The addresses of the server; `remoting` is None if it was not named."""

    endpoint: str
    http: str
    remoting: str | None


def _run_checks(
    addresses: ServerAddresses, data_dir: Path, database: tuple[str, Path | None] | None, *, round_trip: bool
) -> "Iterator[Finding]":
    from ternmq_command.calls.admin import AdminClient
    from ternmq_command.server.diagnosis import checkup
    from ternmq_command.server.diagnosis.remoting_checkup import check_remoting

    endpoint, http, remoting = addresses

    yield from checkup.check_installation()
    yield from checkup.check_descriptors()
    yield from checkup.check_disk(data_dir)
    if database:
        yield from checkup.check_registry(*database)
    access = list(checkup.check_access())
    yield from access
    if any(finding.state == "problem" for finding in access):
        return
    with AdminClient(endpoint) as admin:
        try:
            yield from checkup.check_server(admin)
        except CommandFailure as failure:
            advised = failure.hint or "is it running, and is the port let through?"
            yield checkup.Finding("server", "problem", failure.what, advised)
            return
        yield from checkup.check_certificate(endpoint)
        yield from checkup.check_health(http)
        yield from check_remoting(remoting_address(endpoint, remoting), is_wanted=remoting is not None)
        try:
            yield from checkup.check_brokers(admin)
        except CommandFailure as failure:
            yield checkup.Finding("broker", "problem", failure.message, "the server's log says more")
        if round_trip:
            yield from checkup.check_round_trip(endpoint, admin)


def _print_finding(finding: "Finding") -> None:
    echo(f"{finding.state:<8} {finding.subject:<13} {finding.text}")
    if finding.advice:
        echo(f"{'':<22} -> {finding.advice}")
