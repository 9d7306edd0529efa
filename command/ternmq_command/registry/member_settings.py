"""Where a command about a cluster's registry has its URL from."""

from dataclasses import dataclass

import click

from ternmq_common.server_settings import BrokerServerSettings, ProxySettings

REGISTRY_OPTION = click.option(
    "--registry", metavar="URL",
    help=f"The database; $TERNMQ_REGISTRY does too, and $PGPASSWORD.  [default: {BrokerServerSettings.registry}]",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class AnyMemberSettings(BrokerServerSettings, ProxySettings):
    """Of a broker or a proxy: the file and the variables of either can be used here too."""
