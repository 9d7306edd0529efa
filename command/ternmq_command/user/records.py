"""Formats users for output, and secrets, which are shown once."""

from typing import TYPE_CHECKING

from ternmq_command.terminal.output import iso_or_none, print_json
from ternmq_command.terminal.printing import echo

if TYPE_CHECKING:
    from ternmq.admin.users import Policy, User, UserSecret


def user_record(user: "User") -> dict[str, object]:
    """Return a user as JSON prints it; secrets only with their ages."""
    return {
        "name": user.name,
        "super": user.is_super,
        "enabled": user.enabled,
        "created": iso_or_none(user.created),
        "secrets": [
            {"created": iso_or_none(each.created), "valid_until": iso_or_none(each.valid_until)}
            for each in user.secrets
        ],
        "policies": [policy_record(each) for each in user.policies],
    }


def user_row(user: "User") -> dict[str, object]:
    """Return a user as a row of a table."""
    ends = next((each.valid_until for each in user.secrets if each.valid_until is not None), None)
    return {
        **{name: value for name, value in user_record(user).items() if name in ("name", "super", "enabled", "created")},
        "secrets": len(user.secrets),
        "old_secret_ends": iso_or_none(ends),
        "policies": len(user.policies),
    }


def policy_record(policy: "Policy") -> dict[str, object]:
    return {
        "decision": "deny" if policy.deny else "allow",
        "resource": policy.resource,
        "actions": policy.actions,
        "from": list(policy.sources),
    }


def print_user(user: "User", sentence: str, *, as_json: bool) -> None:
    """Print the user's new state as JSON, or a sentence that says what was done."""
    if as_json:
        print_json(user_record(user))
    else:
        echo(sentence)


def print_secret(answer: "UserSecret", sentence: str, *, as_json: bool) -> None:
    """Print what was done, and the secret if the server created one."""
    if as_json:
        shown = {"secret": answer.secret} if answer.secret else {}
        print_json({**user_record(answer.user), **shown})
        return
    echo(sentence)
    if answer.secret:
        echo(f"its secret, which is not shown again: {answer.secret}")
