"""Users, their secrets and policies. No result has a secret except a newly created one."""

import secrets
from typing import TYPE_CHECKING, NamedTuple

from ternmq_common.access.resources import AccessResource
from ternmq_common.access.users import AccessUser, find_secret_problem, find_user_name_problem
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.limits import DAY_MS
from ternmq_proxy.access.needs import SUPER_USER

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_common.access.users import AccessPolicy
    from ternmq_proxy.access.needs import NamedNeed
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

DEFAULT_OVERLAP_MS = DAY_MS
OVERLAP_MAX_MS = 90 * DAY_MS
PAGE_DEFAULT, PAGE_MAX = 200, 1000
_SECRET_BYTES = 24
_ALL_USERS: "NamedNeed" = (SUPER_USER, "users")


class UserWithSecret(NamedTuple):
    """A user, and the secret if the server created it, else empty."""

    user: AccessUser
    secret: str


class UserPage(NamedTuple):
    """Users by their names, and the name after which the next page begins, empty at the end."""

    users: list[AccessUser]
    following: str


async def create_user(
    name: str, secret: str, call: "Call", services: "Services", *, is_super: bool = False
) -> UserWithSecret:
    """Create a user; the server creates a secret if it is empty. BAD_REQUEST if the name exists, since no user can
    compare secrets."""
    services.access.require_change("CreateUser", call, _need_of(name))
    if problem := find_user_name_problem(name):
        raise MessagingError(ErrorCode.BAD_REQUEST, problem)
    checked = _checked_secret(secret)
    users, now_ms = services.catalog.users, services.clock.now_ms()
    user = await users.create_user(name, checked, is_super=is_super, now_ms=now_ms)
    return UserWithSecret(user, "" if secret else checked)


async def update_user(
    name: str, call: "Call", services: "Services", *, is_super: bool | None, is_enabled: bool | None
) -> AccessUser:
    """Make a user a super user or not, enabled or not; None leaves it as it is."""
    services.access.require_change("UpdateUser", call, _need_of(name))
    if is_super is None and is_enabled is None:
        raise MessagingError(ErrorCode.BAD_REQUEST, "nothing to change: say whether it is super, or enabled")
    return await services.catalog.users.update(name, is_super=is_super, is_enabled=is_enabled)


async def delete_user(name: str, call: "Call", services: "Services") -> None:
    """Forget a user."""
    services.access.require_change("DeleteUser", call, _need_of(name))
    await services.catalog.users.delete_user(name)


async def describe_user(name: str, call: "Call", services: "Services") -> AccessUser:
    """Return one user, for super users and himself; the registry is read before a user counts as unknown."""
    if name != call.user:
        services.access.require_right("DescribeUser", call, *_need_of(name))
    if name not in services.catalog.access_snapshot.users:
        await services.catalog.refresh_snapshot()
    user = services.catalog.access_snapshot.users.get(name)
    if user is None:
        if problem := find_user_name_problem(name):
            raise MessagingError(ErrorCode.BAD_REQUEST, problem)
        raise MessagingError(ErrorCode.NOT_FOUND, f"there is no user {name!r}; `ternmq user list` shows them")
    return user


async def list_users(after: str, limit: int, call: "Call", services: "Services") -> UserPage:
    """Return a page of the users, by name; a limit of 0 is the usual one."""
    services.access.require_all("ListUsers", call, _ALL_USERS)
    limit = limit or PAGE_DEFAULT
    if not 1 <= limit <= PAGE_MAX:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"a page has 1 to {PAGE_MAX} users, not {limit}")
    users = services.catalog.access_snapshot.users
    names = sorted(name for name in users if name > after)
    following = names[limit - 1] if len(names) > limit else ""
    return UserPage([users[name] for name in names[:limit]], following)


async def rotate_secret(
    name: str, secret: str, overlap_ms: int | None, call: "Call", services: "Services"
) -> UserWithSecret:
    """Give a user another secret, for super users and himself; the one before stays valid for a while, a day if
    `overlap_ms` is None."""
    if name == call.user:
        services.access.note_own_change("RotateSecret", call)
    else:
        services.access.require_change("RotateSecret", call, _need_of(name))
    overlap_ms = DEFAULT_OVERLAP_MS if overlap_ms is None else overlap_ms
    if not 0 <= overlap_ms <= OVERLAP_MAX_MS:
        raise MessagingError(
            ErrorCode.BAD_REQUEST, f"an overlap of {overlap_ms} ms is not possible; 0 to 90 days are allowed"
        )
    checked = _checked_secret(secret)
    now_ms = services.clock.now_ms()
    user = await services.catalog.users.rotate_secret(name, checked, now_ms=now_ms, overlap_ms=overlap_ms)
    return UserWithSecret(user, "" if secret else checked)


async def put_policy(name: str, read: "Callable[[], AccessPolicy]", call: "Call", services: "Services") -> AccessUser:
    """Add or replace the policy that `read` returns."""
    services.access.require_change("PutPolicy", call, _need_of(name))
    return await services.catalog.users.put_policy(name, read())


async def delete_policy(
    name: str, resource_text: str, call: "Call", services: "Services", *, allows: bool
) -> AccessUser:
    """Take a policy away."""
    services.access.require_change("DeletePolicy", call, _need_of(name))
    try:
        resource = AccessResource.parse_resource(resource_text)
    except ValueError as error:
        raise MessagingError(ErrorCode.BAD_REQUEST, str(error)) from None
    return await services.catalog.users.delete_policy(name, resource, allows=allows)


async def reseal_secrets(call: "Call", services: "Services") -> tuple[int, list[str]]:
    """Encrypt all secrets with the first key; after it, the others can be taken away. Return the number of users, and
    those whose secrets no key reads."""
    services.access.require_change("ResealSecrets", call, _ALL_USERS)
    return await services.catalog.users.reseal_secrets()


def _need_of(name: str) -> "NamedNeed":
    return SUPER_USER, f"users/{name}"


def _checked_secret(wanted: str) -> str:
    """Return the given secret, or a random one."""
    if not wanted:
        return secrets.token_urlsafe(_SECRET_BYTES)
    if problem := find_secret_problem(wanted):
        raise MessagingError(ErrorCode.BAD_REQUEST, problem)
    return wanted
