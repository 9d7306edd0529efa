"""The encoding of a copy of the registry, for a process that starts while the registry is away.

Form     a checked file (`ternmq_common.process.checked_form`) of the kind `registry-copy`: the JSON of `_CopyContent`.
         Topics, groups, users and quotas are rows of their tables (`rows`, `user_rows`).
Secrets  those of users are as in the registry, encrypted under a key that is not in the copy. Keys of handles are
         plain, as in the registry; so the file is for its owner only. A broker needs neither, and its copy has
         neither.
Whose    a copy is of one registry, one schema of it and one holder; that of another one is refused.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from ternmq_common.access.users import AccessSnapshot
from ternmq_common.catalog.cluster import BrokerEntry, BrokerLoad, RegistrySnapshot
from ternmq_common.catalog.handle_keys import HandleKey
from ternmq_common.errors import MessagingError
from ternmq_common.process.checked_form import DamagedFile, NewerFormat, decode_file_body, encode_file_body
from ternmq_common.resources.quotas import QuotaSnapshot
from ternmq_registry import migrations
from ternmq_registry.security.user_rows import decrypt_user, stored_user
from ternmq_registry.sql.rows import group_of, group_row, quota_of, quota_row, topic_of, topic_row

if TYPE_CHECKING:
    from ternmq_registry.security.secret_encryption import SecretEncryption

WHAT = "registry-copy"
FORMAT = 1
COPY_BYTES_MAX = 64 << 20
"""Enough for some hundred thousand topics; a larger registry is not copied."""

Row = dict[str, str | int | bool | None]


class UnusableCopy(Exception):
    """There is a copy, but its reader can't use it; the text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryCopy:
    """The registry as `holder` had it at `read_ms`, milliseconds since the epoch.

    `registry` is the identity of the database. A broker had done all deletions up to the version `synced_up_to`.
    """

    registry: str
    holder: str
    read_ms: int
    snapshot: RegistrySnapshot
    synced_up_to: int = 0


class _TopicRow(msgspec.Struct):
    row: Row
    made: int
    brokers: tuple[str, ...]


class _GroupRow(msgspec.Struct):
    row: Row
    made: int


class _CopyContent(msgspec.Struct, forbid_unknown_fields=True):
    registry: str
    schema: str
    holder: str
    read_ms: int
    synced_up_to: int
    version: int
    topics: list[_TopicRow]
    groups: list[_GroupRow]
    brokers: list[BrokerEntry]
    users: list[Row]
    handle_keys: list[HandleKey]
    quotas: list[Row]


def encode_copy(copy: RegistryCopy) -> bytes:
    """Encode the copy as a file."""
    snapshot = copy.snapshot
    content = {
        "registry": copy.registry,
        "schema": migrations.NEWEST,
        "holder": copy.holder,
        "read_ms": copy.read_ms,
        "synced_up_to": copy.synced_up_to,
        "version": snapshot.version,
        "topics": [
            {"row": topic_row(topic), "made": topic.created_version, "brokers": topic.brokers}
            for topic in snapshot.topics.values()
        ],
        "groups": [{"row": group_row(group), "made": group.created_version} for group in snapshot.groups.values()],
        # A broker's load is outdated when the copy is read.
        "brokers": [replace(broker, load=BrokerLoad()) for broker in snapshot.brokers.values()],
        "users": list(snapshot.access.sealed.values()),
        "handle_keys": snapshot.handle_keys,
        "quotas": [quota_row(quota) for quota in snapshot.quotas.quotas.values()],
    }
    return encode_file_body(WHAT, FORMAT, msgspec.json.encode(content))


def decode_copy(
    name: str, data: bytes, *, registry: str, holder: str, secret_encryption: "SecretEncryption | None" = None
) -> RegistryCopy:
    """Decode the file of that name, with the users' secrets that `secret_encryption` can decrypt.

    UnusableCopy unless it is whole, of this schema, and of that registry and holder.
    """
    try:
        content = msgspec.json.decode(decode_file_body(name, WHAT, FORMAT, data), type=_CopyContent)
        _check_origin(content, registry, holder)
        snapshot = _snapshot_of(content, secret_encryption)
    except (DamagedFile, NewerFormat) as error:
        raise UnusableCopy(str(error)) from error
    except (msgspec.MsgspecError, MessagingError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise UnusableCopy(f"its content makes no sense: {error}") from error
    return RegistryCopy(
        registry=content.registry,
        holder=content.holder,
        read_ms=content.read_ms,
        snapshot=snapshot,
        synced_up_to=content.synced_up_to,
    )


def _check_origin(content: _CopyContent, registry: str, holder: str) -> None:
    if content.schema != migrations.NEWEST:
        raise UnusableCopy(f"it is of the schema {content.schema!r}, and {migrations.NEWEST} is needed")
    if content.registry != registry:
        raise UnusableCopy(f"it is of the registry {content.registry!r}, not of {registry!r}")
    if content.holder != holder:
        raise UnusableCopy(f"it was written by {content.holder!r}, not by {holder!r}")


def _snapshot_of(content: _CopyContent, secret_encryption: "SecretEncryption | None") -> RegistrySnapshot:
    topics = [topic_of({**each.row, "made": each.made}, each.brokers) for each in content.topics]
    groups = [group_of({**each.row, "made": each.made}) for each in content.groups]
    users = [decrypt_user(stored_user(row), secret_encryption) for row in content.users]
    sealed = {str(row["name"]): row for row in content.users}
    quotas = [quota_of(row) for row in content.quotas]
    return RegistrySnapshot(
        version=content.version,
        topics={topic.name: topic for topic in topics},
        groups={group.name: group for group in groups},
        brokers={broker.name: broker for broker in content.brokers},
        access=AccessSnapshot({user.name: user for user in users}, sealed),
        handle_keys=tuple(content.handle_keys),
        quotas=QuotaSnapshot({(quota.kind, quota.name): quota for quota in quotas}),
    )
