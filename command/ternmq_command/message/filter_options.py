"""The options `--filter` and `--sql` of `tail`, `receive` and `message find`, which select messages."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ternmq_command.terminal.failures import CallRefused, WrongUsage

if TYPE_CHECKING:
    from ternmq_protos.v2 import definition_pb2

F = TypeVar("F", bound=Callable[..., Any])

EVERY_TAG = "*"


def filter_options(command: F) -> F:
    """Add `--filter`, passed as `tags`, and `--sql`."""
    for option in (
        click.option(
            "--sql",
            metavar="CONDITION",
            help="Only messages whose properties meet this SQL92 condition: \"region = 'eu'\".",
        ),
        click.option(
            "--filter", "tags", default=EVERY_TAG, metavar="TAGS", help="Only these tags: 'paid || refunded'."
        ),
    ):
        command = option(command)
    return command


def check_one_filter(tags: str, sql: str | None) -> None:
    if sql is not None and tags != EVERY_TAG:
        raise WrongUsage("give --filter or --sql, not both")


def build_expression(tags: str, sql: str | None) -> "definition_pb2.FilterExpression":
    """Return the filter expression of the options; raises Refused if it is empty."""
    from ternmq.errors import BadRequest
    from ternmq.messages.filters import SqlFilter, TagFilter

    try:
        return TagFilter(tags).to_proto() if sql is None else SqlFilter(sql).to_proto()
    except BadRequest as error:
        raise CallRefused(error.code, error.message) from None
