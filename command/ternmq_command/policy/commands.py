"""`ternmq policy`: allows and denies users actions on resources, and lists and removes policies."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from ternmq_command.terminal.nearest_group import NearestGroup
from ternmq_command.terminal.options import endpoint_option, json_option
from ternmq_command.terminal.output import print_records
from ternmq_command.user.records import policy_record, print_user

F = TypeVar("F", bound=Callable[..., Any])


@click.group(cls=NearestGroup)
def command() -> None:
    """Set what users may do, and what they may not.

    A policy allows or denies a user actions on resources. An action that no policy allows is refused, and a policy that
    denies overrides all that allow. Super users need no policies.

    RESOURCE is Topic:NAME, Group:NAME or Cluster:NAME; a * at the end of NAME stands for any end, and * alone for
    everything. ACTIONS are some of Pub, Sub, Create, Update, Delete, Get and List with commas between, or All.

    \b
    Examples:
      ternmq policy allow alice 'Topic:orders-*' Pub,Sub --from 10.0.0.0/8
      ternmq policy allow alice Group:billing Sub
      ternmq policy deny alice Topic:orders-secret All
      ternmq policy list alice
    """


def _policy_arguments(command: F) -> F:
    ranges = click.option(
        "--from",
        "sources",
        multiple=True,
        metavar="RANGE",
        help="Only from addresses in this range (10.0.0.0/8, ::1); may be given several times.",
    )
    for decorate in (ranges, *(click.argument(name) for name in ("actions", "resource", "user"))):
        command = decorate(command)
    return command


@command.command()
@_policy_arguments
@endpoint_option
@json_option
def allow(user: str, resource: str, actions: str, sources: tuple[str, ...], endpoint: str, as_json: bool) -> None:
    """Allow USER ACTIONS on RESOURCE. This replaces the policy that allowed actions on exactly this RESOURCE.

    \b
    Examples:
      ternmq policy allow alice 'Topic:orders-*' Pub,Sub --from 10.0.0.0/8
      ternmq policy allow alice Group:billing Sub
      ternmq policy allow ops 'Cluster:*' Get,List
    """
    _put_policy(user, resource, actions, sources, endpoint, deny=False, as_json=as_json)


@command.command()
@_policy_arguments
@endpoint_option
@json_option
def deny(user: str, resource: str, actions: str, sources: tuple[str, ...], endpoint: str, as_json: bool) -> None:
    """Deny USER ACTIONS on RESOURCE, even if other policies allow them.

    \b
    Examples:
      ternmq policy deny alice Topic:orders-secret All
      ternmq policy deny alice '*' Delete
    """
    _put_policy(user, resource, actions, sources, endpoint, deny=True, as_json=as_json)


def _put_policy(
    user: str, resource: str, actions: str, sources: tuple[str, ...], endpoint: str, *, deny: bool, as_json: bool
) -> None:
    from ternmq.admin import users
    from ternmq_command.calls.admin import send_call

    changed = send_call(endpoint, users.put_policy(user, resource, actions, deny=deny, sources=sources))
    origin = f" from {', '.join(sources)}" if sources else ""
    verb = "may not" if deny else "may"
    print_user(changed, f"user {user} {verb} {actions} on {resource}{origin}", as_json=as_json)


@command.command()
@click.argument("user")
@click.argument("resource")
@click.option("--deny", is_flag=True, help="Remove the policy that denies; otherwise the one that allows.")
@endpoint_option
@json_option
def remove(user: str, resource: str, deny: bool, endpoint: str, as_json: bool) -> None:
    """Remove the policy of USER on RESOURCE.

    \b
    Examples:
      ternmq policy remove alice 'Topic:orders-*'
      ternmq policy remove alice Topic:orders-secret --deny
    """
    from ternmq.admin import users
    from ternmq_command.calls.admin import send_call

    changed = send_call(endpoint, users.delete_policy(user, resource, deny=deny))
    kind = "denies" if deny else "allows"
    print_user(changed, f"user {user} has no policy any more that {kind} actions on {resource}", as_json=as_json)


@command.command(name="list")
@click.argument("user", required=False)
@endpoint_option
@json_option
def list_policies(user: str | None, endpoint: str, as_json: bool) -> None:
    """List the policies of all users, or of USER.

    \b
    Examples:
      ternmq policy list
      ternmq policy list alice --json | jq -r '.[].resource'
    """
    from ternmq.admin import users as user_calls
    from ternmq_command.calls.admin import AdminClient

    with AdminClient(endpoint) as admin:
        if user is None:
            found = [each for page in admin.send_pages(user_calls.list_users) for each in page.users]
        else:
            found = [admin.send_call(user_calls.describe_user(user))]
    records = [{"user": each.name, **policy_record(policy)} for each in found for policy in each.policies]
    print_records(records, as_json=as_json, nothing="no policies")
