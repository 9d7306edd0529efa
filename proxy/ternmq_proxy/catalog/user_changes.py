"""Changes of users in the registry, visible here when a call is done, and logged without any secret."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ternmq_common.access.resources import AccessResource
    from ternmq_common.access.users import AccessPolicy, AccessUser
    from ternmq_proxy.catalog.catalog import Catalog
    from ternmq_proxy.catalog.change_log import ChangeLog
    from ternmq_registry.registry import Registry


class UserChanges:
    """Changes users. Names, secrets and policies were checked; errors are those of `ternmq_registry.security.users`."""

    def __init__(self, catalog: "Catalog", registry: "Registry", change_log: "ChangeLog") -> None:
        self._catalog = catalog
        self._registry = registry
        self._change_log = change_log

    async def create_user(self, name: str, secret: str, *, is_super: bool, now_ms: int) -> "AccessUser":
        """Create a user."""
        user = await self._catalog.apply_change(
            self._registry.create_user, name, secret, is_super=is_super, now_ms=now_ms
        )
        self._change_log.done(f"{'super user' if is_super else 'user'} {name} was created")
        return user

    async def update(self, name: str, *, is_super: bool | None, is_enabled: bool | None) -> "AccessUser":
        """Update what is given."""
        user = await self._catalog.apply_change(
            self._registry.update_user, name, is_super=is_super, is_enabled=is_enabled
        )
        rank = "a super user" if user.is_super else "an ordinary user"
        self._change_log.done(f"user {name} was changed: {rank}, {'enabled' if user.is_enabled else 'disabled'},")
        return user

    async def delete_user(self, name: str) -> None:
        """Delete a user, with all secrets and policies."""
        await self._catalog.apply_change(self._registry.delete_user, name)
        self._change_log.done(f"user {name} was deleted")

    async def rotate_secret(self, name: str, secret: str, *, now_ms: int, overlap_ms: int) -> "AccessUser":
        """Give a user a new secret."""
        user = await self._catalog.apply_change(
            self._registry.rotate_secret, name, secret, now_ms=now_ms, overlap_ms=overlap_ms
        )
        self._change_log.done(f"user {name} was given another secret")
        return user

    async def put_policy(self, name: str, policy: "AccessPolicy") -> "AccessUser":
        """Add or replace a policy."""
        user = await self._catalog.apply_change(self._registry.put_policy, name, policy)
        self._change_log.done(f"user {name} was given the policy: {policy},")
        return user

    async def delete_policy(self, name: str, resource: "AccessResource", *, allows: bool) -> "AccessUser":
        """Remove a policy."""
        user = await self._catalog.apply_change(self._registry.delete_policy, name, resource, allows=allows)
        self._change_log.done(f"user {name} lost the policy to {'allow' if allows else 'deny'} on {resource}")
        return user

    async def reseal_secrets(self) -> tuple[int, list[str]]:
        """Encrypt all secrets with the current key; return how many users were done, and those for which it was not
        possible."""
        users, unreadable = await self._catalog.apply_change(self._registry.reseal_secrets)
        self._change_log.done(f"secrets of {users} users were re-encrypted")
        return users, unreadable
