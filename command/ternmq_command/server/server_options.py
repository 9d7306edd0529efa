"""The options of `ternmq up`, `ternmq broker`, `ternmq proxy` and `ternmq config`, and the settings that result."""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.printing import echo
from ternmq_common.cluster import ReplicationMode
from ternmq_common.log_levels import LogLevel
from ternmq_common.server_settings import (
    BrokerServerSettings,
    EventLoop,
    FlushMode,
    LogFormat,
    ProcessSettings,
    ProxySettings,
    ServerSettings,
    TlsMode,
)
from ternmq_common.settings import SECRET, LoadedSettings, SettingsError, load_settings, variable_name

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", bound=ProcessSettings)

PROCESSES: dict[str, type[ProcessSettings]] = {
    "up": ServerSettings,
    "broker": BrokerServerSettings,
    "proxy": ProxySettings,
}
_ALL_NAMES = frozenset(field.name for each in PROCESSES.values() for field in dataclasses.fields(each))
_SECRET_VARIABLES = frozenset(map(variable_name, SECRET))

# By the field that they set. They have no defaults of their own: values that are not given come from variables, the
# file or the settings class.
_OPTIONS: dict[str, Callable[[Any], Any]] = {
    "registry": click.option("--registry", metavar="URL", help="The cluster's registry: postgresql://USER@HOST/NAME; a "
                             "password may be in $PGPASSWORD.  [default: postgresql://ternmq@127.0.0.1:5432/ternmq]"),
    "registry_password_file": click.option("--registry-password-file", type=click.Path(path_type=Path), metavar="FILE",
                                           help="The password of its user, read again for each connection."),
    "data_dir": click.option("--data-dir", type=click.Path(path_type=Path), metavar="DIR",
                             help="Where everything is kept.  [default: ternmq-data]"),
    "storage": click.option("--storage", metavar="HOST:PORT",
                            help="Address for proxies; port 0 picks one.  [default: 127.0.0.1:10911]"),
    "advertised_storage": click.option("--advertised-storage", metavar="HOST:PORT",
                                       help="How proxies reach that address, if they need another."),
    "grpc": click.option("--grpc", metavar="HOST:PORT",
                         help="gRPC address, or several, with commas; port 0 picks one. ADDRESS=OTHER advertises "
                         "OTHER to clients.  [default: 127.0.0.1:8081]"),
    "http": click.option("--http", metavar="HOST:PORT",
                         help="HTTP address; port 0 picks one.  [default: 127.0.0.1:8082]"),
    "console_prefix": click.option("--console-prefix", metavar="PATH",
                                   help="Path below which a reverse proxy has console and JSON API, as /mq."),
    "tls_cert": click.option("--tls-cert", type=click.Path(path_type=Path), metavar="FILE",
                             help="Serve with TLS: the certificate, and those up to its CA (PEM)."),
    "tls_key": click.option("--tls-key", type=click.Path(path_type=Path), metavar="FILE",
                            help="The certificate's key (PEM)."),
    "tls_client_ca": click.option("--tls-client-ca", type=click.Path(path_type=Path), metavar="FILE",
                                  help="Serve only clients with a certificate of this CA (PEM)."),
    "grpc_tls": click.option("--grpc-tls", type=click.Choice([each.value for each in TlsMode]),
                        help="What the gRPC port takes: plain text, both, or TLS only.  [default: required with "
                        "--tls-cert]"),
    "cluster_tls_cert": click.option("--cluster-tls-cert", type=click.Path(path_type=Path), metavar="FILE",
                                     help="TLS between proxies and brokers: the certificate of this one (PEM)."),
    "cluster_tls_key": click.option("--cluster-tls-key", type=click.Path(path_type=Path), metavar="FILE",
                                    help="That certificate's key (PEM)."),
    "cluster_tls_ca": click.option("--cluster-tls-ca", type=click.Path(path_type=Path), metavar="FILE",
                                   help="The CA that all of them have their certificates of (PEM)."),
    "workers": click.option("--workers", metavar="NUMBER",
                            help="Processes that serve clients, on as many cores.  [default: 1]"),
    "secrets_key_file": click.option("--secrets-key-file", type=click.Path(path_type=Path), metavar="FILE",
                                     help="The key that users' secrets are encrypted with (`ternmq user "
                                     "generate-key`); or have it in $TERNMQ_SECRETS_KEY."),
    "init_user": click.option("--init-user", metavar="NAME",
                              help="Create this super user if no super user is enabled; its secret is in "
                              "$TERNMQ_INIT_SECRET."),
    "access_control": click.option("--access-control", is_flag=True, default=None,
                                   help="Serve users only, and what their policies allow."),
    "admin": click.option("--admin", metavar="HOST:PORT",
                          help="Serve administration here alone, and not where other clients come in."),
    "insecure": click.option("--insecure", is_flag=True, default=None,
                             help="Listen beyond this machine although access control is off, or plain text "
                             "is taken."),
    "auto_create": click.option("--auto-create/--no-auto-create", default=None,
                                help="Create topics by their first message, groups by their first use.  [default: on]"),
    "flush": click.option("--flush", type=click.Choice([each.value for each in FlushMode]),
                          help="Acknowledge a message when it is on disk, or written.  [default: sync]"),
    "broker_name": click.option("--broker-name", metavar="NAME",
                                help="The broker's name in routes.  [default: broker-0]"),
    "proxy_name": click.option("--proxy-name", metavar="NAME",
                               help="The proxy's name in logs.  [default: of machine and process]"),
    "cache_dir": click.option("--cache-dir", type=click.Path(path_type=Path), metavar="FOLDER",
                              help="Keep a copy of the registry here, to start with while that is away."),
    "read_from_followers": click.option("--read-from-followers", is_flag=True, default=None,
                                        help="Have replicas that follow answer pulls far behind the ends of queues."),
    "retention_ms": click.option("--retention", "retention_ms", metavar="DURATION",
                                 help="Keep messages this long.  [default: 72h]"),
    "segment_bytes": click.option("--segment-size", "segment_bytes", metavar="SIZE",
                                  help="Size of a log file.  [default: 1GiB]"),
    "disk_free_min_bytes": click.option("--disk-free-min", "disk_free_min_bytes", metavar="SIZE",
                                        help="Refuse messages when less is free on the disk.  [default: 5 % of it, at "
                                        "least 1GiB, at most 10 %]"),
    "accept_corruption": click.option("--accept-corruption", is_flag=True, default=None,
                                      help="Start although stored messages are damaged; those are lost, no others."),
    "replicas": click.option("--replicas", metavar="NUMBER",
                             help="Copies of the shard, each a process like this one.  [default: 1]"),
    "replica_name": click.option("--replica-name", metavar="NAME",
                                 help="The name of this replica.  [default: derived from its store's id]"),
    "min_insync": click.option("--min-insync", metavar="NUMBER",
                               help="Acknowledge a message when so many copies have it.  [default: a majority]"),
    "replication": click.option("--replication", type=click.Choice([each.value for each in ReplicationMode]),
                                help="Answer a send when all copies in sync have it, or the leader.  [default: sync]"),
    "rejoin": click.option("--rejoin", is_flag=True, default=None,
                           help="Take part again although this broker was removed from the cluster."),
    "accept_empty_store": click.option("--accept-empty-store", metavar="STORE-ID",
                                       help="Begin with an empty store in place of this one, which is lost for good."),
    "test_clock": click.option("--test-clock", is_flag=True, default=None,
                               help="Let every client move the clock (`ternmq clock advance`); for tests only."),
    "log_level": click.option("--log-level", metavar="LEVEL[,PACKAGE=LEVEL]...",
                              shell_complete=lambda *_: [each.value for each in LogLevel],
                              help="What is logged, debug, info, warning or error: of our own packages, and of others "
                              "warnings; info,ternmq_proxy=debug logs more of a package.  [default: info]"),
    "log_format": click.option("--log-format", type=click.Choice([each.value for each in LogFormat]),
                               help="[default: text]"),
    "loop": click.option("--loop", type=click.Choice([each.value for each in EventLoop]),
                         help="The event loop; auto takes uvloop where it is installed.  [default: auto]"),
}  # fmt: skip


def config_option(command: F) -> F:
    return click.option(
        "--config",
        type=click.Path(path_type=Path),
        envvar="TERNMQ_CONFIG",
        show_envvar=True,
        metavar="FILE",
        help="Settings in a TOML file.",
    )(command)


def server_options(*settings: type[ProcessSettings]) -> Callable[[F], F]:
    """Add the option of each field of these settings classes, where there is one."""
    names = {field.name for each in settings for field in dataclasses.fields(each)}

    def add_options(command: F) -> F:
        for name, option in reversed(_OPTIONS.items()):
            if name in names:
                command = option(command)
        return command

    return add_options


def load_process_settings(settings: type[S], config: Path | None, flags: dict[str, object]) -> LoadedSettings[S]:
    """Load the settings in force from options, variables and file; wrong ones end the command with exit code 2."""
    try:
        loaded = load_settings(settings, file=config, environ=os.environ, flags=flags, known_elsewhere=_ALL_NAMES)
    except SettingsError as error:
        raise WrongUsage(str(error)) from None
    if loaded.ignored:
        echo(
            f"WARNING: ignored {', '.join(loaded.ignored)}: set by Kubernetes for a Service's name, no settings "
            "(enableServiceLinks: false leaves them out)",
            err=True,
        )
    if loaded.others:
        echo(_others_warning(loaded.others), err=True)
    return loaded


def _others_warning(variables: tuple[str, ...]) -> str:
    """Return the warning for variables of another kind of process.

    They may come from one list for all processes, or from mistaking one process for another.
    """
    text = f"WARNING: ignored {', '.join(variables)}: settings of another kind of process"
    if secrets := [variable for variable in variables if variable in _SECRET_VARIABLES]:
        text += f"; keep {', '.join(secrets)} from processes that do not need it"
    return text
