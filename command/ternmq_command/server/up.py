"""`ternmq up`: runs the embedded stack, in this process or in several, until a signal ends it."""

from pathlib import Path

import click

from ternmq_command.server.server_options import config_option, load_process_settings, server_options
from ternmq_command.server.server_process import server_failures
from ternmq_command.terminal.printing import echo
from ternmq_common.process.log_levels import LogLevel, parse_log_levels
from ternmq_common.server_settings import ServerSettings

SERVER_LOGGER = "ternmq_proxy.server.main"


@click.command()
@config_option
@server_options(ServerSettings)
def command(config: Path | None, **flags: object) -> int:
    """Start a broker here, in this process; with --workers in several, which share the port.

    It is the whole stack: gRPC and HTTP fronts, storage and registry. It prints `ready grpc=HOST:PORT http=HOST:PORT`
    on standard output when it serves, and logs on standard error. Ctrl-C or SIGTERM stops it. Every setting can also be
    in the file that --config names or in a variable TERNMQ_NAME; `ternmq config` lists them all.

    With --test-clock, `ternmq clock advance 2h` moves the clock ahead by two hours, so that tests need not wait for
    delays, retries and checks of transactions. Anybody who can reach the port can do so: never start a server like this
    for messages that somebody needs.

    \b
    Examples:
      ternmq up
      ternmq up --grpc 0.0.0.0:8081 --access-control --init-user root --tls-cert server.pem --tls-key server.key
      ternmq up --grpc 127.0.0.1:0 --http 127.0.0.1:0 --no-auto-create
      ternmq up --workers 4
      ternmq up --data-dir /tmp/ternmq-test --test-clock
      TERNMQ_RETENTION_MS=3d ternmq up --config ternmq.toml
    """
    settings = load_process_settings(ServerSettings, config, flags).settings
    if settings.test_clock and not parse_log_levels(settings.log_level).is_logged(SERVER_LOGGER, LogLevel.WARNING):
        # The server warns in its log, which would not show it.
        echo("WARNING: TEST CLOCK: every client can move this server's time ahead; for tests only", err=True)
    with server_failures():
        if settings.workers > 1:
            from ternmq_console.site import build_workers_site
            from ternmq_runtime.workers.supervisor import run_stack_workers

            return run_stack_workers(settings, build_workers_site)
        from ternmq_proxy.server.main import run

        return run(settings)
