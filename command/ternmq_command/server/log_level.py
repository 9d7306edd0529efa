"""`ternmq log-level`: shows and changes the log levels of a running server."""

import click

from ternmq_command.terminal.failures import CommandFailure, WrongUsage
from ternmq_command.terminal.options import endpoint_option, json_option
from ternmq_command.terminal.output import print_json, print_records
from ternmq_common.process.log_levels import parse_log_levels


@click.command()
@click.argument("levels", required=False)
@endpoint_option
@json_option
def command(levels: str | None, endpoint: str, as_json: bool) -> None:
    """Show the log levels of the server at the endpoint, or change them to LEVELS until it ends.

    LEVELS is a level (debug, info, warning, error), and PACKAGE=LEVEL for single packages, as in the server's
    --log-level; packages that are not named get the first level, or info. All processes of the server change theirs,
    except the supervisor of workers; the log has the user who changed them. The other proxies and the brokers of a
    cluster keep their levels.

    \b
    Examples:
      ternmq log-level
      ternmq log-level info,ternmq_proxy=debug
      ternmq log-level info
    """
    from ternmq_command.calls.watching import WatchingClient

    if levels is not None:
        try:
            parse_log_levels(levels)
        except ValueError as error:
            raise WrongUsage(str(error)) from None
    with WatchingClient(endpoint) as client:
        answer = client.log_levels() if levels is None else client.update_log_levels(levels)
    records = [{"process": each.process, "levels": each.levels} for each in answer.processes]
    if as_json:
        print_json({"processes": records, "silent": list(answer.silent)})
    else:
        print_records(records, as_json=False, nothing="")
    if answer.silent:
        raise CommandFailure(f"these processes of the server did not answer: {', '.join(answer.silent)}")
