"""Converts rows of the table of users from and to values.

Secrets   a list of `{"sealed", "created_ms", "valid_until_ms"}`, the newest first; see `secret_encryption`
Policies  a list of `{"resource", "actions", "allows", "sources"}`, as `ternmq_common.access` parses them, in the order
          of resource and decision
"""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ternmq_common.access.actions import AccessAction
from ternmq_common.access.resources import AccessResource
from ternmq_common.access.users import AccessPolicy, AccessUser, UserSecret, parse_ranges

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ternmq_registry.security.secret_encryption import SecretEncryption


@dataclass(frozen=True, slots=True)
class SealedSecret:
    """A `UserSecret`, encrypted."""

    sealed: str
    created_ms: int
    valid_until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredUser:
    """A `AccessUser` with encrypted secrets, as the registry has it."""

    name: str
    is_super: bool
    is_enabled: bool
    created_ms: int
    secrets: tuple[SealedSecret, ...]
    policies: tuple[AccessPolicy, ...] = ()


def stored_user(row: "Mapping[Any, Any]") -> StoredUser:
    return StoredUser(
        name=row["name"],
        is_super=bool(row["is_super"]),
        is_enabled=bool(row["is_enabled"]),
        created_ms=row["created_ms"],
        secrets=tuple(SealedSecret(**each) for each in _parse_list(row["secrets"])),
        policies=tuple(_parse_policy(each) for each in _parse_list(row["policies"])),
    )


def user_row(user: StoredUser) -> dict[str, object]:
    """The row of a user, without the version of its change."""
    secrets = [
        {"sealed": each.sealed, "created_ms": each.created_ms, "valid_until_ms": each.valid_until_ms}
        for each in user.secrets
    ]
    policies = [
        {
            "resource": str(each.resource),
            "actions": str(each.actions),
            "allows": each.allows,
            "sources": ",".join(map(str, each.sources)),
        }
        for each in user.policies
    ]
    return {
        "name": user.name,
        "is_super": user.is_super,
        "is_enabled": user.is_enabled,
        "created_ms": user.created_ms,
        "secrets": json.dumps(secrets),
        "policies": json.dumps(policies),
    }


def decrypt_user(user: StoredUser, secret_encryption: "SecretEncryption | None") -> AccessUser:
    """The user, with the secrets that can be decrypted here."""
    secrets = []
    for each in user.secrets:
        text = (
            None
            if secret_encryption is None
            else secret_encryption.decrypt_secret(user.name, each.created_ms, each.sealed)
        )
        if text is not None:
            secrets.append(UserSecret(text, each.created_ms, each.valid_until_ms))
    return AccessUser(
        name=user.name,
        is_super=user.is_super,
        is_enabled=user.is_enabled,
        created_ms=user.created_ms,
        secrets=tuple(secrets),
        policies=user.policies,
    )


def _parse_policy(fields: dict[str, Any]) -> AccessPolicy:
    return AccessPolicy(
        resource=AccessResource.parse_resource(fields["resource"]),
        actions=AccessAction.parse_actions(fields["actions"]),
        allows=fields["allows"],
        sources=parse_ranges(fields["sources"]),
    )


def _parse_list(text: str) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", json.loads(text))
