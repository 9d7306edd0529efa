"""The options for the format of a lake, and for the location of its tables."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from ternmq_command.terminal.options import PairParam

F = TypeVar("F", bound=Callable[..., Any])

storage_option = click.option(
    "--storage-option",
    "storage",
    type=PairParam(),
    multiple=True,
    help="Delta: a setting of delta-rs for its store, such as aws_endpoint=URL; may be repeated. Keys belong into the "
    "environment (AWS_ACCESS_KEY_ID and so on).",
)
"""Adds `--storage-option`; the command gets `storage`, pairs of a name and a value."""


def catalog_options(command: F) -> F:
    """Add the options of tables; the command gets `storage`, `catalog`, `catalog_settings` and `namespace`."""
    for option in (
        click.option(
            "--namespace", default="lake", show_default=True, metavar="NAME", help="Iceberg: where the tables are."
        ),
        click.option(
            "--catalog-option",
            "catalog_settings",
            type=PairParam(),
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
    """Add `catalog_options` and `--format`, which the command gets as `table_format`."""
    return click.option(
        "--format",
        "table_format",
        type=click.Choice(["parquet", "delta", "iceberg"]),
        default="parquet",
        show_default=True,
        help="The format of the folder's tables.",
    )(catalog_options(command))
