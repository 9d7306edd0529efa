"""`ternmq proxy`: one proxy of a cluster in this process, until it is told to stop."""

from pathlib import Path

import click

from ternmq_command.server.server_options import config_option, loaded_settings, server_options
from ternmq_command.server.server_process import server_failures
from ternmq_common.server_settings import ProxySettings


@click.command()
@config_option
@server_options(ProxySettings)
def command(config: Path | None, **flags: object) -> int:
    """Run a proxy of a cluster here, in this process; with --workers in several, which share the port.

    It serves clients, keeps nothing, and finds the brokers in the registry: any number may run, and any may be killed.
    A load balancer in front of them balances connections, not calls. It prints `ready grpc=HOST:PORT http=HOST:PORT` on
    standard output when it serves, and logs on standard error. Ctrl-C or SIGTERM stops it. Every setting can also be in
    the file that --config names or in a variable TERNMQ_NAME; `ternmq config --of proxy` lists them all.

    \b
    Examples:
      ternmq proxy --registry postgresql://ternmq@db.example/ternmq
      ternmq proxy --grpc 0.0.0.0:8081 --access-control --tls-cert server.pem --tls-key server.key
      TERNMQ_REGISTRY=postgresql://ternmq@db.example/ternmq ternmq proxy --proxy-name proxy-1
    """
    settings = loaded_settings(ProxySettings, config, flags).settings
    with server_failures():
        if settings.workers > 1:
            from ternmq_console.site import site_of_workers
            from ternmq_runtime.workers.supervisor import run_proxies

            return run_proxies(settings, site_of_workers)
        from ternmq_proxy.cluster_main import run

        return run(settings)
