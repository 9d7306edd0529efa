"""Users and their policies, and their admin calls."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ternmq.admin.requests.call import AdminCall, read_nothing
from ternmq.admin.requests.checks import check_flag, check_text, check_texts
from ternmq.admin.requests.words import read_moment
from ternmq.times.durations import check_span
from ternmq_protos.admin_v1 import admin_pb2

# It encrypts the secrets of all users of a server.
RESEAL_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A policy: what a user may do, or with `deny` may not; deny wins. `resource` is `Topic:orders`, `Group:billing-*`,
    `Cluster:users` or `*`; `actions` are `Pub,Sub` or `All`; `sources` are ranges of addresses (`10.0.0.0/8`), empty
    for any address."""

    resource: str
    actions: str
    deny: bool = False
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretAge:
    """When a secret was created and when it ends, None for never."""

    created: datetime | None
    valid_until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A user. `name` is the access key. Super users may do everything; a user that is not `enabled` may do nothing.
    `secrets` has the newest first, two while they are rotated."""

    name: str
    is_super: bool
    enabled: bool
    created: datetime | None
    secrets: tuple[SecretAge, ...]
    policies: tuple[Policy, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSecret:
    """A user, and the secret that the server created: returned only once, empty if the caller gave one."""

    user: User
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPage:
    """Some users, and the next page, empty if there are no more."""

    users: tuple[User, ...]
    next_page: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resealed:
    """For how many users secrets were encrypted again, and the users whose secrets can't be decrypted."""

    users: int
    unreadable: tuple[str, ...]


def create_user(name: str, secret: str = "", *, is_super: bool = False) -> AdminCall[UserSecret]:
    """Create a user, whose access key is the name; `BadRequest` if it exists. Without a secret the server creates
    one, which is returned here and never again."""
    request = admin_pb2.CreateUserRequest(
        name=check_text("name", name), secret=check_text("secret", secret), super=check_flag("is_super", is_super)
    )
    return AdminCall(request, _read_secret)


def update_user(name: str, *, is_super: bool | None = None, enabled: bool | None = None) -> AdminCall[User]:
    """Make a user a super user or not, enabled or not; the last enabled super user can't be changed."""
    request = admin_pb2.UpdateUserRequest(name=check_text("name", name))
    if is_super is not None:
        request.super = check_flag("is_super", is_super)
    if enabled is not None:
        request.enabled = check_flag("enabled", enabled)
    return AdminCall(request, _read_answer)


def delete_user(name: str) -> AdminCall[None]:
    """Delete a user, with all secrets and policies."""
    request = admin_pb2.DeleteUserRequest(name=check_text("name", name))
    return AdminCall(request, read_nothing)


def describe_user(name: str) -> AdminCall[User]:
    """Describe a user with its policies, and the ages of its secrets."""
    request = admin_pb2.DescribeUserRequest(name=check_text("name", name))
    return AdminCall(request, _read_answer)


def list_users(page: str = "") -> AdminCall[UserPage]:
    """List users by name; `page` is `next_page` of the page before."""
    request = admin_pb2.ListUsersRequest(page=check_text("page", page))
    return AdminCall(request, _read_page)


def rotate_secret(name: str, secret: str = "", *, overlap: timedelta | None = None) -> AdminCall[UserSecret]:
    """Give a user another secret; the server creates it if it is left out. The previous one stays valid for the
    overlap, a day by default; any older one ends."""
    request = admin_pb2.RotateSecretRequest(user=check_text("name", name), secret=check_text("secret", secret))
    if overlap is not None:
        request.overlap.FromTimedelta(check_span("overlap", overlap))
    return AdminCall(request, _read_secret)


def put_policy(
    name: str, resource: str, actions: str, *, deny: bool = False, sources: Iterable[str] = ()
) -> AdminCall[User]:
    """Allow a user something, or with `deny` forbid it: `put_policy("alice", "Topic:orders-*", "Pub,Sub")`. It
    replaces the policy with the same resource and decision. Returns the changed user."""
    policy = admin_pb2.Policy(
        resource=check_text("resource", resource),
        actions=check_text("actions", actions),
        deny=check_flag("deny", deny),
        sources=check_texts("sources", sources),
    )
    request = admin_pb2.PutPolicyRequest(user=check_text("name", name), policy=policy)
    return AdminCall(request, _read_answer)


def delete_policy(name: str, resource: str, *, deny: bool = False) -> AdminCall[User]:
    """Remove a policy; `NotFound` if the user has none with that resource and decision."""
    request = admin_pb2.DeletePolicyRequest(
        user=check_text("name", name), resource=check_text("resource", resource), deny=check_flag("deny", deny)
    )
    return AdminCall(request, _read_answer)


def reseal_secrets() -> AdminCall[Resealed]:
    """Encrypt all secrets with the current key, after another key became the first."""
    return AdminCall(
        admin_pb2.ResealSecretsRequest(),
        lambda answer: Resealed(users=answer.users, unreadable=tuple(answer.unreadable)),
        at_least_s=RESEAL_TIMEOUT_S,
    )


def _read_answer(
    answer: admin_pb2.UpdateUserResponse
    | admin_pb2.DescribeUserResponse
    | admin_pb2.PutPolicyResponse
    | admin_pb2.DeletePolicyResponse,
) -> User:
    return _read_user(answer.user)


def _read_secret(answer: admin_pb2.CreateUserResponse | admin_pb2.RotateSecretResponse) -> UserSecret:
    return UserSecret(user=_read_user(answer.user), secret=answer.secret)


def _read_page(answer: admin_pb2.ListUsersResponse) -> UserPage:
    return UserPage(users=tuple(map(_read_user, answer.users)), next_page=answer.next_page)


def _read_user(user: admin_pb2.User) -> User:
    return User(
        name=user.name,
        is_super=user.super,
        enabled=user.enabled,
        created=read_moment(user.created),
        secrets=tuple(
            SecretAge(created=read_moment(each.created), valid_until=read_moment(each.valid_until))
            for each in user.secrets
        ),
        policies=tuple(
            Policy(resource=each.resource, actions=each.actions, deny=each.deny, sources=tuple(each.sources))
            for each in user.policies
        ),
    )
