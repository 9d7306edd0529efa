"""Users in the registry, with their secrets and policies.

Secrets      plain text to processes that have the key, encrypted in the database (`secret_encryption`). A user has
             one, and two while it is rotated.
Super users  at least one stays enabled once there is any: the last one can't be deleted, disabled or made an ordinary
             user.
"""

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import delete, func, insert, select, update

from ternmq_common.access.users import POLICIES_MAX, AccessSnapshot, AccessUser
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.printable import list_names
from ternmq_registry.security.user_rows import SealedSecret, StoredUser, decrypt_user, stored_user, user_row
from ternmq_registry.sql.checksums import check_rows
from ternmq_registry.sql.database import raise_version
from ternmq_registry.tables import USERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sqlalchemy import Connection

    from ternmq_common.access.resources import AccessResource
    from ternmq_common.access.users import AccessPolicy
    from ternmq_common.catalog.cluster import RegistrySnapshot
    from ternmq_registry.security.secret_encryption import SecretEncryption
    from ternmq_registry.sql.database import RegistryDatabase

_log = logging.getLogger(__name__)
USERS_MAX = 10_000


class UserTable:
    """The part of the registry for users, at most `users_max`. Without `_secret_encryption` secrets can't be read."""

    users_max = USERS_MAX

    _database: "RegistryDatabase"
    _secret_encryption: "SecretEncryption | None" = None
    _unreadable: frozenset[str] = frozenset()

    def create_user(self, name: str, secret: str, *, is_super: bool, now_ms: int) -> AccessUser:
        """Create a user with a valid name and secret; BAD_REQUEST if there is one of that name."""
        with self._database.change_transaction() as connection:
            if _find_user(connection, name) is not None:
                raise MessagingError(
                    ErrorCode.BAD_REQUEST,
                    f"user {name!r} exists; `ternmq user update` and `ternmq user rotate` change one",
                )
            return self._decrypt_user(self._insert_new(connection, name, secret, is_super=is_super, now_ms=now_ms))

    def update_user(self, name: str, *, is_super: bool | None = None, is_enabled: bool | None = None) -> AccessUser:
        """Change the values that are given; PRECONDITION_FAILED if no enabled super user would be left."""

        def change_user(user: StoredUser) -> StoredUser:
            return replace(
                user,
                is_super=user.is_super if is_super is None else is_super,
                is_enabled=user.is_enabled if is_enabled is None else is_enabled,
            )

        return self._update_user(name, change_user)

    def delete_user(self, name: str) -> None:
        """Delete the user; PRECONDITION_FAILED for the last enabled super user."""
        with self._database.change_transaction() as connection:
            user = _require_user(connection, name)
            _check_last_super(connection, user)
            connection.execute(delete(USERS).where(USERS.c.name == name))
            raise_version(connection)

    def rotate_secret(self, name: str, secret: str, *, now_ms: int, overlap_ms: int) -> AccessUser:
        """Give a user another secret. The former one stays valid for the overlap, any older one ends."""
        assert overlap_ms >= 0

        def change_user(user: StoredUser) -> StoredUser:
            created_ms = max([now_ms, *(each.created_ms + 1 for each in user.secrets)])
            until_ms = now_ms + overlap_ms
            kept = [_end_at(each, until_ms) for each in user.secrets[:1] if overlap_ms and _is_valid(each, now_ms)]
            return replace(user, secrets=(self._encrypt_secret(name, created_ms, secret), *kept))

        return self._update_user(name, change_user)

    def put_policy(self, name: str, policy: "AccessPolicy") -> AccessUser:
        """Add a policy, or replace the user's one with the same resource and decision."""

        def change_user(user: StoredUser) -> StoredUser:
            others = [each for each in user.policies if _policy_key(each) != _policy_key(policy)]
            if len(others) >= POLICIES_MAX:
                raise MessagingError(
                    ErrorCode.BAD_REQUEST,
                    f"user {name!r} has {POLICIES_MAX} policies, the most there may be: remove some, or widen one",
                )
            return replace(user, policies=tuple(sorted([*others, policy], key=_policy_key)))

        return self._update_user(name, change_user)

    def delete_policy(self, name: str, resource: "AccessResource", *, allows: bool) -> AccessUser:
        """Delete a policy; NOT_FOUND if the user has no such policy."""

        def change_user(user: StoredUser) -> StoredUser:
            left = tuple(each for each in user.policies if (each.resource, each.allows) != (resource, allows))
            if len(left) == len(user.policies):
                decision = "allows" if allows else "denies"
                raise MessagingError(
                    ErrorCode.NOT_FOUND,
                    f"user {name!r} has no policy that {decision} something on {resource}; `ternmq policy list {name}`",
                )
            return replace(user, policies=left)

        return self._update_user(name, change_user)

    def reseal_secrets(self) -> tuple[int, list[str]]:
        """Encrypt all secrets again that do not use the first key.

        Returns for how many users that was done, and the names of users with secrets that can't be read here, which
        stay.
        """
        with self._database.change_transaction() as connection:
            users = _read_users(connection, 0).values()
            unreadable = sorted(
                user.name for user in users if len(self._decrypt_user(user).secrets) < len(user.secrets)
            )
            changed = [resealed for user in users if (resealed := self._reseal_user(user)) != user]
            if changed:
                version = raise_version(connection)
                for user in changed:
                    _write_user(connection, user, version)
            return len(changed), unreadable

    def import_users(self, users: "Iterable[StoredUser]") -> None:
        """Insert users of another registry as they were there; this one has none of them."""
        with self._database.change_transaction() as connection:
            version = raise_version(connection)
            for user in users:
                _insert_user(connection, user, version)

    def has_super_user(self) -> bool:
        """Whether a user can administer this server."""
        with self._database.read_transaction() as connection:
            return _count_super_users(connection) > 0

    def has_user(self) -> bool:
        """Whether any user can sign a call."""
        with self._database.read_transaction() as connection:
            return connection.execute(select(USERS.c.name).where(USERS.c.is_enabled).limit(1)).first() is not None

    def ensure_super_user(self, name: str, secret: str, *, now_ms: int) -> bool:
        """Unless a super user is enabled, create this one, or enable the user of that name as one.

        The user then has this secret only. Returns whether that was needed. Of several processes one does it.
        """
        with self._database.change_transaction() as connection:
            if _count_super_users(connection):
                return False
            found = _find_user(connection, name)
            if found is None:
                self._insert_new(connection, name, secret, is_super=True, now_ms=now_ms)
            else:
                created_ms = max([now_ms, *(each.created_ms + 1 for each in found.secrets)])
                secrets = (self._encrypt_secret(name, created_ms, secret),)
                again = replace(found, is_super=True, is_enabled=True, secrets=secrets)
                _write_user(connection, again, raise_version(connection))
            return True

    def _insert_new(
        self, connection: "Connection", name: str, secret: str, *, is_super: bool, now_ms: int
    ) -> StoredUser:
        if int(connection.execute(select(func.count()).select_from(USERS)).scalar_one()) >= self.users_max:
            raise MessagingError(ErrorCode.BAD_REQUEST, f"there are {self.users_max} users, which is the most")
        secrets = (self._encrypt_secret(name, now_ms, secret),)
        user = StoredUser(name=name, is_super=is_super, is_enabled=True, created_ms=now_ms, secrets=secrets)
        _insert_user(connection, user, raise_version(connection))
        return user

    def _update_user(self, name: str, change: "Callable[[StoredUser], StoredUser]") -> AccessUser:
        with self._database.change_transaction() as connection:
            user = _require_user(connection, name)
            changed = change(user)
            if not (changed.is_super and changed.is_enabled):
                _check_last_super(connection, user)
            if changed != user:
                _write_user(connection, changed, raise_version(connection))
            return self._decrypt_user(changed)

    def _encrypt_secret(self, name: str, created_ms: int, secret: str) -> SealedSecret:
        assert self._secret_encryption is not None, "changes of users need secret encryption"
        return SealedSecret(self._secret_encryption.encrypt_secret(name, created_ms, secret), created_ms)

    def _reseal_user(self, user: StoredUser) -> StoredUser:
        secret_encryption = self._secret_encryption
        assert secret_encryption is not None, "changes of users need secret encryption"
        secrets = []
        for each in user.secrets:
            text = (
                None
                if secret_encryption.is_current(each.sealed)
                else secret_encryption.decrypt_secret(user.name, each.created_ms, each.sealed)
            )
            secrets.append(
                each
                if text is None
                else replace(each, sealed=secret_encryption.encrypt_secret(user.name, each.created_ms, text))
            )
        return replace(user, secrets=tuple(secrets))

    def _decrypt_user(self, user: StoredUser) -> AccessUser:
        return decrypt_user(user, self._secret_encryption)

    def _read_access(self, connection: "Connection", since: "RegistrySnapshot") -> AccessSnapshot:
        """All users; the object of `since` itself if none changed."""
        changed = _read_users(connection, since.version)
        known = since.access.users
        count = int(connection.execute(select(func.count()).select_from(USERS)).scalar_one())
        if not changed and count == len(known):
            return since.access
        users = {**known, **{name: self._decrypt_user(user) for name, user in changed.items()}}
        if len(users) != count:
            # Some users were deleted, which no row shows.
            there = set(connection.execute(select(USERS.c.name)).scalars())
            users = {name: user for name, user in users.items() if name in there}
        sealed = {**since.access.sealed, **{name: user_row(user) for name, user in changed.items()}}
        sealed = {} if self._secret_encryption is None else {name: row for name, row in sealed.items() if name in users}
        self._warn_of_unreadable(
            {name for name, user in changed.items() if len(users[name].secrets) < len(user.secrets)}
        )
        return AccessSnapshot(users, sealed)

    def _warn_of_unreadable(self, names: set[str]) -> None:
        news = names - self._unreadable
        self._unreadable |= names
        if self._secret_encryption is None or not news:
            return
        keys = ", ".join(self._secret_encryption.key_ids)
        _log.warning(
            "secrets of users can't be decrypted with %s, so they can't sign in here: %s; "
            "give the key that they were encrypted with (--secrets-key-file), or `ternmq user rotate` them",
            f"the keys {keys}" if keys else "no key",
            list_names(sorted(news), "users"),
        )


def _insert_user(connection: "Connection", user: StoredUser, version: int) -> None:
    connection.execute(insert(USERS).values(**user_row(user), changed=version))


def _write_user(connection: "Connection", user: StoredUser, version: int) -> None:
    row = update(USERS).where(USERS.c.name == user.name).values(**user_row(user), changed=version)
    connection.execute(row)


def _read_users(connection: "Connection", since: int, name: str | None = None) -> dict[str, StoredUser]:
    """The users that changed above the version `since`, or the one of this name."""
    wanted = USERS.c.changed > since if name is None else USERS.c.name == name
    rows = connection.execute(select(USERS).where(wanted)).mappings().all()
    check_rows(connection, USERS, rows)
    return {row["name"]: stored_user(row) for row in rows}


def _find_user(connection: "Connection", name: str) -> StoredUser | None:
    return _read_users(connection, 0, name).get(name)


def _require_user(connection: "Connection", name: str) -> StoredUser:
    user = _find_user(connection, name)
    if user is None:
        raise MessagingError(ErrorCode.NOT_FOUND, f"there is no user {name!r}; `ternmq user list` shows them")
    return user


def _count_super_users(connection: "Connection") -> int:
    enabled = select(func.count()).select_from(USERS).where(USERS.c.is_super, USERS.c.is_enabled)
    return int(connection.execute(enabled).scalar_one())


def _check_last_super(connection: "Connection", user: StoredUser) -> None:
    """Refuse to lose the last enabled super user."""
    if user.is_super and user.is_enabled and _count_super_users(connection) == 1:
        raise MessagingError(
            ErrorCode.PRECONDITION_FAILED,
            f"user {user.name!r} is the last enabled super user: no user could administer this server; "
            "create another one first, with `ternmq user create NAME --super`",
        )


def _is_valid(secret: SealedSecret, now_ms: int) -> bool:
    return secret.valid_until_ms is None or secret.valid_until_ms > now_ms


def _end_at(secret: SealedSecret, until_ms: int) -> SealedSecret:
    """The secret valid until then, and no longer than it was."""
    ends = until_ms if secret.valid_until_ms is None else min(until_ms, secret.valid_until_ms)
    return replace(secret, valid_until_ms=ends)


def _policy_key(policy: "AccessPolicy") -> tuple[str, bool]:
    return str(policy.resource), policy.allows
