"""`ternmq import rocketmq`: creates here what a cluster of Apache RocketMQ has, after it has shown what that is."""

import os
from typing import TYPE_CHECKING

import click

from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.nearest_group import NearestGroup
from ternmq_command.terminal.options import endpoint_option, json_option
from ternmq_command.terminal.printing import echo, echo_lines

if TYPE_CHECKING:
    from ternmq_command.apply.declarations import Declarations
    from ternmq_command.migration.translation import Translation

ACCESS_KEY, SECRET_KEY = "ROCKETMQ_ACCESS_KEY", "ROCKETMQ_SECRET_KEY"
_LINE_CHARACTERS = 10_000


@click.group(cls=NearestGroup)
def command() -> None:
    """Create what another message broker has: topics, groups, users.

    \b
    Examples:
      ternmq import rocketmq --namesrv 10.0.0.1:9876
      ternmq import rocketmq --namesrv 10.0.0.1:9876 --yes
    """


@command.command()
@click.option(
    "--namesrv", required=True, metavar="HOST:PORT[;...]", help="Name servers; the first that answers is used."
)
@click.option("--topic", "topics", multiple=True, metavar="PATTERN", help="Only topics like orders-*; repeatable.")
@click.option(
    "--group", "groups", multiple=True, metavar="PATTERN", help="Only consumer groups like billing-*; repeatable."
)
@click.option("--without-users", is_flag=True, help="Leave users and policies out.")
@click.option(
    "--mixed", is_flag=True, help="Create topics that accept messages of all types, as those of RocketMQ 4 do."
)
@click.option("--source-tls", is_flag=True, help="Connect to the name servers and brokers with TLS.")
@click.option(
    "--declare", is_flag=True, help="Print a file for `ternmq apply`, without secrets, and ask no TernMQ server."
)
@click.option("--yes", is_flag=True, help="Create and update; without it, only print what would be done.")
@endpoint_option
@json_option
def rocketmq(
    *,
    namesrv: str,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    without_users: bool,
    mixed: bool,
    source_tls: bool,
    declare: bool,
    yes: bool,
    endpoint: str,
    as_json: bool,
) -> None:
    """Create the topics, consumer groups and users of an Apache RocketMQ cluster, 4.x or 5.x.

    Without --yes it prints what it would do, and changes nothing; it never changes the source. Messages are not copied:
    groups begin at the earliest message here, so that producers can move before consumers, and nothing is skipped.
    What has to be known is printed as notes on standard error, among it the messages that each group has yet to consume
    at the source: `ternmq mirror` copies them.

    With access control at the source, $ROCKETMQ_ACCESS_KEY and $ROCKETMQ_SECRET_KEY are the keys of a super user.

    \b
    Examples:
      ternmq import rocketmq --namesrv 10.0.0.1:9876
      ternmq import rocketmq --namesrv 10.0.0.1:9876 --yes
      ternmq import rocketmq --namesrv 10.0.0.1:9876 --topic 'orders-*' --declare > topics.yaml
    """
    from ternmq_command.calls.remoting_calls import RemotingAccess
    from ternmq_command.migration.apache_cluster import read_cluster
    from ternmq_command.migration.translation import Wanted, translate_cluster

    if declare and yes:
        raise WrongUsage("--declare prints a file and --yes changes a server: one of them is needed, not both")
    import ssl

    access = RemotingAccess(
        ssl.create_default_context() if source_tls else None,
        access_key=os.environ.get(ACCESS_KEY, ""),
        secret_key=os.environ.get(SECRET_KEY, ""),
    )
    source = read_cluster(namesrv, access)
    translation = translate_cluster(source, Wanted(topics, groups, users=not without_users, mixed=mixed))
    for note in translation.notes:
        echo(f"note: {note}", err=True)
    if declare:
        _print_file(namesrv, translation)
        return
    from ternmq_command.apply.changes import apply_declarations

    declared = _declarations(namesrv, translation)
    differs = apply_declarations(declared, source=namesrv, endpoint=endpoint, dry_run=not yes, as_json=as_json)
    if differs and not yes:
        echo("nothing was changed; --yes does it", err=True)


def _declarations(source: str, translation: "Translation") -> "Declarations":
    from dataclasses import replace

    from ternmq_command.apply.declarations import parse_declarations

    declared = parse_declarations(translation.content, source=source)
    users = [replace(user, secret=translation.secrets.get(user.name, "")) for user in declared.users]
    return replace(declared, users=users)


def _print_file(source: str, translation: "Translation") -> None:
    import yaml

    echo(f"# Read from the name server {source}, for `ternmq apply -f FILE`.")
    text = yaml.safe_dump(translation.content, sort_keys=False, default_flow_style=None, width=_LINE_CHARACTERS)
    echo_lines(text.rstrip("\n"))
