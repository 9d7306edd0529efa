"""`ternmq registry rebuild`: rebuilds the topics and groups of a lost or damaged registry from a store."""

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ternmq_command.registry.failures import registry_failures
from ternmq_command.registry.member_settings import BROKER_NAME_OPTION, DATA_DIR_OPTION, PASSWORD_FILE_OPTION
from ternmq_command.server.server_options import config_option, load_process_settings
from ternmq_command.terminal.confirmation import confirm_action, yes_option
from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.options import json_option
from ternmq_command.terminal.output import format_count, format_table, print_json
from ternmq_command.terminal.printing import echo, echo_lines
from ternmq_common.server_settings import BrokerServerSettings, ServerSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ternmq_broker.rebuilding.registry_rebuild import RebuildPlan, RegistryRebuild
    from ternmq_common.shard.model import ConsumerGroup, Topic

GUESSED = (
    "derived from the store: types are those of the newest of the first and last messages of each queue, queues are "
    "counted up to the last that was used, a group is fifo if all its topics are and it never retried, and lite if it "
    "consumed lite topics; all other settings are the defaults"
)


@click.command()
@config_option
@DATA_DIR_OPTION
@click.option(
    "--registry",
    metavar="URL",
    help="The database of a cluster, which gets the topics and groups of one of its brokers.",
)
@PASSWORD_FILE_OPTION
@BROKER_NAME_OPTION
@click.option("--dry-run", is_flag=True, help="Only print what would be created.")
@yes_option
@json_option
def rebuild(
    config: Path | None,
    data_dir: Path | None,
    registry: str | None,
    registry_password_file: Path | None,
    broker_name: str | None,
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Rebuild the topics and groups that a registry has lost, from a store.

    The server must not run. Existing rows of the registry stay as they are. From a damaged registry.db, the rows that
    can be trusted are copied; the damaged file is kept beside it. The store has less: a topic's type and queues, and
    the names of groups; the other settings become the defaults, and topics without any message are lost. Users and
    quotas that can't be copied have to be created again. Look at the result with --dry-run first.

    With --registry, the database of a cluster gets the topics and groups of one of its brokers: run it for each broker.

    \b
    Examples:
      ternmq registry rebuild --data-dir /var/lib/ternmq --dry-run
      ternmq registry rebuild --data-dir /var/lib/ternmq --yes
      ternmq registry rebuild --data-dir /var/lib/b1 --broker-name b1 --registry postgresql://ternmq@db/ternmq
    """
    flags: dict[str, object] = {"data_dir": data_dir, "broker_name": broker_name}
    in_cluster: dict[str, object] = {"registry": registry, "registry_password_file": registry_password_file}
    with registry_failures(), _open_rebuild(config, flags, in_cluster) as planned:
        plan = planned.plan
        if not as_json:
            _print_plan(plan)
        if not dry_run and not plan.is_empty:
            confirm_action("Create these topics and groups?", yes=yes)
        aside = None if dry_run or plan.is_empty else planned.carry_out()
    if as_json:
        shown = {"damage": plan.damage, "set_aside": aside and str(aside), "unreadable": plan.unreadable}
        print_json({"dry_run": dry_run, "made": _rebuilt_records(plan), **shown})
    elif not plan.is_empty:
        _print_result(plan, aside, dry_run=dry_run)


@contextmanager
def _open_rebuild(
    config: Path | None, flags: dict[str, object], in_cluster: dict[str, object]
) -> "Iterator[RegistryRebuild]":
    from ternmq_broker.rebuilding.registry_rebuild import cluster_rebuild, embedded_rebuild

    if in_cluster["registry"] is not None:
        member = load_process_settings(BrokerServerSettings, config, {**flags, **in_cluster}).settings
        with cluster_rebuild(member) as planned:
            yield planned
        return
    settings = load_process_settings(ServerSettings, config, flags).settings
    if (settings.data_dir / "store-id").exists():
        raise WrongUsage(f"{settings.data_dir} belongs to a broker of a cluster: name the database with --registry")
    with embedded_rebuild(settings) as planned:
        yield planned


def _print_plan(plan: "RebuildPlan") -> None:
    if plan.damage is not None:
        echo(f"the registry is damaged: {plan.damage}", err=True)
    for name in plan.unreadable:
        echo(f"can't be read any more: {name}", err=True)
    if records := _rebuilt_records(plan):
        echo_lines(format_table(records))
    else:
        echo("the registry has all topics and groups of the store", err=True)


def _print_result(plan: "RebuildPlan", aside: Path | None, *, dry_run: bool) -> None:
    if plan.topics or plan.groups:
        echo(GUESSED, err=True)
    if aside is not None:
        echo(f"the damaged registry is kept as {aside}", err=True)
    topics, groups = len(plan.topics) + len(plan.kept_topics), len(plan.groups) + len(plan.kept_groups)
    done = "would be rebuilt" if dry_run else "rebuilt"
    echo(f"{format_count(topics, 'topic')} and {format_count(groups, 'group')} {done}", err=True)


def _rebuilt_records(plan: "RebuildPlan") -> list[dict[str, object]]:
    """Return the records of topics and groups; `messages` are stored, `waiting` are timed and half messages."""
    rebuilt = {change.topic.name for change in plan.topics}
    return [
        *(_topic_record(topic, "registry") for topic in plan.kept_topics if topic.name not in rebuilt),
        *(
            _topic_record(change.topic, "store", change.stored.messages, change.stored.waiting)
            for change in plan.topics
        ),
        *(_group_record(group, "registry") for group in plan.kept_groups),
        *(_group_record(group, "store") for group in plan.groups),
        *(_rebuilt_record("user", user.name, "registry") for user in plan.kept_users),
        *(_rebuilt_record("quota", quota.title, "registry") for quota in plan.kept_quotas),
        *(_rebuilt_record("value", f"{namespace}:{name}", "registry") for namespace, name, _ in plan.kept_values),
    ]


def _topic_record(
    topic: "Topic", source: str, messages: int | None = None, waiting: int | None = None
) -> dict[str, object]:
    held = {"queues": topic.queues, "messages": messages, "waiting": waiting}
    return {**_rebuilt_record("topic", topic.name, source), "type": topic.type_name.lower(), **held}


def _group_record(group: "ConsumerGroup", source: str) -> dict[str, object]:
    return {
        **_rebuilt_record("group", group.name, source),
        "type": "lite" if group.lite else "fifo" if group.fifo else None,
    }


def _rebuilt_record(kind: str, name: str, source: str) -> dict[str, object]:
    unknown = dict.fromkeys(("type", "queues", "messages", "waiting"))
    return {"kind": kind, "name": name, **unknown, "source": source}
