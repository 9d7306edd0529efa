"""`ternmq mirror`: copies messages of an Apache RocketMQ cluster while both run, and moves its consumer groups."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.options import (
    DurationParam,
    endpoint_option,
    json_option,
    remoting_address,
    remoting_option,
)

if TYPE_CHECKING:
    from datetime import timedelta


_NAME_SIGNS = "/;"


@click.command()
@click.option(
    "--namesrv",
    required=True,
    metavar="HOST:PORT[;...]",
    help="Name servers of the source; the first that answers is used.",
)
@click.option("--topic", "topics", multiple=True, metavar="PATTERN", help="Only topics like orders-*; repeatable.")
@click.option(
    "--group", "groups", multiple=True, metavar="PATTERN", help="Move only consumer groups like billing-*; repeatable."
)
@click.option("--without-groups", is_flag=True, help="Copy messages, and move no group.")
@click.option(
    "--unconsumed-only",
    is_flag=True,
    help="Begin a queue with the first message that one of its groups has not consumed, not with the first one kept.",
)
@click.option("--until-caught-up", is_flag=True, help="End when everything at the source is copied.")
@click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep positions here, so that the next start need not read the copies in the target.",
)
@click.option(
    "--sync-interval", type=DurationParam(), default="2s", show_default=True, help="How often groups are moved."
)
@click.option(
    "--rate", type=click.IntRange(min=1), metavar="N", help="Copy at most so many messages a second.  [default: all]"
)
@click.option("--skip-refused", is_flag=True, help="Leave out, and count, what the target does not take, and go on.")
@click.option("--source-name", metavar="NAME", help="What copies say of their source.  [default: its cluster's name]")
@click.option(
    "--target-name", default="", metavar="NAME", help="What a mirror in the other direction calls this target."
)
@click.option("--source-tls", is_flag=True, help="Connect to the name servers and brokers with TLS.")
@remoting_option
@endpoint_option
@json_option
def command(
    *,
    namesrv: str,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    without_groups: bool,
    unconsumed_only: bool,
    until_caught_up: bool,
    state: Path | None,
    sync_interval: "timedelta",
    rate: int | None,
    skip_refused: bool,
    source_name: str | None,
    target_name: str,
    source_tls: bool,
    remoting: str | None,
    endpoint: str,
    as_json: bool,
) -> None:
    """Copy the messages of an Apache RocketMQ cluster, 4.x or 5.x, to a TernMQ server while both run.

    Create topics and groups first with `ternmq import rocketmq`. Each queue is copied in order into a queue of the
    same topic, until SIGTERM or Ctrl-C. A group that has no members at the target is moved over the messages that it
    has consumed at the source, so that its consumers continue there: they miss no message, and receive few twice.

    Copies name their place at the source in the property TERNMQ_MIRROR. A mirror that was killed reads them, and
    continues after them. At the end it prints a summary: messages copied, messages found twice, and messages lost
    because the source removed them before.

    With access control at the source, $ROCKETMQ_ACCESS_KEY and $ROCKETMQ_SECRET_KEY are the keys of a super user.

    \b
    Examples:
      ternmq mirror --namesrv 10.0.0.1:9876 --state /var/lib/ternmq-mirror
      ternmq mirror --namesrv '10.0.0.1:9876;10.0.0.2:9876' --topic 'orders*' --group 'billing*'
      ternmq mirror --namesrv 10.0.0.1:9876 --topic orders --until-caught-up --json
    """
    import ssl

    from ternmq_command.calls.remoting_calls import RemotingAccess, current_remoting_access
    from ternmq_command.migration.apache_cluster import split_addresses
    from ternmq_command.migration.commands import ACCESS_KEY, SECRET_KEY
    from ternmq_command.mirror.mirroring import Wish
    from ternmq_command.mirror.running import MirrorCall, run_mirror

    for name in (source_name or "", target_name):
        if any(sign in name for sign in _NAME_SIGNS):
            raise WrongUsage(f"the name of a cluster can't have one of the signs {_NAME_SIGNS}: {name}")
    source_access = RemotingAccess(
        ssl.create_default_context() if source_tls else None,
        access_key=os.environ.get(ACCESS_KEY, ""),
        secret_key=os.environ.get(SECRET_KEY, ""),
    )
    wish = Wish(
        topics=topics,
        groups=groups,
        target=remoting_address(endpoint, remoting),
        sync_groups=not without_groups,
        sync_s=max(0.1, sync_interval.total_seconds()),
        unconsumed_only=unconsumed_only,
        until_caught_up=until_caught_up,
    )
    run_mirror(
        MirrorCall(
            name_servers=split_addresses(namesrv),
            source_access=source_access,
            target_access=current_remoting_access(),
            source_name=source_name,
            target_name=target_name,
            skips_refused=skip_refused,
            rate=float(rate or 0),
            state=state,
            wish=wish,
            as_json=as_json,
        )
    )
