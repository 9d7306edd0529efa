"""`ternmq context`: names endpoints, and chooses the one in use."""

import os

import click

from ternmq_command.terminal.contexts import (
    ACCESS_PATHS,
    TLS_OPTIONS,
    ContextServer,
    checked_endpoint,
    checked_name,
    read_contexts,
    write_contexts,
)
from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.nearest_group import NearestGroup
from ternmq_command.terminal.options import ACCESS_KEY, CONTEXT_KEY, EndpointParam, access_options, json_option
from ternmq_command.terminal.output import print_json, print_records
from ternmq_command.terminal.printing import echo


@click.group(cls=NearestGroup)
def command() -> None:
    """Name endpoints, and choose the one that commands use by default.

    The endpoint of a command is that of --endpoint, else $TERNMQ_ENDPOINT, else that of the context in use: the one
    that `ternmq --context NAME` or $TERNMQ_CONTEXT names, or that `ternmq context use` set; else 127.0.0.1:8081.

    \b
    Examples:
      ternmq context add prod --endpoint mq.example.com:8081 --tls --credentials-file ~/.ternmq/prod.toml
      ternmq context use prod
      ternmq context list
      ternmq --context prod topic list
      ternmq context remove prod
    """


@command.command()
@click.argument("name")
@click.option("--endpoint", type=EndpointParam(), required=True, help="The endpoint of the context.")
@access_options
@json_option
@click.pass_context
def add(context: click.Context, name: str, endpoint: str, as_json: bool) -> None:
    """Add context NAME for an endpoint, with its options of TLS and keys.

    Options are saved, variables are not; the path of the credentials file is saved, and never a secret.

    \b
    Examples:
      ternmq context add prod --endpoint mq.example.com:8081 --tls --ca ca.pem
      ternmq context add dev --endpoint mq:8081 --access-key me --credentials-file ~/.ternmq/dev.toml
    """
    try:
        checked_name(name)
        checked_endpoint(endpoint)
    except ValueError as error:
        raise WrongUsage(str(error)) from None
    contexts = read_contexts()
    contexts.add_context(name, ContextServer(endpoint, _typed_access(context)))
    write_contexts(contexts)
    text = f"context {name} is {endpoint}; `ternmq context use {name}` makes commands use it"
    _print_context(text, name, endpoint, is_in_use=contexts.in_use == name, as_json=as_json)


@command.command()
@click.argument("name", required=False)
@click.option("--none", "is_none", is_flag=True, help="Instead of NAME: use no context.")
@json_option
def use(name: str | None, is_none: bool, as_json: bool) -> None:
    """Make commands use the endpoint of NAME from now on.

    \b
    Examples:
      ternmq context use prod
      ternmq context use --none
    """
    if (name is not None) == is_none:
        raise WrongUsage("give NAME or --none")
    contexts = read_contexts()
    contexts.in_use = name
    endpoint = None if name is None else contexts.find_server(name).endpoint
    write_contexts(contexts)
    text = "no context is in use" if name is None else f"context {name} is in use: {endpoint}"
    _print_context(text, name, endpoint, is_in_use=name is not None, as_json=as_json)
    _warn_of_variable()


@command.command(name="list")
@json_option
@click.pass_context
def list_contexts(context: click.Context, as_json: bool) -> None:
    """List all contexts, and show which one is in use.

    \b
    Examples:
      ternmq context list
      ternmq context list --json | jq -r '.[].name'
    """
    contexts = read_contexts()
    chosen = context.meta.get(CONTEXT_KEY) or contexts.in_use
    records = [
        {
            "name": name,
            "endpoint": server.endpoint,
            "in_use": name == chosen,
            "tls": not TLS_OPTIONS.isdisjoint(server.access),
            "access_key": server.access.get("access_key"),
            "credentials_file": server.access.get("credentials_file"),
        }
        for name, server in sorted(contexts.servers.items())
    ]
    print_records(records, as_json=as_json, nothing="there are no contexts; `ternmq context add` adds one")
    _warn_of_variable()


@command.command()
@click.argument("name")
@json_option
def remove(name: str, as_json: bool) -> None:
    """Remove context NAME; if it is in use, none is in use from now on.

    \b
    Examples:
      ternmq context remove prod
    """
    contexts = read_contexts()
    endpoint = contexts.find_server(name).endpoint
    contexts.remove_context(name)
    write_contexts(contexts)
    _print_context(f"removed context {name}", name, endpoint, is_in_use=False, as_json=as_json)


def _typed_access(context: click.Context) -> dict[str, str | bool]:
    """Return the options of the command line; with absolute paths, since commands are called in any folder."""
    typed: dict[str, str | bool] = context.meta.get(ACCESS_KEY, ({}, {}))[0]
    return {
        name: os.path.abspath(value) if name in ACCESS_PATHS and isinstance(value, str) else value  # noqa: PTH100
        for name, value in sorted(typed.items())
    }


def _print_context(text: str, name: str | None, endpoint: str | None, *, is_in_use: bool, as_json: bool) -> None:
    if as_json:
        print_json({"name": name, "endpoint": endpoint, "in_use": is_in_use})
    else:
        echo(text)


def _warn_of_variable() -> None:
    if endpoint := os.environ.get("TERNMQ_ENDPOINT"):
        echo(f"ternmq: TERNMQ_ENDPOINT is set to {endpoint}, which takes precedence over any context", err=True)
