"""`ternmq user`: creates, changes, lists, shows and deletes users, and rotates their secrets."""

import sys
from datetime import timedelta

import click

from ternmq_command.terminal.confirmation import confirm_action, yes_option
from ternmq_command.terminal.failures import CommandFailure, WrongUsage
from ternmq_command.terminal.nearest_group import NearestGroup
from ternmq_command.terminal.options import DurationParam, endpoint_option, json_option
from ternmq_command.terminal.output import (
    format_cell,
    format_record,
    format_table,
    print_deleted,
    print_json,
    print_records,
)
from ternmq_command.terminal.printing import echo, echo_lines
from ternmq_command.user.records import policy_record, print_secret, print_user, user_record, user_row
from ternmq_common.access.users import SECRET_CHARACTERS_MAX, find_secret_problem

DEFAULT_OVERLAP = timedelta(days=1)


@click.group(cls=NearestGroup)
def command() -> None:
    """Create, list, change and delete users, and rotate their secrets.

    A user's name is the access key of its clients. Policies (`ternmq policy`) set what a user may do; a super user may
    do everything.

    \b
    Examples:
      ternmq user create alice
      ternmq user create root --super --secret-stdin < secret.txt
      ternmq user rotate alice --overlap 2h
      ternmq user list
    """


def _secret_option(command: click.decorators.FC) -> click.decorators.FC:
    return click.option(
        "--secret-stdin", is_flag=True, help="Read the secret from standard input; otherwise the server creates one."
    )(command)


def _read_secret(is_on_stdin: bool) -> str:
    """Read the secret from standard input; arguments would show it to all users of the machine."""
    if not is_on_stdin:
        return ""
    line = sys.stdin.readline(SECRET_CHARACTERS_MAX + 3).rstrip("\r\n") if sys.stdin is not None else ""
    if problem := find_secret_problem(line):
        raise WrongUsage(f"standard input has no secret: {problem}")
    return line


@command.command()
@click.argument("name")
@click.option("--super", "is_super", is_flag=True, help="May do everything, without policies.")
@_secret_option
@endpoint_option
@json_option
def create(name: str, is_super: bool, secret_stdin: bool, endpoint: str, as_json: bool) -> None:
    """Create user NAME, and print its secret if the server created it. It is not shown again.

    \b
    Examples:
      ternmq user create alice
      ternmq user create alice --json | jq -r .secret > alice.secret
      ternmq user create root --super --secret-stdin < root.secret
    """
    from ternmq.admin import users
    from ternmq_command.calls.admin import send_call

    secret = _read_secret(secret_stdin)
    answer = send_call(endpoint, users.create_user(name, secret, is_super=is_super))
    print_secret(answer, f"{'super user' if is_super else 'user'} {name} created", as_json=as_json)


@command.command()
@click.argument("name")
@click.option("--super/--no-super", "is_super", default=None, help="Whether the user may do everything.")
@click.option("--enable/--disable", "enabled", default=None, help="Whether the user may do anything at all.")
@endpoint_option
@json_option
def update(name: str, is_super: bool | None, enabled: bool | None, endpoint: str, as_json: bool) -> None:
    """Change user NAME. Secrets and policies stay. The last enabled super user can't be changed to another state.

    \b
    Examples:
      ternmq user update alice --disable
      ternmq user update alice --enable --super
    """
    from ternmq.admin import users
    from ternmq_command.calls.admin import send_call

    if is_super is None and enabled is None:
        raise WrongUsage("nothing to change: give --super, --no-super, --enable or --disable")
    user = send_call(endpoint, users.update_user(name, is_super=is_super, enabled=enabled))
    state = f"{'a super user' if user.is_super else 'an ordinary user'}, {'enabled' if user.enabled else 'disabled'}"
    print_user(user, f"user {name} is {state}", as_json=as_json)


@command.command()
@click.argument("name")
@yes_option
@endpoint_option
@json_option
def delete(name: str, yes: bool, endpoint: str, as_json: bool) -> None:
    """Delete user NAME with all secrets and policies. Asks first; without a terminal it needs --yes.

    \b
    Examples:
      ternmq user delete alice
      ternmq user delete alice --yes
    """
    from ternmq.admin import users
    from ternmq_command.calls.admin import send_call

    confirm_action(f"Delete user {name}? All of its clients are refused then.", yes=yes)
    send_call(endpoint, users.delete_user(name))
    print_deleted("user", name, as_json=as_json)


@command.command(name="list")
@endpoint_option
@json_option
def list_users(endpoint: str, as_json: bool) -> None:
    """List all users, with the number of their secrets.

    \b
    Examples:
      ternmq user list
      ternmq user list --json | jq -r '.[] | select(.super).name'
    """
    from ternmq.admin import users as user_calls
    from ternmq_command.calls.admin import AdminClient

    with AdminClient(endpoint) as admin:
        found = [user for page in admin.send_pages(user_calls.list_users) for user in page.users]
    print_records([(user_record if as_json else user_row)(user) for user in found], as_json=as_json, nothing="no users")


@command.command()
@click.argument("name")
@endpoint_option
@json_option
def show(name: str, endpoint: str, as_json: bool) -> None:
    """Show user NAME with the ages of its secrets, and its policies.

    \b
    Examples:
      ternmq user show alice
      ternmq user show alice --json | jq .policies
    """
    from ternmq.admin import users as user_calls
    from ternmq_command.calls.admin import send_call

    user = send_call(endpoint, user_calls.describe_user(name))
    record = user_record(user)
    if as_json:
        print_json(record)
        return
    parts = [format_record({key: record[key] for key in ("name", "super", "enabled", "created")})]
    ages = record["secrets"]
    assert isinstance(ages, list)
    if ages:
        parts.append("\n".join(["secrets", *(_format_secret_age(age) for age in ages)]))
    if user.policies:
        parts.append(format_table([policy_record(policy) for policy in user.policies]))
    echo_lines("\n\n".join(parts))


def _format_secret_age(age: dict[str, object]) -> str:
    end = f", valid until {format_cell(age['valid_until'])}" if age["valid_until"] else ""
    return f"  created {format_cell(age['created'])}{end}"


@command.command()
@click.argument("name")
@_secret_option
@click.option(
    "--overlap",
    type=DurationParam(),
    default=DEFAULT_OVERLAP,
    show_default="24h",
    help="How long the previous secret stays valid; 0 ends it now.",
)
@endpoint_option
@json_option
def rotate(name: str, secret_stdin: bool, overlap: timedelta, endpoint: str, as_json: bool) -> None:
    """Give user NAME a new secret, and print it if the server created it.

    The previous secret stays valid for the overlap, so that clients can be changed one after the other. An older one
    ends now: a user has at most two.

    \b
    Examples:
      ternmq user rotate alice
      ternmq user rotate alice --overlap 0
      ternmq user rotate alice --secret-stdin --overlap 1h < new.secret
    """
    from ternmq.admin import users
    from ternmq_command.calls.admin import send_call

    secret = _read_secret(secret_stdin)
    answer = send_call(endpoint, users.rotate_secret(name, secret, overlap=overlap))
    print_secret(answer, f"user {name} has a new secret", as_json=as_json)


@command.command(name="generate-key")
def generate_key() -> None:
    """Print a new random key for the encryption of users' secrets.

    Give it to all proxies of a cluster in a file (--secrets-key-file) or in the variable TERNMQ_SECRETS_KEY. `ternmq
    up` creates one by itself. If the key is lost, the secrets of all users have to be rotated.

    \b
    Examples:
      ternmq user generate-key | install -m 600 /dev/stdin secrets.key
    """
    from ternmq_common.access.secret_keys import generate_key

    echo(generate_key())


@command.command()
@endpoint_option
@json_option
def reseal(endpoint: str, as_json: bool) -> None:
    """Encrypt the secrets of all users again, with the first key of the key file.

    To replace a key, put the new one before it in the file, restart all proxies, and run this command; then the old key
    can be removed from the file.

    \b
    Examples:
      ternmq user reseal
    """
    from ternmq.admin import users
    from ternmq_command.calls.admin import send_call

    done = send_call(endpoint, users.reseal_secrets())
    if as_json:
        print_json({"users": done.users, "unreadable": list(done.unreadable)})
    else:
        echo(f"secrets of {done.users} users encrypted with the first key")
    if done.unreadable:
        raise CommandFailure(
            f"the secrets of {len(done.unreadable)} users can't be decrypted and stay as they are, "
            f"the first: {done.unreadable[0]}",
            hint="add their key to the file, or rotate them",
        )
