"""Which format a lake has, and where its tables are."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from ternmq_command.terminal.options import Pair

F = TypeVar("F", bound=Callable[..., Any])

storage_option = click.option(
    "--storage-option",
    "storage",
    type=Pair(),
    multiple=True,
    help="Delta: a setting of delta-rs for its store, such as aws_endpoint=URL; may be repeated. Keys belong into the "
    "environment (AWS_ACCESS_KEY_ID and so on).",
)
"""Gives the command `storage`, pairs of a name and a value."""


def catalog_options(command: F) -> F:
    """Gives the command `storage`, `catalog`, `catalog_settings` and `namespace`."""
    for option in (
        click.option(
            "--namespace", default="lake", show_default=True, metavar="NAME", help="Iceberg: where the tables are."
        ),
        click.option(
            "--catalog-option",
            "catalog_settings",
            type=Pair(),
            multiple=True,
            help="Iceberg: a setting of PyIceberg for the catalog, such as uri=URL; may be repeated. Secrets belong "
            "into its configuration.",
        ),
        click.option(
            "--catalog", metavar="NAME", help="Iceberg: a catalog of PyIceberg's configuration, ~/.pyiceberg.yaml."
        ),
        storage_option,
    ):
        command = option(command)
    return command


def table_options(command: F) -> F:
    """Gives the command `table_format` besides."""
    return click.option(
        "--format",
        "table_format",
        type=click.Choice(["parquet", "delta", "iceberg"]),
        default="parquet",
        show_default=True,
        help="What the folder is to other engines.",
    )(catalog_options(command))
