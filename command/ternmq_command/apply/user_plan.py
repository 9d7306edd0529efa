"""Plans the changes that give a server the declared users and policies. Nothing is removed."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ternmq.admin import users as user_calls
from ternmq.admin.users import Policy, User
from ternmq_command.apply.plan import ChangeAction, PlannedChange

if TYPE_CHECKING:
    from ternmq_command.apply.declared_users import DeclaredPolicy, DeclaredUser


def user_changes(declared: "DeclaredUser", there: User | None) -> Iterator[PlannedChange]:
    """Yield the changes of the user, and then one for each policy.

    Raises WrongUsage if the secret of a new user is not in its variable or file.
    """
    given = {"super": declared.is_super, "enabled": declared.enabled}
    wanted = {name: value for name, value in given.items() if value is not None}
    update = user_calls.update_user(declared.name, is_super=declared.is_super, enabled=declared.enabled)
    if there is None:
        creation = user_calls.create_user(declared.name, declared.read_secret(), is_super=declared.is_super or False)
        settings = {name: (None, value) for name, value in wanted.items()}
        yield PlannedChange(
            kind="user", name=declared.name, action=ChangeAction.CREATE, settings=settings, call=creation
        )
        differing: dict[str, tuple[object, object]] = {"enabled": (True, False)} if declared.enabled is False else {}
    else:
        before = {"super": there.is_super, "enabled": there.enabled}
        differing = {name: (before[name], value) for name, value in wanted.items() if before[name] != value}
    if differing or there is not None:
        action = ChangeAction.UPDATE if differing else ChangeAction.NOTHING
        yield PlannedChange(kind="user", name=declared.name, action=action, settings=differing, call=update)
    policies = {(policy.resource, policy.deny): policy for policy in there.policies} if there is not None else {}
    for policy in declared.policies:
        yield _policy_change(declared.name, policy, policies.get((policy.resource, policy.deny)))


def _policy_change(user: str, declared: "DeclaredPolicy", there: Policy | None) -> PlannedChange:
    before = {} if there is None else {"actions": there.actions, "from": list(there.sources)}
    wanted: dict[str, object] = {"actions": declared.actions, "from": list(declared.sources)}
    differing = {name: (before.get(name), value) for name, value in wanted.items() if before.get(name) != value}
    action = ChangeAction.CREATE if there is None else ChangeAction.UPDATE if differing else ChangeAction.NOTHING
    return PlannedChange(
        kind="policy",
        name=f"{user} {'deny' if declared.deny else 'allow'} {declared.resource}",
        action=action,
        settings=differing,
        call=user_calls.put_policy(
            user, declared.resource, declared.actions, deny=declared.deny, sources=declared.sources
        ),
    )
