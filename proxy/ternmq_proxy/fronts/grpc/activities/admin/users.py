"""Calls of `ternmq.admin.v1.Admin` about users (`operations/admin/users.py`)."""

from typing import TYPE_CHECKING

from ternmq_common.access.actions import AccessAction
from ternmq_common.access.resources import AccessResource
from ternmq_common.access.users import AccessPolicy, AccessUser, parse_ranges
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_protos.admin_v1 import admin_pb2
from ternmq_proxy.fronts.grpc.activities.status import OK
from ternmq_proxy.operations.admin import users

if TYPE_CHECKING:
    from ternmq_proxy.call import Call
    from ternmq_proxy.services import Services


async def create_user(
    request: admin_pb2.CreateUserRequest, call: "Call", services: "Services"
) -> admin_pb2.CreateUserResponse:
    """Create a user."""
    created = await users.create_user(request.name, request.secret, call, services, is_super=request.super)
    return admin_pb2.CreateUserResponse(status=OK, user=_user(created.user), secret=created.secret)


async def update_user(
    request: admin_pb2.UpdateUserRequest, call: "Call", services: "Services"
) -> admin_pb2.UpdateUserResponse:
    """Make a user a super user or not, enabled or not."""
    user = await users.update_user(
        request.name,
        call,
        services,
        is_super=request.super if request.HasField("super") else None,
        is_enabled=request.enabled if request.HasField("enabled") else None,
    )
    return admin_pb2.UpdateUserResponse(status=OK, user=_user(user))


async def delete_user(
    request: admin_pb2.DeleteUserRequest, call: "Call", services: "Services"
) -> admin_pb2.DeleteUserResponse:
    """Forget a user."""
    await users.delete_user(request.name, call, services)
    return admin_pb2.DeleteUserResponse(status=OK)


async def describe_user(
    request: admin_pb2.DescribeUserRequest, call: "Call", services: "Services"
) -> admin_pb2.DescribeUserResponse:
    """Return one user."""
    user = await users.describe_user(request.name, call, services)
    return admin_pb2.DescribeUserResponse(status=OK, user=_user(user))


async def list_users(
    request: admin_pb2.ListUsersRequest, call: "Call", services: "Services"
) -> admin_pb2.ListUsersResponse:
    """Return a page of the users, by name."""
    page = await users.list_users(request.page, request.limit, call, services)
    return admin_pb2.ListUsersResponse(status=OK, users=map(_user, page.users), next_page=page.following)


async def rotate_secret(
    request: admin_pb2.RotateSecretRequest, call: "Call", services: "Services"
) -> admin_pb2.RotateSecretResponse:
    """Give a user another secret."""
    overlap_ms = request.overlap.ToMilliseconds() if request.HasField("overlap") else None
    rotated = await users.rotate_secret(request.user, request.secret, overlap_ms, call, services)
    return admin_pb2.RotateSecretResponse(status=OK, user=_user(rotated.user), secret=rotated.secret)


async def put_policy(
    request: admin_pb2.PutPolicyRequest, call: "Call", services: "Services"
) -> admin_pb2.PutPolicyResponse:
    """Add or replace a policy."""
    user = await users.put_policy(request.user, lambda: _checked_policy(request.policy), call, services)
    return admin_pb2.PutPolicyResponse(status=OK, user=_user(user))


async def delete_policy(
    request: admin_pb2.DeletePolicyRequest, call: "Call", services: "Services"
) -> admin_pb2.DeletePolicyResponse:
    """Take a policy away."""
    user = await users.delete_policy(request.user, request.resource, call, services, allows=not request.deny)
    return admin_pb2.DeletePolicyResponse(status=OK, user=_user(user))


async def reseal_secrets(
    request: admin_pb2.ResealSecretsRequest, call: "Call", services: "Services"
) -> admin_pb2.ResealSecretsResponse:
    """Encrypt all secrets with the first key."""
    del request
    resealed, unreadable = await users.reseal_secrets(call, services)
    return admin_pb2.ResealSecretsResponse(status=OK, users=resealed, unreadable=unreadable)


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
