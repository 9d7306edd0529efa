"""Requests about users (3001 to 3005) and their policies (3006 to 3010); those of 4.x are refused (50 to 53).

Users and policies are the registry's. Secrets are never answered. A policy here has one resource, so each entry of a
request is one; the types of policies, Custom and Default, are all Custom.
"""

from typing import TYPE_CHECKING

from ternmq_common.access.actions import ALL_ACTIONS, AccessAction
from ternmq_common.access.resources import AccessResource
from ternmq_common.access.users import AccessPolicy, parse_ranges
from ternmq_common.errors import ErrorCode, MessagingError
from ternmq_proxy.fronts.remoting.codes import ResponseCode
from ternmq_proxy.fronts.remoting.handlers.admin.answers import (
    answer_done,
    answer_json,
    read_object,
    read_text,
    refuse_always,
)
from ternmq_proxy.fronts.remoting.refusals import RequestRefused
from ternmq_proxy.operations.admin.users import (
    PAGE_MAX,
    create_user,
    delete_policy,
    delete_user,
    describe_user,
    list_users,
    put_policy,
    rotate_secret,
    update_user,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ternmq_common.access.users import AccessUser
    from ternmq_proxy.fronts.remoting.call import RemotingCall
    from ternmq_rpc.remoting.commands import Command

_SUBJECT_PREFIX = "User:"
_SUPER, _NORMAL, _ENABLED, _DISABLED = "Super", "Normal", "enable", "disable"
_ALLOW, _DENY, _CUSTOM = "Allow", "Deny", "Custom"

refuse_accounts = refuse_always(
    "accounts of RocketMQ 4.x are not kept here; make users and policies with createUser and createAcl of mqadmin 5, "
    "or with `ternmq user`"
)


async def add_user(context: "RemotingCall") -> "Command":
    """Answer 3001."""
    content = read_object(context.command.body)
    name, secret = _read_name(content, context), read_text(content, "password")
    if not secret:
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, "The password can not be blank.")
    is_super = _read_word(content, "userType", _SUPER, _NORMAL) is True
    await create_user(name, secret, context.call, context.services, is_super=is_super)
    if _read_word(content, "userStatus", _DISABLED, _ENABLED):
        await update_user(name, context.call, context.services, is_super=None, is_enabled=False)
    return answer_done()


async def change_user(context: "RemotingCall") -> "Command":
    """Answer 3002. A new secret takes the place of the old one at once."""
    content = read_object(context.command.body)
    name, secret = _read_name(content, context), read_text(content, "password")
    is_super = _read_word(content, "userType", _SUPER, _NORMAL)
    is_enabled = _read_word(content, "userStatus", _ENABLED, _DISABLED)
    await _find_user(name, context)
    if is_super is not None or is_enabled is not None:
        await update_user(name, context.call, context.services, is_super=is_super, is_enabled=is_enabled)
    if secret:
        await rotate_secret(name, secret, 0, context.call, context.services)
    return answer_done()


async def remove_user(context: "RemotingCall") -> "Command":
    """Answer 3003; a missing user is no error."""
    try:
        await delete_user(context.command.get_text("username"), context.call, context.services)
    except MessagingError as error:
        if error.code != ErrorCode.NOT_FOUND:
            raise
    return answer_done()


async def get_user(context: "RemotingCall") -> "Command":
    """Answer 3004; the answer is empty for a user that does not exist."""
    user = await _find_known(context.command.get_text("username"), context)
    return answer_done() if user is None else answer_json(_describe_user(user))


async def list_some_users(context: "RemotingCall") -> "Command":
    """Answer 3005: those whose names have the filter in them."""
    wanted = context.command.get_text("filter", "")
    return answer_json([_describe_user(each) for each in await _find_users(context) if wanted in each.name])


async def _find_users(context: "RemotingCall") -> "list[AccessUser]":
    found: list[AccessUser] = []
    after = ""
    while True:
        page = await list_users(after, PAGE_MAX, context.call, context.services)
        found += page.users
        after = page.following
        if not after:
            return found


async def _find_user(name: str, context: "RemotingCall") -> "AccessUser":
    user = await _find_known(name, context)
    if user is None:
        raise RequestRefused(ResponseCode.USER_NOT_EXIST, "The user not exist.")
    return user


async def _find_known(name: str, context: "RemotingCall") -> "AccessUser | None":
    try:
        return await describe_user(name, context.call, context.services)
    except MessagingError as error:
        if error.code != ErrorCode.NOT_FOUND:
            raise
        return None


def _describe_user(user: "AccessUser") -> dict[str, object]:
    return {
        "userStatus": _ENABLED if user.is_enabled else _DISABLED,
        "userType": _SUPER if user.is_super else _NORMAL,
        "username": user.name,
    }


def _read_name(content: "Mapping[object, object]", context: "RemotingCall") -> str:
    return context.command.get_text("username", "") or read_text(content, "username")


def _read_word(content: "Mapping[object, object]", name: str, yes: str, no: str) -> bool | None:
    """Return whether a text of the body is the first word or the second, in any case; None if it is empty."""
    word = read_text(content, name).lower()
    if word in ("", yes.lower(), no.lower()):
        return None if not word else word == yes.lower()
    raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"{name} is {word[:40]!r}, neither {yes} nor {no}")


# --- policies


async def put_policies(context: "RemotingCall") -> "Command":
    """Answer 3006 and 3007: each entry is added, or takes the place of those of its resource."""
    content = read_object(context.command.body)
    subject = context.command.get_text("subject", "") or read_text(content, "subject")
    name = _read_subject(subject)
    user = await _find_known(name, context)
    if user is None:
        raise RequestRefused(ResponseCode.NO_PERMISSION, f"The subject of {subject} is not exist.")
    policies = [each for policy in _read_list(content, "policies") for each in _read_entries(policy)]
    for policy in policies:
        await _put_policy(name, policy, context)
    wanted = {(str(each.resource), each.allows) for each in policies}
    for each in user.policies:
        resource = str(each.resource)
        if (resource, not each.allows) in wanted and (resource, each.allows) not in wanted:
            await delete_policy(name, resource, context.call, context.services, allows=each.allows)
    return answer_done()


async def _put_policy(name: str, policy: AccessPolicy, context: "RemotingCall") -> None:
    await put_policy(name, lambda: policy, context.call, context.services)


def _read_list(content: "Mapping[object, object]", name: str) -> "list[Mapping[object, object]]":
    listed = content.get(name)
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"the body has no list {name} of objects")
    return listed


def _read_entries(policy: "Mapping[object, object]") -> "Iterable[AccessPolicy]":
    for entry in _read_list(policy, "entries"):
        try:
            yield AccessPolicy(
                AccessResource.parse_resource(read_text(entry, "resource")),
                _read_actions(_read_texts(entry, "actions")),
                allows=read_text(entry, "decision").lower() != _DENY.lower(),
                sources=parse_ranges(",".join(_read_texts(entry, "sourceIps"))),
            )
        except ValueError as error:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, str(error)) from None


def _read_actions(words: list[str]) -> AccessAction:
    if not words:
        raise ValueError("a policy needs actions")
    return AccessAction.parse_actions(",".join("All" if word.lower() == "any" else word for word in words))


def _read_texts(content: "Mapping[object, object]", name: str) -> list[str]:
    """Return the texts of a list, or of a text that has them between commas."""
    value = content.get(name)
    if isinstance(value, str):
        value = value.split(",")
    return [str(each).strip() for each in value if str(each).strip()] if isinstance(value, list) else []


async def remove_policies(context: "RemotingCall") -> "Command":
    """Answer 3008: the policies of a resource, or all of a user."""
    name, wanted = _read_subject(context.command.get_text("subject")), context.command.get_text("resource", "")
    user = await _find_user(name, context)
    for policy in [each for each in user.policies if not wanted or str(each.resource) == wanted]:
        await delete_policy(name, str(policy.resource), context.call, context.services, allows=policy.allows)
    return answer_done()


async def get_policies(context: "RemotingCall") -> "Command":
    """Answer 3009."""
    user = await _find_known(_read_subject(context.command.get_text("subject")), context)
    if user is None:
        raise RequestRefused(ResponseCode.NO_PERMISSION, "The subject is not exist.")
    if not user.policies:
        raise RequestRefused(ResponseCode.POLICY_NOT_EXIST, "The policy not exist.")
    return answer_json(_describe_policies(user, user.policies))


async def list_policies(context: "RemotingCall") -> "Command":
    """Answer 3010: of users and resources that have the filters in them."""
    subject, resource = context.command.get_text("subjectFilter", ""), context.command.get_text("resourceFilter", "")
    listed = []
    for user in await _find_users(context):
        policies = [each for each in user.policies if resource in str(each.resource)]
        if policies and subject in f"{_SUBJECT_PREFIX}{user.name}":
            listed.append(_describe_policies(user, policies))
    return answer_json(listed)


def _read_subject(text: str) -> str:
    """Return the user of `User:NAME`."""
    if not text.startswith(_SUBJECT_PREFIX):
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"{text[:80]!r} is no subject: User:NAME is needed")
    return text.removeprefix(_SUBJECT_PREFIX)


def _describe_policies(user: "AccessUser", policies: "Iterable[AccessPolicy]") -> dict[str, object]:
    entries = [
        {
            "actions": ["All"] if each.actions == ALL_ACTIONS else str(each.actions).split(","),
            "decision": _ALLOW if each.allows else _DENY,
            "resource": str(each.resource),
            "sourceIps": [str(span) for span in each.sources] or None,
        }
        for each in policies
    ]
    return {
        "policies": [{"entries": entries, "policyType": _CUSTOM}],
        "subject": f"{_SUBJECT_PREFIX}{user.name}",
    }
