"""Compares declarations with a server, and applies all changes, or none if one of them is impossible."""

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ternmq_command.terminal.failures import CallRefused, CommandFailure
from ternmq_command.terminal.output import print_json, print_records
from ternmq_command.terminal.printing import echo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ternmq_command.apply.declarations import Declarations
    from ternmq_command.apply.plan import PlannedChange
    from ternmq_command.calls.admin import AdminClient
    from ternmq_command.terminal.output import Record

DONE = {"create": "created", "update": "updated", "nothing": "unchanged"}


def apply_declarations(declared: "Declarations", *, source: str, endpoint: str, dry_run: bool, as_json: bool) -> bool:
    """Create and update the declared resources, or only print the changes of a dry run; return whether any differed.
    `source` names the file.

    Raises CommandFailure if something was refused, then nothing was changed unless the server refused it meanwhile.
    """
    from ternmq_command.calls.admin import AdminClient

    with AdminClient(endpoint) as admin:
        changes = _plan_changes(admin, declared)
        outcomes = [ChangeResult(change, "refused", change.reason) for change in changes if change.is_refused]
        if dry_run:
            _print_plan(changes, as_json=as_json)
        else:
            outcomes = outcomes or [_apply_change(admin, change) for change in changes]
            shown = [outcome.json_record() if as_json else outcome.table_row() for outcome in outcomes]
            print_records(shown, as_json=as_json, nothing=f"{source} declares nothing")
            if not as_json:
                _print_secrets(outcomes)
    refused = [outcome for outcome in outcomes if outcome.word == "refused"]
    if refused:
        first = refused[0]
        consequence = ", so nothing was changed" if first.change.is_refused else ""
        raise CommandFailure(
            f"{len(refused)} of {len(changes)} were refused{consequence}; the first: "
            f"{first.change.kind} {first.change.name}: {first.reason}"
        )
    return any(change.is_needed for change in changes)


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """The result of a change."""

    change: "PlannedChange"
    word: str
    reason: str = ""
    secret: str = field(default="", repr=False)

    def json_record(self) -> "Record":
        """Return the record for programs."""
        changes = {name: {"from": before, "to": after} for name, (before, after) in self.change.settings.items()}
        secret = {"secret": self.secret} if self.secret else {}
        return {**self._common_fields(), "reason": self.reason, "changes": changes, **secret}

    def table_row(self) -> "Record":
        """Return the row of the table; settings of created resources are in the file, so the row leaves them out."""
        return {
            **self._common_fields(),
            "changes": self.change.differences if self.word == "updated" else "",
            "reason": self.reason,
        }

    def _common_fields(self) -> dict[str, object]:
        return {"kind": self.change.kind, "name": self.change.name, "outcome": self.word}


def _plan_changes(admin: "AdminClient", declared: "Declarations") -> "list[PlannedChange]":
    from ternmq.admin import groups as group_calls
    from ternmq.admin import quotas as quota_calls
    from ternmq.admin import topics as topic_calls
    from ternmq.admin import users as user_calls
    from ternmq_command.apply.plan import plan_changes
    from ternmq_command.apply.quota_plan import quota_change
    from ternmq_command.apply.user_plan import user_changes

    topics = {topic.name: topic for topic in admin.send_call(topic_calls.list_topics())}
    groups = {group.name: group for group in admin.send_call(group_calls.list_groups())}
    user_pages = admin.send_pages(user_calls.list_users) if declared.users else ()
    users = {user.name: user for page in user_pages for user in page.users}
    of_users = (user_changes(user, users.get(user.name)) for user in declared.users)
    all_quotas = admin.send_call(quota_calls.list_quotas()).quotas if declared.quotas else ()
    quotas = {f"{quota.kind}:{quota.name}": quota for quota in all_quotas}
    of_quotas = (quota_change(quota, quotas.get(quota.name)) for quota in declared.quotas)
    return [*plan_changes(declared, topics, groups), *itertools.chain.from_iterable(of_users), *of_quotas]


def _apply_change(admin: "AdminClient", change: "PlannedChange") -> ChangeResult:
    """Carry out a change; the server may refuse it although it was possible when it was planned."""
    from ternmq.admin.users import UserSecret

    try:
        answer = admin.send_call(change.call) if change.is_needed else None
    except CallRefused as refusal:
        return ChangeResult(change, "refused", refusal.message)
    secret = answer.secret if isinstance(answer, UserSecret) else ""
    return ChangeResult(change, DONE[change.action.value], secret=secret)


def _print_secrets(outcomes: "Sequence[ChangeResult]") -> None:
    for outcome in outcomes:
        if outcome.secret:
            echo(f"the secret of user {outcome.change.name}, which is not shown again: {outcome.secret}")


def _print_plan(changes: "Sequence[PlannedChange]", *, as_json: bool) -> None:
    shown = [change for change in changes if change.is_needed or change.is_refused]
    if as_json:
        print_json([ChangeResult(change, change.action.value, change.reason).json_record() for change in shown])
    elif shown:
        for change in shown:
            echo(change.text)
    else:
        echo("nothing to do")
