"""`ternmq group`: creates, lists, describes, updates and deletes consumer groups; `offset.py` has their offsets."""

from typing import TYPE_CHECKING, Any, cast

import click

from ternmq_command.group import offset as group_offset
from ternmq_command.group.members import member_record, member_rows
from ternmq_command.group.progress import format_lag, progress_record, progress_rows, sum_progress
from ternmq_command.group.settings import LITE_COLUMNS, group_record, group_row, lite_option
from ternmq_command.terminal.confirmation import confirm_action, yes_option
from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.name_suggestions import suggesting_names
from ternmq_command.terminal.nearest_group import NearestGroup
from ternmq_command.terminal.options import endpoint_option, json_option
from ternmq_command.terminal.output import (
    drop_empty_columns,
    format_cell,
    format_count,
    format_record,
    format_table,
    print_json,
    print_records,
)
from ternmq_command.terminal.printing import echo, echo_lines, echo_warning
from ternmq_command.terminal.setting_options import settings_options
from ternmq_command.terminal.template import Template, check_one_form, format_option
from ternmq_common.resources.group_settings import GROUP_SETTINGS, LITE_GROUP_SETTINGS

if TYPE_CHECKING:
    from ternmq.admin.groups import GroupDescription, GroupSettings
    from ternmq_command.apply.plan import PlannedChange
    from ternmq_command.calls.admin import AdminClient

FIFO = GROUP_SETTINGS[0]
SETTINGS = (*GROUP_SETTINGS[1:], *LITE_GROUP_SETTINGS)
# Of `group_record`.
GROUP_FIELDS = ("name", *(each.name for each in GROUP_SETTINGS), *LITE_COLUMNS, "created")


@click.group(cls=NearestGroup)
def command() -> None:
    """Create, list, describe, change and delete consumer groups, and reset their offsets.

    \b
    Examples:
      ternmq group create billing --fifo --max-attempts 5
      ternmq group describe billing
      ternmq group update billing --retry-backoff exponential:1s,10m,2
      ternmq group offset reset billing --topic orders --to-time 2h
    """


command.add_command(group_offset.command, "offset")


@command.command()
@click.argument("name")
@settings_options([FIFO], at_creation=True)
@click.option(
    "--lite-bind",
    metavar="TOPIC",
    help="Create a lite group, whose clients subscribe to lite topics of TOPIC; this can't be changed later.",
)
@settings_options(SETTINGS, at_creation=True)
@endpoint_option
@json_option
def create(name: str, lite_bind: str | None, endpoint: str, as_json: bool, **settings: Any) -> None:  # noqa: ANN401 - as described
    """Create consumer group NAME; succeeds if it exists with the same settings.

    \b
    Examples:
      ternmq group create billing
      ternmq group create billing --fifo --max-attempts 5
      ternmq group create audit --retry-backoff customized:1s,5s,10s --consume-from earliest
      ternmq group create report --consume-from 2026-08-01T12:00 --queue-lock-hold 30s
      ternmq group create alarms --priority-factor 90
      ternmq group create agents --lite-bind chats --lite-model exclusive --lite-reset taken
    """
    from ternmq.admin import groups as group_calls

    if lite_bind is None and (option := lite_option(settings)):
        raise WrongUsage(f"{option} is for lite groups: give the topic that the group is bound to with --lite-bind")
    from ternmq_command.apply.update_suggestions import suggesting_update
    from ternmq_command.calls.admin import AdminClient

    with (
        AdminClient(endpoint) as admin,
        suggesting_update(lambda: _find_difference(admin, name, lite_bind, settings)),
    ):
        created = admin.send_call(group_calls.create_group(name, lite_bind=lite_bind, **settings))
    if as_json:
        print_json({"name": name, "created": created})
    else:
        echo(f"group {name} {'created' if created else 'exists already, with these settings'}")


def _find_difference(
    admin: "AdminClient", name: str, lite_bind: str | None, settings: dict[str, Any]
) -> "PlannedChange | None":
    """Return the change that would give the existing group the requested settings; None if there is no such group."""
    from ternmq.admin import groups as group_calls
    from ternmq_command.apply.declarations import DeclaredGroup
    from ternmq_command.apply.plan import group_change

    there = next((group for group in admin.send_call(group_calls.list_groups()) if group.name == name), None)
    declared = DeclaredGroup(name=name, lite_bind=lite_bind, settings=settings, begins_ago=False)
    return None if there is None else group_change(declared, there)


@command.command(name="list")
@click.option("--search", default="", metavar="TEXT", help="Those with this in their name, in any case.")
@endpoint_option
@json_option
@format_option(*GROUP_FIELDS)
def list_groups(endpoint: str, search: str, as_json: bool, template: Template | None) -> None:
    """List all consumer groups.

    \b
    Examples:
      ternmq group list
      ternmq group list --search orders
      ternmq group list --json
      ternmq group list --format '{name} {max_attempts}'
    """
    from ternmq.admin import groups as group_calls

    check_one_form(template, as_json=as_json)
    from ternmq_command.calls.admin import AdminClient

    with AdminClient(endpoint) as admin:
        records = [group_record(group) for group in admin.send_call(group_calls.list_groups(search=search))]
    if template is not None:
        template.write_records(records)
        return
    shown = records if as_json else drop_empty_columns([group_row(record) for record in records], "lite")
    print_records(shown, as_json=as_json, nothing="no groups" + (f" with {search!r} in their name" if search else ""))


@command.command()
@click.argument("name")
@endpoint_option
@json_option
def describe(name: str, endpoint: str, as_json: bool) -> None:
    """Show consumer group NAME, how far it is in each queue, and its connected members.

    The lag of a queue is the number of messages that the group has neither acknowledged nor given up; where the group
    has no offset, it counts from where it would begin. LOST are messages that retention or a purge removed before the
    group had read them. A warning says where members subscribe differently, so that some miss messages.

    READER is the member that pulls from a queue, and LOCK the one that has locked it, in groups whose members read by
    offset, as clients of RocketMQ 4 do. Where members receive messages, any of them gets messages of any queue.

    \b
    Examples:
      ternmq group describe billing
      ternmq group describe billing --json | jq .lag
    """
    from ternmq.admin import groups as group_calls
    from ternmq_command.calls.admin import AdminClient

    with AdminClient(endpoint) as admin, suggesting_names(admin, "group", name):
        answer = admin.send_call(group_calls.describe_group(name))
    total = sum_progress(answer.progress)
    record: dict[str, object] = {
        **group_record(answer.group),
        "lag": total["lag"],
        "lag_s": total["lag_s"],
        "lost": total["lost"],
        "progress": [progress_record(entry) for entry in answer.progress],
        "members": [member_record(member) for member in answer.members],
        "clients": list(answer.client_ids),
        "inconsistencies": list(answer.inconsistencies),
        "silent": list(answer.silent),
    }
    if as_json:
        print_json(record)
    else:
        _print_group(answer)


def _print_group(answer: "GroupDescription") -> None:
    (head,) = drop_empty_columns([group_row(group_record(answer.group))], "lite")
    head["lag"] = format_lag(sum_progress(answer.progress)) if has_topic(answer) else "no topic yet"
    head["clients"] = list(answer.client_ids)
    echo_lines(format_record(head))
    if lost := sum(entry.lost for entry in answer.progress):
        echo_warning(
            f"{format_count(lost, 'message')} lost: retention or a purge removed them before the group had read them"
        )
    for inconsistency in answer.inconsistencies:
        echo_warning(inconsistency)
    for silent in answer.silent:
        echo_warning(f"no answer from {silent}; members that are connected there are not listed")
    if answer.progress:
        echo_lines("\n" + format_table(progress_rows([progress_record(entry) for entry in answer.progress])))
    if answer.members:
        echo_lines("\n" + format_table(member_rows(answer.members)))


def has_topic(answer: "GroupDescription") -> bool:
    """Return whether the group reads or subscribes to any topic, so that it has a lag."""
    return bool(answer.progress) or any(member.subscriptions for member in answer.members)


@command.command()
@click.argument("name")
@settings_options([FIFO, *SETTINGS])
@endpoint_option
@json_option
def update(name: str, endpoint: str, as_json: bool, **settings: Any) -> None:  # noqa: ANN401 - as described
    """Change settings of consumer group NAME; what is not given stays as it is.

    Connected clients learn of the change within five minutes, but restart consumers after --fifo or --no-fifo: some
    read that only at their start.

    \b
    Examples:
      ternmq group update billing --max-attempts 8
      ternmq group update billing --retry-backoff exponential:1s,10m,2
      ternmq group update report --queue-lock-hold 0s
      ternmq group update workers --fifo
      ternmq group update agents --lite-quota 100 --lite-reset none
    """
    from ternmq.admin import groups as group_calls

    if all(value is None for value in settings.values()):
        raise WrongUsage("nothing to change: give at least one setting, such as --max-attempts")
    from ternmq_command.calls.admin import AdminClient

    with AdminClient(endpoint) as admin, suggesting_names(admin, "group", name):
        there = admin.send_call(group_calls.describe_group(name)).group
        before = group_record(there)
        after = group_record(admin.send_call(group_calls.update_group(there, cast("GroupSettings", settings))))
    if as_json:
        print_json(after)
        return
    changed = {
        setting: f"{format_cell(before[setting])} -> {format_cell(value)}"
        for setting, value in after.items()
        if before[setting] != value
    }
    echo(f"group {name} " + ("updated" if changed else "has these settings already"))
    if changed:
        echo_lines(format_record(changed))


@command.command()
@click.argument("name")
@click.option("--with-dead-letters", is_flag=True, help="Delete its dead letters too.")
@yes_option
@endpoint_option
@json_option
def delete(name: str, with_dead_letters: bool, yes: bool, endpoint: str, as_json: bool) -> None:
    """Delete consumer group NAME and its progress. Asks first; without a terminal it needs --yes.

    Its dead letters stay, and belong to a group that is created with this name later. Until then the server refuses the
    group's clients, and they do not create it again.

    \b
    Examples:
      ternmq group delete billing
      ternmq group delete billing --with-dead-letters --yes
    """
    from ternmq.admin import groups as group_calls
    from ternmq_command.calls.admin import AdminClient
    from ternmq_command.group.deletion import GroupContents

    with AdminClient(endpoint) as admin, suggesting_names(admin, "group", name):
        confirm_action(
            lambda: GroupContents.read_from(admin, name).deletion_question(name, with_dead_letters=with_dead_letters),
            yes=yes,
        )
        contents = GroupContents.read_from(admin, name)
        admin.send_call(group_calls.delete_group(name, with_dead_letters=with_dead_letters))
    if as_json:
        print_json(contents.deletion_record(name, with_dead_letters=with_dead_letters))
    else:
        echo(contents.deletion_message(name, with_dead_letters=with_dead_letters))
