"""Calls of `ternmq.admin.v1.Admin` about users, their secrets and policies. No answer has a secret but one that was
made for it."""

import secrets
from typing import TYPE_CHECKING

from ternmq_common.access.actions import AccessAction
from ternmq_common.access.resources import AccessResource
from ternmq_common.access.users import (
    AccessPolicy,
    AccessUser,
    find_secret_problem,
    find_user_name_problem,
    parse_ranges,
)
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_common.limits import DAY_MS
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_proxy.fronts.grpc.activities.status import OK

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services

DEFAULT_OVERLAP_MS = DAY_MS
OVERLAP_MAX_MS = 90 * DAY_MS
PAGE_DEFAULT, PAGE_MAX = 200, 1000
_SECRET_BYTES = 24


async def create_user(
    request: admin_pb2.CreateUserRequest, call: "Call", services: "Services"
) -> admin_pb2.CreateUserResponse:
    """Make a user; BAD_REQUEST if there is one of that name, since nobody can compare secrets."""
    del call
    if problem := find_user_name_problem(request.name):
        raise MessagingError(ErrorCode.BAD_REQUEST, problem)
    secret = _secret(request.secret)
    users, now_ms = services.catalog.users, services.clock.now_ms()
    user = await users.create_user(request.name, secret, is_super=request.super, now_ms=now_ms)
    made = "" if request.secret else secret
    return admin_pb2.CreateUserResponse(status=OK, user=_user(user), secret=made)


async def update_user(
    request: admin_pb2.UpdateUserRequest, call: "Call", services: "Services"
) -> admin_pb2.UpdateUserResponse:
    """Make a user a super user or not, enabled or not."""
    del call
    is_super = request.super if request.HasField("super") else None
    is_enabled = request.enabled if request.HasField("enabled") else None
    if is_super is None and is_enabled is None:
        raise MessagingError(ErrorCode.BAD_REQUEST, "nothing to change: say whether it is super, or enabled")
    user = await services.catalog.users.update(request.name, is_super=is_super, is_enabled=is_enabled)
    return admin_pb2.UpdateUserResponse(status=OK, user=_user(user))


async def delete_user(
    request: admin_pb2.DeleteUserRequest, call: "Call", services: "Services"
) -> admin_pb2.DeleteUserResponse:
    """Forget a user."""
    del call
    await services.catalog.users.delete_user(request.name)
    return admin_pb2.DeleteUserResponse(status=OK)


async def describe_user(
    request: admin_pb2.DescribeUserRequest, call: "Call", services: "Services"
) -> admin_pb2.DescribeUserResponse:
    """One user; the registry is looked at before one is called unknown."""
    del call
    if request.name not in services.catalog.access_snapshot.users:
        await services.catalog.refresh_snapshot()
    user = services.catalog.access_snapshot.users.get(request.name)
    if user is None:
        if problem := find_user_name_problem(request.name):
            raise MessagingError(ErrorCode.BAD_REQUEST, problem)
        raise MessagingError(ErrorCode.NOT_FOUND, f"there is no user {request.name!r}; `ternmq user list` shows them")
    return admin_pb2.DescribeUserResponse(status=OK, user=_user(user))


async def list_users(
    request: admin_pb2.ListUsersRequest, call: "Call", services: "Services"
) -> admin_pb2.ListUsersResponse:
    """A page of the users, by name."""
    del call
    limit = request.limit or PAGE_DEFAULT
    if not 1 <= limit <= PAGE_MAX:
        raise MessagingError(ErrorCode.BAD_REQUEST, f"a page has 1 to {PAGE_MAX} users, not {limit}")
    users = services.catalog.access_snapshot.users
    names = sorted(name for name in users if name > request.page)
    following = names[limit - 1] if len(names) > limit else ""
    return admin_pb2.ListUsersResponse(
        status=OK, users=[_user(users[name]) for name in names[:limit]], next_page=following
    )


async def rotate_secret(
    request: admin_pb2.RotateSecretRequest, call: "Call", services: "Services"
) -> admin_pb2.RotateSecretResponse:
    """Give a user another secret; the one before stays valid for a while."""
    del call
    overlap_ms: int = request.overlap.ToMilliseconds() if request.HasField("overlap") else DEFAULT_OVERLAP_MS
    if not 0 <= overlap_ms <= OVERLAP_MAX_MS:
        raise MessagingError(
            ErrorCode.BAD_REQUEST, f"an overlap of {overlap_ms} ms is not possible; 0 to 90 days are allowed"
        )
    secret = _secret(request.secret)
    now_ms = services.clock.now_ms()
    user = await services.catalog.users.rotate_secret(request.user, secret, now_ms=now_ms, overlap_ms=overlap_ms)
    made = "" if request.secret else secret
    return admin_pb2.RotateSecretResponse(status=OK, user=_user(user), secret=made)


async def put_policy(
    request: admin_pb2.PutPolicyRequest, call: "Call", services: "Services"
) -> admin_pb2.PutPolicyResponse:
    """Add or replace a policy."""
    del call
    user = await services.catalog.users.put_policy(request.user, _checked_policy(request.policy))
    return admin_pb2.PutPolicyResponse(status=OK, user=_user(user))


async def delete_policy(
    request: admin_pb2.DeletePolicyRequest, call: "Call", services: "Services"
) -> admin_pb2.DeletePolicyResponse:
    """Take a policy away."""
    del call
    try:
        resource = AccessResource.parse_resource(request.resource)
    except ValueError as error:
        raise MessagingError(ErrorCode.BAD_REQUEST, str(error)) from None
    user = await services.catalog.users.delete_policy(request.user, resource, allows=not request.deny)
    return admin_pb2.DeletePolicyResponse(status=OK, user=_user(user))


async def reseal_secrets(
    request: admin_pb2.ResealSecretsRequest, call: "Call", services: "Services"
) -> admin_pb2.ResealSecretsResponse:
    """Encrypt all secrets with the first key; after it, the others can be taken away."""
    del request, call
    users, unreadable = await services.catalog.users.reseal_secrets()
    return admin_pb2.ResealSecretsResponse(status=OK, users=users, unreadable=unreadable)


def _secret(asked: str) -> str:
    """That one, or one that nobody guesses."""
    if not asked:
        return secrets.token_urlsafe(_SECRET_BYTES)
    if problem := find_secret_problem(asked):
        raise MessagingError(ErrorCode.BAD_REQUEST, problem)
    return asked


def _checked_policy(policy: admin_pb2.Policy) -> AccessPolicy:
    try:
        return AccessPolicy(
            resource=AccessResource.parse_resource(policy.resource),
            actions=AccessAction.parse_actions(policy.actions),
            allows=not policy.deny,
            sources=parse_ranges(",".join(policy.sources)),
        )
    except ValueError as error:
        raise MessagingError(ErrorCode.BAD_REQUEST, str(error)) from None


def _user(user: AccessUser) -> admin_pb2.User:
    answer = admin_pb2.User(name=user.name, super=user.is_super, enabled=user.is_enabled)
    answer.created.FromMilliseconds(user.created_ms)
    for secret in user.secrets:
        age = answer.secrets.add()
        age.created.FromMilliseconds(secret.created_ms)
        if secret.valid_until_ms is not None:
            age.valid_until.FromMilliseconds(secret.valid_until_ms)
    for policy in user.policies:
        answer.policies.add(
            resource=str(policy.resource),
            actions=str(policy.actions),
            deny=not policy.allows,
            sources=map(str, policy.sources),
        )
    return answer
