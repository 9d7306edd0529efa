"""`ternmq broker`: runs one storage broker of a cluster in this process until a signal ends it."""

from pathlib import Path

import click

from ternmq_command.server import broker_admin
from ternmq_command.server.server_options import config_option, load_process_settings, server_options
from ternmq_command.server.server_process import prepare_subcommand, server_failures
from ternmq_command.terminal.nearest_group import NearestGroup
from ternmq_common.server_settings import BrokerServerSettings


@click.group(cls=NearestGroup, invoke_without_command=True)
@config_option
@server_options(BrokerServerSettings)
@click.pass_context
def command(context: click.Context, /, config: Path | None, **flags: object) -> int:
    """Run a storage broker of a cluster here, in this process; or, with a subcommand, administer brokers.

    A broker has a store and registers in the cluster's registry, where proxies find it. It prints `ready
    storage=HOST:PORT http=HOST:PORT` on standard output when it serves, and logs on standard error. Ctrl-C or SIGTERM
    stops it. Every setting can also be in the file that --config names or in a variable TERNMQ_NAME; `ternmq config
    --of broker` lists them all.

    The subcommands talk to a proxy.

    \b
    Examples:
      ternmq broker --broker-name broker-1 --data-dir /var/lib/ternmq --storage 10.0.0.5:10911
      ternmq broker --storage 0.0.0.0:10911 --advertised-storage broker-1.example:10911
      ternmq broker list
      ternmq broker drain broker-1 --wait
    """
    if context.invoked_subcommand is not None:
        return prepare_subcommand(context, flags)
    settings = load_process_settings(BrokerServerSettings, config, flags).settings
    with server_failures():
        from ternmq_broker.server.main import run

        return run(settings)


for _subcommand in broker_admin.COMMANDS:
    command.add_command(_subcommand)
