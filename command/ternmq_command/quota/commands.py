"""`ternmq quota`: sets, lists, shows and removes quotas of users, topics, groups and clients."""

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from ternmq_command.quota.limits import merge_limits, quota_record
from ternmq_command.terminal.failures import CommandFailure, WrongUsage
from ternmq_command.terminal.nearest_group import NearestGroup
from ternmq_command.terminal.options import DurationParam, endpoint_option, json_option
from ternmq_command.terminal.output import format_count, format_record, format_table, print_json, print_records
from ternmq_command.terminal.printing import echo, echo_lines
from ternmq_command.terminal.setting_options import settings_options
from ternmq_common.errors import MessagingError
from ternmq_common.resources.quotas import LIMITS, parse_title

if TYPE_CHECKING:
    from ternmq.admin.quotas import Quota, QuotaKindName, QuotaList, QuotaUse


@click.group(cls=NearestGroup)
def command() -> None:
    """Limit the traffic of users, topics, groups and clients, and show how much they use.

    A quota has a kind and a name, as in user:alice, topic:orders, group:billing, client:loader-7; the name * is the
    default for all of the kind that have no quota of their own. A quota holds for all proxies of a cluster together.
    While access control is off, all clients are one user without a name, with the quota user:*.

    \b
    Examples:
      ternmq quota set user:alice --messages-in 1000/s --bytes-in 10MiB/s --burst 2s
      ternmq quota set client:* --connections 4
      ternmq quota list
      ternmq quota remove user:alice
    """


def _parse_title(context: click.Context, parameter: click.Parameter, title: str) -> "tuple[QuotaKindName, str]":
    try:
        kind, name = parse_title(title)
    except MessagingError as error:
        raise click.BadParameter(error.message, context, parameter) from None
    return kind.value, name


title_argument = click.argument("title", metavar="KIND:NAME", callback=_parse_title)


@command.command(name="set")
@title_argument
@settings_options(LIMITS)
@click.option("--burst", type=DurationParam(), help="For how long a rate may be used up in one burst.  [default: 1s]")
@endpoint_option
@json_option
def set_quota(
    title: "tuple[QuotaKindName, str]", burst: timedelta | None, endpoint: str, as_json: bool, **limits: int | None
) -> None:
    """Set limits of a quota, or create it. Limits that are not given stay; none removes a limit.

    \b
    Examples:
      ternmq quota set user:alice --messages-in 1000/s --bytes-in 10MiB/s --burst 2s
      ternmq quota set user:alice --bytes-in none
      ternmq quota set group:report --messages-out 200/s --in-flight 1000
      ternmq quota set user:* --topics-per-hour 10/h
    """
    from ternmq.admin import quotas as calls
    from ternmq_command.calls.admin import AdminClient

    if burst is None and all(value is None for value in limits.values()):
        raise WrongUsage("no limit is given; see `ternmq quota set --help`")
    kind, name = title
    with AdminClient(endpoint) as admin:
        there = _find_quota(admin.send_call(calls.list_quotas()), kind, name)
        given = {limit: value for limit, value in limits.items() if value is not None}
        admin.send_call(calls.put_quota(kind, name, **merge_limits(there, given, burst)))
        now = _find_quota(admin.send_call(calls.list_quotas()), kind, name)
    if now is None:
        raise CommandFailure(f"quota {kind}:{name} was removed by another call in the meantime")
    if as_json:
        print_json(quota_record(now))
    else:
        echo(f"quota {kind}:{name} {'created' if there is None else 'changed'}")


@command.command()
@title_argument
@endpoint_option
@json_option
def remove(title: "tuple[QuotaKindName, str]", endpoint: str, as_json: bool) -> None:
    """Remove a quota: the default quota of the kind applies then, or none.

    \b
    Examples:
      ternmq quota remove user:alice
      ternmq quota remove client:*
    """
    from ternmq.admin import quotas as calls
    from ternmq_command.calls.admin import send_call

    kind, name = title
    send_call(endpoint, calls.delete_quota(kind, name))
    if as_json:
        print_json({"kind": kind, "name": name, "removed": True})
    else:
        echo(f"quota {kind}:{name} removed")


@command.command(name="list")
@endpoint_option
@json_option
def list_quotas(endpoint: str, as_json: bool) -> None:
    """List the quotas, and the names that use most of them, at all proxies together.

    \b
    Examples:
      ternmq quota list
      ternmq quota list --json | jq '.uses[] | select(.refused > 0)'
    """
    from ternmq.admin import quotas as calls
    from ternmq_command.calls.admin import send_call

    found = send_call(endpoint, calls.list_quotas())
    records = [quota_record(quota) for quota in found.quotas]
    uses = list(map(_use_record, found.uses))
    if as_json:
        print_json({"quotas": records, "uses": uses, "names": found.names, "proxies": found.proxies})
        return
    print_records(records, as_json=False, nothing="no quotas")
    if uses:
        echo_lines("\n" + format_table([_use_row(use) for use in found.uses]))
        _print_proxy_count(found)
        if found.names > len(uses):
            echo(f"ternmq: the first {len(uses)} of {format_count(found.names, 'name')}", err=True)


@command.command()
@title_argument
@endpoint_option
@json_option
def show(title: "tuple[QuotaKindName, str]", endpoint: str, as_json: bool) -> None:
    """Show a quota, and how much of it is used at all proxies together.

    \b
    Examples:
      ternmq quota show user:alice
      ternmq quota show client:* --json
    """
    from ternmq.admin import quotas as calls
    from ternmq_command.calls.admin import send_call

    kind, name = title
    found = send_call(endpoint, calls.list_quotas())
    quota = _find_quota(found, kind, name)
    if quota is None:
        raise CommandFailure(f"there is no quota {kind}:{name}; `ternmq quota list` shows them")
    uses = [use for use in found.uses if (use.kind, use.quota) == (kind, name)]
    if as_json:
        print_json({**quota_record(quota), "uses": list(map(_use_record, uses)), "proxies": found.proxies})
        return
    echo_lines(format_record(quota_record(quota)))
    if uses:
        echo_lines("\n" + format_table(list(map(_use_row, uses))))
        _print_proxy_count(found)


def _print_proxy_count(found: "QuotaList") -> None:
    if found.proxies > 1:
        echo(f"ternmq: of {found.proxies} proxies together", err=True)


def _find_quota(there: "QuotaList", kind: str, name: str) -> "Quota | None":
    return next((quota for quota in there.quotas if (quota.kind, quota.name) == (kind, name)), None)


def _use_record(use: "QuotaUse") -> dict[str, object]:
    return {
        "name": f"{use.kind}:{use.name}",
        "quota": f"{use.kind}:{use.quota}",
        "refused": use.refused,
        "connections": use.connections,
        "rate": {limit: round(value, 3) for limit, value in sorted(use.rate.items())},
        "share": {limit: round(value, 3) for limit, value in sorted(use.share.items())},
    }


def _use_row(use: "QuotaUse") -> dict[str, object]:
    taken = [f"{limit} {use.rate[limit]:.0f} of {use.share.get(limit, 0):.0f}/s" for limit in sorted(use.rate)]
    return {
        "name": f"{use.kind}:{use.name}",
        "refused": use.refused,
        "connections": use.connections,
        "takes": ", ".join(taken),
    }
