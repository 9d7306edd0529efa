"""`ternmq proxy`: runs one proxy of a cluster in this process until a signal ends it."""

from pathlib import Path

import click

from ternmq_command.server import proxy_admin
from ternmq_command.server.server_options import config_option, load_process_settings, server_options
from ternmq_command.server.server_process import prepare_subcommand, server_failures
from ternmq_command.terminal.nearest_group import NearestGroup
from ternmq_common.server_settings import ProxySettings


@click.group(cls=NearestGroup, invoke_without_command=True)
@config_option
@server_options(ProxySettings)
@click.pass_context
def command(context: click.Context, /, config: Path | None, **flags: object) -> int:
    """Run a proxy of a cluster here, in this process, or with --workers in several; or, with a subcommand, list all.

    It serves clients, has no durable state, and finds the brokers in the registry: any number may run, any may be
    killed. A load balancer in front of them balances connections, not calls. It prints `ready grpc=HOST:PORT
    http=HOST:PORT` on standard output when it serves, and logs on standard error. Ctrl-C or SIGTERM stops it. Every
    setting can also be in the file that --config names or in a variable TERNMQ_NAME; `ternmq config --of proxy` lists
    them all.

    The subcommand talks to a proxy.

    \b
    Examples:
      ternmq proxy --registry postgresql://ternmq@db.example/ternmq
      ternmq proxy --grpc 0.0.0.0:8081 --access-control --tls-cert server.pem --tls-key server.key
      TERNMQ_REGISTRY=postgresql://ternmq@db.example/ternmq ternmq proxy --proxy-name proxy-1
      ternmq proxy list
    """
    if context.invoked_subcommand is not None:
        return prepare_subcommand(context, flags)
    settings = load_process_settings(ProxySettings, config, flags).settings
    with server_failures():
        if settings.workers > 1:
            from ternmq_console.site import build_workers_site
            from ternmq_runtime.workers.supervisor import run_proxy_workers

            return run_proxy_workers(settings, build_workers_site)
        from ternmq_proxy.server.cluster_main import run

        return run(settings)


for _subcommand in proxy_admin.COMMANDS:
    command.add_command(_subcommand)
