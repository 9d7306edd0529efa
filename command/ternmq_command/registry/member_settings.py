"""Where a command about a cluster's registry has its URL and password from."""

from dataclasses import dataclass
from pathlib import Path

import click

from ternmq_common.server_settings import BrokerServerSettings, ProxySettings

REGISTRY_OPTION = click.option(
    "--registry", metavar="URL",
    help=f"The database; $TERNMQ_REGISTRY does too, and $PGPASSWORD.  [default: {BrokerServerSettings.registry}]",
)  # fmt: skip


PASSWORD_FILE_OPTION = click.option(
    "--registry-password-file", type=click.Path(path_type=Path), metavar="FILE",
    help="The password of its user; $TERNMQ_REGISTRY_PASSWORD_FILE does too.",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class AnyMemberSettings(BrokerServerSettings, ProxySettings):
    """Of a broker or a proxy: the file and the variables of either can be used here too."""
