"""`ternmq tls`: creates certificates for development."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ternmq_command.terminal.failures import CommandFailure, WrongUsage
from ternmq_command.terminal.nearest_group import NearestGroup
from ternmq_command.terminal.options import json_option
from ternmq_command.terminal.output import print_json
from ternmq_command.terminal.printing import echo
from ternmq_common.installing import missing_extra_error
from ternmq_common.process.private_files import create_file, create_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_command.tls.authority import IssuedCertificate

_LOCAL = ("localhost", "127.0.0.1", "::1")
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?|\[?[0-9A-Fa-f:.]+\]?", re.ASCII)
_DAYS_MAX = 3650


@click.group(cls=NearestGroup)
def command() -> None:
    """Create certificates for development.

    \b
    Examples:
      ternmq tls dev-ca certs
    """


@command.command(name="dev-ca")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--host", "hosts", metavar="NAME", multiple=True,
              help="Another name or address of servers, beside those of this machine; may be repeated.")  # fmt: skip
@click.option(
    "--days", type=click.IntRange(1, _DAYS_MAX), default=365, show_default=True, help="How long all are valid."
)
@click.option("--force", is_flag=True, help="Replace all of them, CAs too.")
@json_option
def dev_ca(directory: Path, hosts: tuple[str, ...], days: int, force: bool, as_json: bool) -> None:
    """Create CAs and certificates in DIR, for development and tests.

    \b
    ca.pem           the CA that clients trust
    server.pem       a server's certificate, of that CA, for localhost and each --host
    client.pem       a client's certificate, of that CA
    cluster-ca.pem   another CA, by which proxies and brokers know each other
    cluster.pem      the certificate of all proxies and brokers, of that CA, for the same hosts

    Each has its key beside it, NAME.key, which only you may read. Anyone with ca.key can create servers that clients
    trust, and anyone with cluster-ca.key members of the cluster: for production use a CA whose key is stored safely.

    \b
    Examples:
      ternmq tls dev-ca certs
      ternmq tls dev-ca certs --host mq.example.com --host 10.0.0.5
      ternmq tls dev-ca certs --force
    """
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise WrongUsage(f"--host {host!r} is no name and no address")
    certificates = _create_certificates([*_LOCAL, *hosts], days)
    names = [name for base in certificates for name in (f"{base}.pem", f"{base}.key")]
    there = [name for name in names if (directory / name).exists()]
    if there and not force:
        raise CommandFailure(
            f"{directory} already has {', '.join(there)}", hint="choose another DIR, or replace all by --force"
        )
    try:
        create_folder(directory)
        for base, issued in certificates.items():
            _replace_file(directory / f"{base}.key", issued.key)
            _replace_file(directory / f"{base}.pem", issued.cert)
    except OSError as error:
        raise CommandFailure(f"the files can't be written: {error.filename or directory}: {error.strerror}") from error
    if as_json:
        print_json({"directory": str(directory), "files": names, "days": days})
    else:
        echo(f"created {', '.join(names)} in {directory}, valid for {days} days")
        echo(f"serve with them: ternmq up --tls-cert {directory}/server.pem --tls-key {directory}/server.key")


def _create_certificates(hosts: "Sequence[str]", days: int) -> "dict[str, IssuedCertificate]":
    try:
        from ternmq_command.tls.authority import CLIENT, SERVER, CertificateAuthority
    except ModuleNotFoundError as error:
        raise CommandFailure(str(missing_extra_error(error, "ternmq tls", "server"))) from error
    clients, cluster = (
        CertificateAuthority("TernMQ dev CA", days=days),
        CertificateAuthority("TernMQ dev cluster CA", days=days),
    )
    return {
        "ca": clients.own_certificate,
        "server": clients.issue_certificate("TernMQ dev server", hosts, SERVER),
        "client": clients.issue_certificate("TernMQ dev client", (), CLIENT),
        "cluster-ca": cluster.own_certificate,
        "cluster": cluster.issue_certificate("TernMQ dev member", hosts, SERVER, CLIENT),
    }


def _replace_file(path: Path, data: bytes) -> None:
    """Replace a file atomically, readable only by this user; raises OSError."""
    beside = path.with_name(path.name + ".new")
    beside.unlink(missing_ok=True)
    with create_file(beside) as file:
        file.write(data)
    beside.replace(path)
