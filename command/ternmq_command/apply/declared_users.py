"""Reads the users and policies that a file declares; it never has a secret, only where the secret is.


- {name: alice, secret_env: ALICE_SECRET, policies: [{allow: "Topic:orders-*", actions: "Pub,Sub", from: 10.0.0.0/8}]}
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ternmq_command.apply.declared_values import Item, quote_value, read_flag
from ternmq_command.terminal.failures import WrongUsage
from ternmq_common.access.actions import AccessAction
from ternmq_common.access.resources import AccessResource
from ternmq_common.access.users import POLICIES_MAX, find_secret_problem, find_user_name_problem, parse_ranges

USER_KEYS = ("name", "super", "enabled", "policies", "secret_env", "secret_file")
POLICY_KEYS = ("allow", "deny", "actions", "from")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredPolicy:
    """A declared policy, in the server's notation."""

    resource: str
    deny: bool
    actions: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredUser:
    """A declared user; settings that the file leaves out are None.

    The secret is for a new user; without one, the server creates it. No file has `secret` itself.
    """

    name: str
    is_super: bool | None
    enabled: bool | None
    policies: Sequence[DeclaredPolicy]
    secret_env: str | None
    secret_file: str | None
    secret: str = field(default="", repr=False)

    def read_secret(self) -> str:
        """Return the secret, or that in the variable or file, empty if there is none; raises WrongUsage if the variable
        or file has none."""
        if self.secret:
            return self.secret
        if self.secret_env is not None:
            place, found = f"the variable {self.secret_env}", os.environ.get(self.secret_env, "")
        elif self.secret_file is not None:
            place, found = self.secret_file, _read_secret_file(self.secret_file)
        else:
            return ""
        if problem := find_secret_problem(found):
            raise WrongUsage(f"user {self.name}: {place} has no secret: {problem}")
        return found


def declared_user(item: Item, where: str) -> DeclaredUser:
    """Read a user, whose keys were checked before; raises WrongUsage."""
    name = item.get("name")
    if not isinstance(name, str):
        raise WrongUsage(f"{where}: a name is needed, as text")
    if problem := find_user_name_problem(name):
        raise WrongUsage(f"{where}: {problem}")
    secret_env, secret_file = _read_text(item, "secret_env", where), _read_text(item, "secret_file", where)
    if secret_env is not None and secret_file is not None:
        raise WrongUsage(f"{where}: one of secret_env and secret_file is needed, not both")
    return DeclaredUser(
        name=name,
        is_super=read_flag(item, "super", where),
        enabled=read_flag(item, "enabled", where),
        policies=_read_policies(item.get("policies"), where),
        secret_env=secret_env,
        secret_file=secret_file,
    )


def _read_policies(content: object, where: str) -> list[DeclaredPolicy]:
    if content is None:
        return []
    if not isinstance(content, list) or len(content) > POLICIES_MAX:
        raise WrongUsage(f"{where}: policies must be a list of {POLICIES_MAX} at most")
    policies = [_read_policy(item, f"{where}.policies[{i}]") for i, item in enumerate(content)]
    places: dict[tuple[str, bool], int] = {}
    for i, policy in enumerate(policies):
        first = places.setdefault((policy.resource, policy.deny), i)
        if first != i:
            raise WrongUsage(
                f"{where}: policies[{first}] and policies[{i}] make the same decision on {policy.resource}"
            )
    return policies


def _read_policy(item: object, where: str) -> DeclaredPolicy:
    if not isinstance(item, dict) or not item.keys() <= set(POLICY_KEYS) or ("allow" in item) == ("deny" in item):
        raise WrongUsage(
            f"{where}: a table with allow or deny, actions and optionally from is needed, not {quote_value(item)}"
        )
    deny = "deny" in item
    resource, actions = item["deny" if deny else "allow"], item.get("actions")
    try:
        return DeclaredPolicy(
            resource=str(AccessResource.parse_resource(_join_texts(resource))),
            deny=deny,
            actions=str(AccessAction.parse_actions(_join_texts(actions))),
            sources=tuple(str(span) for span in parse_ranges(_join_texts(item.get("from") or ""))),
        )
    except ValueError as error:
        raise WrongUsage(f"{where}: {error}") from None


def _join_texts(value: object) -> str:
    """Return a text, or the texts of a list joined by commas."""
    parts = value if isinstance(value, list) else [value]
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) < len(parts):
        raise ValueError(f"text is needed, not {quote_value(value)}")
    return ",".join(texts)


def _read_text(item: Item, key: str, where: str) -> str | None:
    value = item.get(key)
    if not (value is None or isinstance(value, str)):
        raise WrongUsage(f"{where}: {key} must be text, not {quote_value(value)}")
    return value


def _read_secret_file(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUsage(f"the secret in {path} can't be read: {error}") from None
