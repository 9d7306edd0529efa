"""Completes the names of topics, groups, shards and their replicas in a shell, with those that the server has.

The server has half a second to answer; otherwise no names are offered. Only completion calls of a shell import this
module, and commands need not know of it: an argument or option takes the name of a topic, group, shard or replica if
its name or metavar says so and the command has an endpoint.
"""

import time
from typing import TYPE_CHECKING, Literal

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

    from click.shell_completion import CompletionItem
    from google.protobuf.message import Message

    from ternmq_command.calls.admin import AdminClient

PATIENCE_S = 0.5
NAMES_MAX = 1000
Kind = Literal["topic", "group", "shard", "replica"]
_BY_NAME: dict[str, Kind] = {
    "topic": "topic",
    "to_topic": "topic",
    "group": "group",
    "shard": "shard",
    "replica": "replica",
}
_BY_METAVAR: dict[str, Kind] = {"TOPIC": "topic", "GROUP": "group"}
# What NAME stands for in these groups of commands, except in `create`, where the name is new.
_NAMED: dict[str, Kind] = {"topic": "topic", "group": "group"}


def complete_names(command: click.Command, name: str) -> None:
    """Let all arguments and options of a command and of its subcommands complete the names that they take.

    `name` is the name of the command itself.
    """
    if isinstance(command, click.Group):
        for below in command.commands.values():
            complete_names(below, name)
    if not any(parameter.name == "endpoint" for parameter in command.params):
        return
    for parameter in command.params:
        if (kind := find_kind(parameter, command, name)) is not None:
            parameter.type = _NameType(kind)


def find_kind(parameter: click.Parameter, command: click.Command, group: str) -> Kind | None:
    """Return what a parameter of a command names, None if it is none of these kinds; `group` is the command's group."""
    if getattr(parameter, "hidden", False) or parameter.type is not click.STRING:
        return None
    if parameter.name == "name":
        return None if command.name == "create" else _NAMED.get(group)
    return _BY_METAVAR.get(parameter.metavar or "") or _BY_NAME.get(parameter.name or "")


class _NameType(click.types.StringParamType):
    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        del param
        names = [name for name in _find_names(self.kind, ctx) if name.startswith(incomplete)]
        return [CompletionItem(name) for name in names[:NAMES_MAX]]


def _find_names(kind: Kind, ctx: click.Context) -> "Iterable[str]":
    """Return the server's names that need no quoting in a shell; none if the server does not answer in time."""
    from ternmq_command.calls.admin import AdminClient
    from ternmq_common.printable import find_name_problem

    class HurriedClient(AdminClient):
        """An admin client whose calls share one deadline, since a person waits for the completion."""

        deadline = time.monotonic() + PATIENCE_S

        def _exchange(self, method: str, request: "Message", timeout_s: float) -> list[bytes]:
            return super()._exchange_messages(
                method, request, min(timeout_s, max(0.01, self.deadline - time.monotonic()))
            )

    try:
        with ctx.scope(cleanup=False), HurriedClient(_find_endpoint(ctx)) as admin:
            names = _all_names(kind, admin, ctx)
    except (click.ClickException, ValueError):
        return ()
    return (name for name in names if name and not find_name_problem(name) and not any(map(str.isspace, name)))


def _all_names(kind: Kind, admin: "AdminClient", ctx: click.Context) -> list[str]:
    """Return all names of that kind; replicas are those of the shard in the parameter before."""
    from ternmq.admin import brokers as broker_calls
    from ternmq_command.terminal.name_suggestions import list_names

    if kind == "topic" or kind == "group":
        return list_names(admin, kind)
    shards = {broker.name: broker for broker in admin.send_call(broker_calls.list_brokers())}
    if kind == "shard":
        return list(shards)
    shard = shards.get(ctx.params.get("shard") or "")
    return [] if shard is None else [replica.name for replica in shard.replicas]


def _find_endpoint(ctx: click.Context) -> str:
    """Return the endpoint that the command would use; completion parses without the defaults."""
    from ternmq_command.terminal.contexts import server_in_use
    from ternmq_command.terminal.options import CONTEXT_ACCESS_KEY, CONTEXT_KEY
    from ternmq_common.addresses import DEFAULT_GRPC

    given = ctx.params.get("endpoint")
    if given and ctx.get_parameter_source("endpoint") is not click.core.ParameterSource.DEFAULT:
        return str(given)
    server = server_in_use(ctx.meta.get(CONTEXT_KEY))
    if server is None:
        return DEFAULT_GRPC
    ctx.meta[CONTEXT_ACCESS_KEY] = server.access
    return server.endpoint
