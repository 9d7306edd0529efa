"""The options and settings with the URL and password of a cluster's registry."""

from dataclasses import dataclass
from pathlib import Path

import click

from ternmq_common.server_settings import BrokerServerSettings, ProxySettings

REGISTRY_OPTION = click.option(
    "--registry", metavar="URL",
    help=f"The database; or $TERNMQ_REGISTRY, with $PGPASSWORD.  [default: {BrokerServerSettings.registry}]",
)  # fmt: skip


PASSWORD_FILE_OPTION = click.option(
    "--registry-password-file", type=click.Path(path_type=Path), metavar="FILE",
    help="The password of its user; or $TERNMQ_REGISTRY_PASSWORD_FILE.",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class AnyMemberSettings(BrokerServerSettings, ProxySettings):
    """The settings of a broker or a proxy, so that the file and variables of either can be used."""
