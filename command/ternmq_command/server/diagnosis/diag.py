"""`ternmq diag`: writes a bundle of a server's state, for diagnosing a fault."""

from datetime import UTC, datetime
from pathlib import Path

import click

from ternmq_command.terminal.failures import CommandFailure, ServerUnreachable, WrongUsage
from ternmq_command.terminal.options import endpoint_option, http_address, http_option, json_option
from ternmq_command.terminal.output import print_json
from ternmq_command.terminal.printing import echo


@click.command()
@click.option("--out", type=click.Path(path_type=Path), help="The file.  [default: ternmq-diag-TIME.tar.gz, here]")
@http_option
@click.option(
    "--log",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The server's log file, on this machine; its last 1000 lines are included.",
)
@endpoint_option
@json_option
def command(out: Path | None, http: str | None, log: Path | None, endpoint: str, as_json: bool) -> int:
    """Write a bundle (tar.gz) of a server's settings and state, to be sent to the person who diagnoses a fault.

    Inside are version, platform, settings in force, status, health, metrics, topics, groups, brokers, clients, stacks
    of threads, and the end of a log; manifest.json says what each file is, and what is missing. Passwords, tokens and
    other secrets are masked, and messages are left out; names of topics, groups and clients, and addresses, are
    included. Look into it before you send it. Exit codes: 0 written; 3 written, though nothing answers at the endpoint.

    \b
    Examples:
      ternmq diag
      ternmq diag --out /tmp/ternmq.tar.gz --log /var/log/ternmq.log
      ternmq diag --endpoint mq.example.com:8081 --http mq.example.com:9082
    """
    from ternmq_command.server.diagnosis.bundle import DiagnosticBundle
    from ternmq_command.server.diagnosis.diag_parts import fill_bundle

    now = datetime.now(UTC)
    file = out or Path(f"ternmq-diag-{now:%Y%m%dT%H%M%SZ}.tar.gz")
    bundle = DiagnosticBundle(now)
    fill_bundle(bundle, endpoint, http_address(endpoint, http), log)
    try:
        bundle.write(file)
    except FileExistsError:
        raise WrongUsage(f"{file} already exists", hint="name another with --out") from None
    except OSError as error:
        raise CommandFailure(f"can't write {file}: {error.strerror or error}") from None
    if as_json:
        print_json({"file": str(file), "parts": bundle.manifest_parts()})
    else:
        for part in bundle.manifest_parts():
            if part["problem"]:
                echo(f"ternmq: {part['file']} is not inside: {part['problem']}", err=True)
        echo(f"{file} written; look into it before you send it: `tar xzf {file}`")
    return ServerUnreachable.exit_code if bundle.is_unreachable else 0
