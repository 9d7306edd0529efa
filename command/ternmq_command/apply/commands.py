"""`ternmq apply`: creates and updates what a file declares, or changes nothing if part of it is impossible."""

from pathlib import Path

import click

from ternmq_command.apply.declarations import parse_declarations
from ternmq_command.apply.declared_file import parse_file
from ternmq_command.terminal.failures import WrongUsage
from ternmq_command.terminal.options import endpoint_option, json_option


@click.command()
@click.option(
    "-f",
    "--file",
    type=click.Path(path_type=Path, allow_dash=True),
    required=True,
    metavar="FILE",
    help="YAML, TOML or JSON by its ending; - is YAML or JSON on standard input.",
)
@click.option("--dry-run", is_flag=True, help="Print the changes, one on each line, and change nothing.")
@endpoint_option
@json_option
def command(file: Path, dry_run: bool, endpoint: str, as_json: bool) -> None:
    """Create and update the topics, groups, users and quotas that FILE declares.

    Missing ones are created, and those that differ are updated where that loses no message: more queues, another
    permission and replication of a topic, all settings of a group except FIFO, all of a user except the secret. If a
    declared change is impossible, nothing is changed. What FILE does not mention stays as it is. Nothing is deleted.

    \b
    The file, as YAML:
      topics:
        - {name: orders, type: fifo, queues: 16}
        - {name: audit, permission: read-write}
        - {name: clicks, replication: async}
        - {name: chats, type: lite, lite_ttl: 1d}
      groups:
        - {name: billing, fifo: true, max_attempts: 5}
        - {name: report, retry_backoff: "exponential:1s,10m,2", consume_from: earliest,
           assignment: consistent-hash, queue_lock_hold: 30s}
        - {name: alarms, priority_factor: 90}
        - {name: agents, lite_bind: chats, lite_model: exclusive, lite_reset: taken}
      users:
        - {name: root, super: true, secret_env: ROOT_SECRET}
        - name: alice
          secret_file: alice.secret
          policies:
            - {allow: "Topic:orders-*", actions: "Pub,Sub", from: [10.0.0.0/8]}
            - {deny: Topic:orders-secret, actions: All}
      quotas:
        - {quota: "user:alice", messages_in: 1000/s, bytes_in: 10MiB/s, burst: 2s}
        - {quota: "client:*", connections: 4}

    The secret of a new user comes from the variable or the file; without either, the server creates one, which is
    printed once.

    `ternmq export` writes such a file with the topics, groups, users and quotas of a server.

    \b
    Examples:
      ternmq apply -f topics.yaml --dry-run
      ternmq apply -f topics.yaml
      ternmq apply -f topics.toml --endpoint broker.example:8081 --json
    """
    try:
        declared = parse_declarations(parse_file(file), source=str(file))
    except RecursionError:
        raise WrongUsage(f"{file} is nested too deeply; topics and groups are lists of tables") from None
    from ternmq_command.apply.changes import apply_declarations

    apply_declarations(declared, source=str(file), endpoint=endpoint, dry_run=dry_run, as_json=as_json)
