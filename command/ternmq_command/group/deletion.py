"""Describes what the deletion of a group removes and keeps, for the question before it and the message after it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from ternmq_command.terminal.failures import CallRefused
from ternmq_command.terminal.output import format_count
from ternmq_common.names import dead_letter_topic

if TYPE_CHECKING:
    from collections.abc import Callable

    from ternmq_command.calls.admin import AdminClient

T = TypeVar("T")
_NO_RIGHT = ("FORBIDDEN", "UNAUTHORIZED")


@dataclass(frozen=True, slots=True)
class GroupContents:
    """The numbers of a group's unfinished messages, members and dead letters; None where the user lacks the right."""

    messages: int | None
    members: int | None
    dead_letters: int | None

    @staticmethod
    def read_from(admin: "AdminClient", name: str) -> "GroupContents":
        """Read the numbers from the server; raises Refused if there is no such group."""
        from ternmq.admin import groups as group_calls

        described = _if_allowed(lambda: admin.send_call(group_calls.describe_group(name)))
        return GroupContents(
            messages=None if described is None else described.lag,
            members=None if described is None else len(described.client_ids),
            dead_letters=_if_allowed(lambda: _count_dead_letters(admin, name)),
        )

    def deletion_question(self, name: str, *, with_dead_letters: bool) -> str:
        return f"Delete group {name} and its progress{self._describe_contents(with_dead_letters=with_dead_letters)}?"

    def deletion_message(self, name: str, *, with_dead_letters: bool) -> str:
        return f"group {name} deleted{self._describe_contents(with_dead_letters=with_dead_letters)}"

    def deletion_record(self, name: str, *, with_dead_letters: bool) -> dict[str, object]:
        return {
            "name": name,
            "deleted": True,
            "messages": self.messages,
            "members": self.members,
            "dead_letters": self.dead_letters,
            "dead_letters_deleted": with_dead_letters,
        }

    def _describe_contents(self, *, with_dead_letters: bool) -> str:
        letters = None if self.dead_letters is None else format_count(self.dead_letters, "dead letter")
        if letters is None:
            kept = "dead letters are deleted" if with_dead_letters else "dead letters stay"
        elif not self.dead_letters:
            kept = "no dead letters"
        elif with_dead_letters:
            kept = f"{letters} deleted"
        else:
            kept = f"{letters} kept (--with-dead-letters deletes them)"
        known = [
            None if self.messages is None else f"{format_count(self.messages, 'message')} waiting",
            None if self.members is None else format_count(self.members, "member"),
            kept,
        ]
        return f" ({', '.join(each for each in known if each is not None)})"


def _count_dead_letters(admin: "AdminClient", name: str) -> int:
    from ternmq.admin import topics as topic_calls

    try:
        letters = admin.send_call(topic_calls.describe_topic(dead_letter_topic(name)))
    except CallRefused as refusal:
        if refusal.word != "TOPIC_NOT_FOUND":
            raise
        return 0
    return letters.messages


def _if_allowed(ask: "Callable[[], T]") -> "T | None":
    try:
        return ask()
    except CallRefused as refusal:
        if refusal.word not in _NO_RIGHT:
            raise
        return None
